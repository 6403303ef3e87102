//! Runs the common suite of all allocators on the rings: with tiny and with standard chunks,
//! without kept chunks, under a limit, and on all threads.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

#[cfg(not(miri))]
#[path = "support/divided.rs"]
mod divided;
#[path = "support/tiny.rs"]
mod tiny;

use core::alloc::Layout;

#[cfg(not(miri))]
use divided::Divided;
use ephemera_testkit::allocator_suite;
use ephemera_testkit::backing::{Hostile, Refusals};
use ephemera_testkit::job::{JobResult, ThreadJob};
use ephemera_testkit::subject::Subject;
use ring_alloc::{Builder, Geometry, OneRingAlloc, RingAlloc, Standard};
use tiny::Tiny;

/// The limit of the limited ring in bytes. It allows a few chunks of each class and a few large
/// blocks.
#[cfg(not(miri))]
const LIMIT: usize = 1 << 20;

/// A ring of geometry `G` over a hostile backing allocator, as a subject of the suite.
struct Ring<G> {
    backing: Hostile,
    builder: Builder<G>,
    sizes: &'static [usize],
    limit: usize,
}

/// Returns the size of the header of a small chunk. It is 256 bytes if each small block fits into
/// three sections of the chunk, which can then be divided, and 128 otherwise.
const fn small_header<G: Geometry>() -> usize {
    let hole = 3 * (G::SMALL_CHUNK / 32);
    let is_divisible = 256_usize.next_multiple_of(G::SMALL_ALIGN) + G::SMALL_MAX + 16 <= hole;
    if is_divisible { 256 } else { 128 }
}

/// Returns the largest sizes and alignments of the classes, the room in an empty chunk, and the
/// chunk sizes.
const fn sizes<G: Geometry>() -> &'static [usize] {
    const {
        &[
            G::SMALL_MAX,
            G::MEDIUM_MAX,
            G::SMALL_ALIGN,
            G::MEDIUM_ALIGN,
            G::SMALL_CHUNK - small_header::<G>() - 16,
            G::MEDIUM_CHUNK - 128 - 16,
            G::SMALL_CHUNK,
            G::MEDIUM_CHUNK,
        ]
    }
}

impl<G: Geometry> Ring<G> {
    fn new(builder: Builder<G>) -> Self {
        Self { backing: Hostile::new(), builder, sizes: sizes::<G>(), limit: usize::MAX }
    }
}

impl<G: Geometry + Copy> Subject for Ring<G> {
    type Alloc<'s> = RingAlloc<&'s Hostile, G>;
    const REFUSES_HUGE: bool = true;

    fn fresh(&self) -> Self::Alloc<'_> {
        self.builder.build_in(&self.backing)
    }

    fn sizes(&self) -> &[usize] {
        self.sizes
    }

    fn may_refuse(&self, _: Layout) -> bool {
        self.limit != usize::MAX
    }

    fn trim(&self, ring: &Self::Alloc<'_>) {
        ring.flush();
        assert_eq!(ring.stats().bytes_held, self.backing.held().bytes);
    }

    fn refusals(&self) -> Option<&Refusals> {
        Some(self.backing.refusals())
    }

    fn finish(&self, ring: Self::Alloc<'_>) -> usize {
        let stats = ring.stats();
        assert_eq!((stats.blocks_live(), stats.bytes_live(), stats.pinned_chunks()), (0, 0, 0));
        assert_eq!(stats.bytes_held, self.backing.held().bytes);
        drop(ring);
        // Shrinks that move a block to another class ignore the limit. Together they may exceed it
        // by one chunk of each class.
        let most = self.limit.saturating_add(G::SMALL_CHUNK + G::MEDIUM_CHUNK);
        assert!(self.backing.held().peak <= most, "the limit was exceeded: {:?}", self.backing.held());
        self.backing.held().bytes
    }
}

fn tiny() -> Builder<Tiny> {
    Builder::new().geometry()
}

allocator_suite!(tiny_chunks_limited, Ring { limit: 1 << 16, ..Ring::new(tiny().limit(1 << 16)) });
allocator_suite!(standard_chunks, Ring::<Standard>::new(Builder::new()));

// Under Miri, the two suites above cover these paths, and the unit tests of sparse rings cover the
// paths of divided chunks.
allocator_suite!(
    #[cfg(not(miri))]
    divided_chunks,
    Ring::<Divided>::new(Builder::new().geometry().retain(0)),
);
allocator_suite!(
    #[cfg(not(miri))]
    tiny_chunks,
    Ring::new(tiny()),
);
allocator_suite!(
    #[cfg(not(miri))]
    tiny_chunks_none_kept,
    Ring::new(tiny().retain(0)),
);
allocator_suite!(
    #[cfg(not(miri))]
    standard_chunks_none_kept,
    Ring::<Standard>::new(Builder::new().retain(0)),
);
allocator_suite!(
    #[cfg(not(miri))]
    standard_chunks_limited,
    Ring { limit: LIMIT, ..Ring::<Standard>::new(Builder::new().limit(LIMIT)) },
);

/// `OneRingAlloc` as a subject of the suite.
struct One;

impl Subject for One {
    type Alloc<'s> = OneRingAlloc;
    const HAND_OVER: bool = true;
    const GLOBAL_STATE: bool = true;

    fn fresh(&self) -> OneRingAlloc {
        OneRingAlloc
    }

    fn sizes(&self) -> &[usize] {
        sizes::<Standard>()
    }

    fn trim(&self, ring: &OneRingAlloc) {
        ring.clean_global();
        ring.clean_local();
    }

    fn run_job(&self, ring: &OneRingAlloc, job: ThreadJob) -> JobResult {
        job.run_elsewhere(ring)
    }

    fn finish(&self, ring: OneRingAlloc) -> usize {
        ring.clean_local();
        ring.clean_global();
        // Do not check `blocks_live`, because blocks that a failed run left live must not fail
        // later runs.
        ring.stats().bytes_held
    }
}

allocator_suite!(all_threads, One);
