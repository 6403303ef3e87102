//! Runs the suite of all allocators on `PooledAllocator`, and on another pooled allocator under a
//! limit.
#![cfg(feature = "std")]

use ephemera_testkit::allocator_suite;
use ephemera_testkit::job::{JobResult, ThreadJob};
use ephemera_testkit::subject::Subject;
use typed_pool::{PooledAllocator, Stats};

/// Sizes at the edges of classes and units, and sizes above all classes.
const SIZES: &[usize] = &[24, 80, 112, 320, 640, 896, 1_024, 32 << 10, 64 << 10];

/// Returns the bytes held, and checks that the statistics include all heaps.
fn at_rest(stats: Stats) -> usize {
    // This function does not check the number of live blocks, because an earlier failed run may
    // have left blocks.
    assert_eq!(stats.unread_heaps, 0);
    stats.bytes_held
}

/// `PooledAllocator` as a subject of the suite.
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

    fn run_job(&self, pools: &PooledAllocator, job: ThreadJob) -> JobResult {
        job.run_elsewhere(pools)
    }

    fn finish(&self, pools: PooledAllocator) -> usize {
        pools.trim_all();
        at_rest(pools.stats())
    }
}

allocator_suite!(all_threads, Pooled);

// Miri does not run this module, because the run without a limit already covers these paths.
#[cfg(not(miri))]
mod limited {
    use core::alloc::Layout;

    use ephemera_testkit::allocator_suite;
    use ephemera_testkit::job::{JobResult, ThreadJob};
    use ephemera_testkit::subject::Subject;
    use typed_pool::pooled_allocator;

    use super::{SIZES, at_rest};

    pooled_allocator! {
        /// An allocator under a limit.
        struct Limited;
    }

    /// The limit, in bytes. It has room for a few units, and for a few of the suite's larger
    /// blocks.
    const LIMIT: usize = 256 << 10;

    /// The number of bytes by which shrinks may exceed the limit.
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
            // A shrink that must move its block may exceed the limit.
            assert!(pools.stats().bytes_held <= LIMIT + BEYOND, "{:?}", pools.stats());
        }

        fn run_job(&self, pools: &Limited, job: ThreadJob) -> JobResult {
            job.run_elsewhere(pools)
        }

        fn finish(&self, pools: Limited) -> usize {
            pools.trim_all();
            at_rest(pools.stats())
        }
    }

    allocator_suite!(under_a_limit, UnderLimit::new());
}
