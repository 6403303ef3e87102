//! The suite of all allocators, stamped on `PooledAllocator`, and on one of its kind under a limit.
#![cfg(feature = "std")]

use ephemera_testkit::allocator_suite;
use ephemera_testkit::errand::{Done, Errand};
use ephemera_testkit::subject::Subject;
use typed_pool::{PooledAllocator, Stats};

/// Class edges, what goes to the backing allocator, and units.
const SIZES: &[usize] = &[24, 80, 112, 320, 640, 896, 1_024, 32 << 10, 64 << 10];

/// Nothing is alive, and nothing is held that could go back.
fn at_rest(stats: Stats) -> usize {
    // Live blocks would be held: those of a run that failed before are not this run's fault.
    assert_eq!(stats.unread_heaps, 0);
    stats.bytes_held
}

/// The allocator of all threads.
struct Pooled;

impl Subject for Pooled {
    type Alloc<'s> = PooledAllocator;
    const HAND_OVER: bool = true;
    const GLOBAL_STATE: bool = true;

    fn fresh(&self) -> PooledAllocator {
        PooledAllocator
    }

    fn sizes(&self) -> &[usize] {
        SIZES
    }

    fn trim(&self, pools: &PooledAllocator) {
        pools.trim_all();
    }

    fn elsewhere(&self, pools: &PooledAllocator, errand: Errand) -> Done {
        errand.run_elsewhere(pools)
    }

    fn finish(&self, pools: PooledAllocator) -> usize {
        pools.trim_all();
        at_rest(pools.stats())
    }
}

allocator_suite!(all_threads, Pooled);

// Miri has time for each path once: it has seen these without a limit.
#[cfg(not(miri))]
mod limited {
    use core::alloc::Layout;

    use ephemera_testkit::allocator_suite;
    use ephemera_testkit::errand::{Done, Errand};
    use ephemera_testkit::subject::Subject;
    use typed_pool::pooled_allocator;

    use super::{SIZES, at_rest};

    pooled_allocator! {
        /// Another one, under a limit.
        struct Limited;
    }

    /// Bytes that the limited one may hold: a few units, and few of the larger blocks that are drawn.
    const LIMIT: usize = 256 << 10;

    /// By how much shrinks may exceed that.
    const BEYOND: usize = 64 << 10;

    struct UnderLimit;

    impl UnderLimit {
        fn new() -> Self {
            Limited.set_limit(LIMIT);
            Self
        }
    }

    impl Subject for UnderLimit {
        type Alloc<'s> = Limited;
        const HAND_OVER: bool = true;
        const GLOBAL_STATE: bool = true;

        fn fresh(&self) -> Limited {
            Limited
        }

        fn sizes(&self) -> &[usize] {
            SIZES
        }

        fn may_refuse(&self, _: Layout) -> bool {
            true
        }

        fn trim(&self, pools: &Limited) {
            pools.trim();
            // A shrink that has to move its block may exceed the limit.
            assert!(pools.stats().bytes_held <= LIMIT + BEYOND, "{:?}", pools.stats());
        }

        fn elsewhere(&self, pools: &Limited, errand: Errand) -> Done {
            errand.run_elsewhere(pools)
        }

        fn finish(&self, pools: Limited) -> usize {
            pools.trim_all();
            at_rest(pools.stats())
        }
    }

    allocator_suite!(under_a_limit, UnderLimit::new());
}
