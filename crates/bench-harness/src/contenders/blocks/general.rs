//! General allocators: zero-sized contenders, which the harness calls directly. The process does
//! not set a global allocator, so its own allocations are in the system's heap.

use core::alloc::{GlobalAlloc, Layout};

use super::Api02;
use crate::blocks::{Contender, RawAlloc};
use crate::card::{Caps, Info};

/// A contender that implements `GlobalAlloc`. It grows and shrinks with `realloc`.
pub(crate) trait Library: Copy + 'static {
    /// The type of the allocator, which need not be `Copy`.
    type Alloc: GlobalAlloc;

    const ALLOC: Self::Alloc;
}

// SAFETY: the contract of `GlobalAlloc` includes that of `RawAlloc`, on every thread.
unsafe impl<L: Library> RawAlloc for L {
    #[inline(always)]
    unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the callee's contract.
        unsafe { L::ALLOC.alloc(layout) }
    }

    #[inline(always)]
    unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the callee's contract.
        unsafe { L::ALLOC.alloc_zeroed(layout) }
    }

    #[inline(always)]
    unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the callee's contract.
        unsafe { L::ALLOC.dealloc(ptr, layout) }
    }

    #[inline(always)]
    unsafe fn raw_resize<const GROW: bool>(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        // SAFETY: the block was allocated with `old`, and `new` has the same alignment and is not
        // empty. The size of a `Layout` does not overflow when it is rounded up to the alignment.
        unsafe { L::ALLOC.realloc(ptr, old, new.size()) }
    }
}

/// Defines a zero-sized contender. `$lent` is the type that a workload holds. `$below` is the heap
/// that is littered before a workload on a littered heap runs.
macro_rules! stateless {
    ($(#[$doc:meta])* $name:ident: $lent:ty = $value:expr, over $below:ty, $info:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;

        impl Contender for $name {
            const INFO: Info = $info;
            type Metered = Self;
            type Backing = $below;
            type Ref<'a> = $lent;

            fn create() -> Self {
                Self
            }

            fn by_ref(&self) -> $lent {
                $value
            }
        }
    };
}

/// Defines a contender for a third-party general allocator.
macro_rules! library {
    ($(#[$doc:meta])* $name:ident = $alloc:path, $info:expr) => {
        stateless! { $(#[$doc])* $name: Self = Self, over Self, $info }

        impl Library for $name {
            type Alloc = $alloc;
            const ALLOC: $alloc = $alloc;
        }
    };
}

/// Defines a contender for a general allocator that implements `Allocator` of allocator-api2 0.2.
/// Before a workload on a littered heap, the harness litters the system's heap.
macro_rules! chunked {
    ($(#[$doc:meta])* $name:ident = $alloc:path, $info:expr) => {
        stateless! { $(#[$doc])* $name: Api02<$alloc> = Api02($alloc), over System, $info }
    };
}

library! {
    /// The system's allocator (glibc's on Linux). It is the reference of every table.
    System = std::alloc::System,
    Info::new(if cfg!(target_env = "gnu") { "glibc" } else { "system" }, "", Caps::GENERAL, "reference")
}
#[cfg(feature = "c-peers")]
library! {
    /// mimalloc, without its secure mode. It is a C library, so the compiler cannot inline its
    /// calls.
    MiMalloc = mimalloc::MiMalloc,
    Info::new("mimalloc", env!("EPHEMERA_VERSION_MIMALLOC"), Caps::GENERAL, "C, not inlined")
}
#[cfg(feature = "c-peers")]
library! {
    /// jemalloc, with its default options. It is a C library, so the compiler cannot inline its
    /// calls.
    Jemalloc = tikv_jemallocator::Jemalloc,
    Info::new("jemalloc", env!("EPHEMERA_VERSION_TIKV_JEMALLOC_SYS"), Caps::GENERAL, "C, not inlined")
}
#[cfg(feature = "cpp-peers")]
library! {
    /// snmalloc, without its checks. It is a C++ library, so the compiler cannot inline its calls.
    SnMalloc = snmalloc_rs::SnMalloc,
    Info::new("snmalloc", env!("EPHEMERA_VERSION_SNMALLOC_SYS"), Caps::GENERAL, "C++, not inlined")
}
chunked! {
    OurOneRing = ring_alloc::OneRingAlloc,
    Info::new("OneRingAlloc", env!("EPHEMERA_VERSION_RING_ALLOC"), Caps::GENERAL, "")
}
chunked! {
    OurPooled = typed_pool::PooledAllocator,
    Info::new("PooledAllocator", env!("EPHEMERA_VERSION_TYPED_POOL"), Caps::GENERAL, "")
}
chunked! {
    /// Upstream's `OneRingAlloc`. At thread exit it writes to memory that it has freed, which
    /// corrupts the heap of the whole process.
    UpstreamOneRing = upstream_ring_alloc::OneRingAlloc,
    Info::new(
        "upstream OneRingAlloc",
        env!("EPHEMERA_VERSION_UPSTREAM_RING_ALLOC"),
        Caps { threads_end: false, ..Caps::GENERAL },
        "",
    )
}
