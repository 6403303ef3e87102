//! blink-alloc: a bump arena with the trait of allocator-api2 0.4. Version 0.4.0 compares the start
//! of a freed block with its cursor, which is at the end of the last block. So it reuses nothing
//! before a reset.

use core::alloc::Layout;
use core::fmt;
use core::ptr::{NonNull, null_mut};

use allocator_api2_04::alloc::{AllocError, Allocator, Global};
use blink_alloc::BlinkAlloc;

use super::System;
use crate::backing::CountingBacking;
use crate::blocks::{Contender, RawAlloc};
use crate::card::{Caps, Info, MemoryBy};

/// An arena over `A`, reset after every sample or batch within the measured time.
pub struct Blink<A: Allocator>(BlinkAlloc<A>);

/// A reference to the arena.
pub struct BlinkRef<'a, A: Allocator>(&'a BlinkAlloc<A>);

impl<A: Allocator> fmt::Debug for Blink<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blink").finish_non_exhaustive()
    }
}

impl<A: Allocator> fmt::Debug for BlinkRef<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlinkRef").finish_non_exhaustive()
    }
}

impl<A: Allocator> Clone for BlinkRef<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Allocator> Copy for BlinkRef<'_, A> {}

#[inline(always)]
fn thin(block: Result<NonNull<[u8]>, AllocError>) -> *mut u8 {
    block.map_or(null_mut(), |block| block.cast::<u8>().as_ptr())
}

// SAFETY: `Allocator` makes the promises of `RawAlloc`: valid and exclusive blocks, equivalent
// references.
unsafe impl<A: Allocator> RawAlloc for BlinkRef<'_, A> {
    #[inline(always)]
    unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8 {
        thin(Allocator::allocate(self.0, layout))
    }

    #[inline(always)]
    unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        thin(Allocator::allocate_zeroed(self.0, layout))
    }

    #[inline(always)]
    unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller gives up a block of this allocator, and blocks are never null.
        let ptr = unsafe { NonNull::new_unchecked(ptr) };
        // SAFETY: the caller's duty is the callee's.
        unsafe { Allocator::deallocate(self.0, ptr, layout) }
    }

    #[inline(always)]
    unsafe fn raw_grow(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: the caller gives up a block of this allocator, and blocks are never null.
        let ptr = unsafe { NonNull::new_unchecked(ptr) };
        // SAFETY: the caller's duty is the callee's.
        thin(unsafe { Allocator::grow(self.0, ptr, old, new) })
    }

    #[inline(always)]
    unsafe fn raw_shrink(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: the caller gives up a block of this allocator, and blocks are never null.
        let ptr = unsafe { NonNull::new_unchecked(ptr) };
        // SAFETY: the caller's duty is the callee's.
        thin(unsafe { Allocator::shrink(self.0, ptr, old, new) })
    }
}

/// A backing allocator with a default value, which the card requires.
pub trait Backing: Allocator + Default + 'static {}

impl Backing for Global {}
impl Backing for CountingBacking {}

impl<A: Backing> Contender for Blink<A> {
    const INFO: Info = Info {
        name: "blink-alloc",
        version: env!("EPHEMERA_VERSION_BLINK_ALLOC"),
        caps: Caps::ARENA,
        memory: MemoryBy::Backing,
        notes: "reuses no single block; reset",
    };
    type Metered = Blink<CountingBacking>;
    type Backing = System;
    type Ref<'a> = BlinkRef<'a, A>;

    fn create() -> Self {
        Self(BlinkAlloc::new_in(A::default()))
    }

    fn by_ref(&self) -> BlinkRef<'_, A> {
        BlinkRef(&self.0)
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}
