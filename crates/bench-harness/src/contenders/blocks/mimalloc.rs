//! mimalloc through `GlobalAlloc`. It is a C library, so no call is inlined.

use core::alloc::{GlobalAlloc, Layout};

use super::global::Global;
use crate::blocks::Contender;
use crate::card::{Caps, Info, MemoryBy};

/// mimalloc, without its secure mode.
#[derive(Clone, Copy, Debug)]
pub struct MiMalloc;

impl Contender for MiMalloc {
    const INFO: Info = Info {
        name: "mimalloc",
        version: env!("EPHEMERA_VERSION_MIMALLOC"),
        caps: Caps::GENERAL,
        memory: MemoryBy::HighWater,
        notes: "C, not inlined",
    };
    type Metered = Self;
    type Backing = Self;
    type Ref<'a> = Global<Library>;

    fn create() -> Self {
        Self
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Global(Library)
    }
}

/// A wrapper of the library's own type, which is not `Copy`.
#[derive(Clone, Copy, Debug)]
pub struct Library;

// SAFETY: every call goes to the library's own implementation.
unsafe impl GlobalAlloc for Library {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { mimalloc::MiMalloc.alloc(layout) }
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { mimalloc::MiMalloc.alloc_zeroed(layout) }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { mimalloc::MiMalloc.dealloc(ptr, layout) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's duty is the callee's.
        unsafe { mimalloc::MiMalloc.realloc(ptr, layout, new_size) }
    }
}
