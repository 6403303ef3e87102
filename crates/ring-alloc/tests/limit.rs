//! Tests that the limit on bytes held is exact, that refusals have no effect, and that statistics
//! agree with the backing allocator's counts.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/checked.rs"]
mod checked;
#[path = "support/process.rs"]
mod process;
#[path = "support/tiny.rs"]
mod tiny;

use allocator_api2::alloc::{AllocError, Allocator};
use allocator_api2::boxed::Box;
use checked::{Checked, layout};
use ephemera_testkit::SplitMix;
use ephemera_testkit::backing::Counting;
use ephemera_testkit::suite::take_turn;
use process::{Unlimited, clean};
use ring_alloc::{Builder, Geometry, OneRingAlloc, RingAlloc, Standard};
use tiny::Tiny;

/// The numbers of bytes that a ring requests for its own state and for a chunk of each class.
#[derive(Debug, Clone, Copy)]
struct Prices {
    state: usize,
    small: usize,
    medium: usize,
}

fn prices<G: Geometry>() -> Prices {
    let backing = Counting::new();
    let ring = Builder::new().geometry::<G>().build_in(&backing);
    let state = backing.held().bytes;
    let mut blocks = Checked::new(&ring);
    blocks.allocate(layout(1, 1)).expect("served");
    let small = backing.held().bytes - state;
    blocks.allocate(layout(G::SMALL_MAX + 1, 1)).expect("served");
    Prices { state, small, medium: backing.held().bytes - state - small }
}

/// Allocates until a refusal, and returns the number of blocks served.
fn fill<A: Allocator>(blocks: &mut Checked<'_, A>, size: usize) -> usize {
    (0..).take_while(|_| blocks.allocate(layout(size, 8)).is_ok()).count()
}

fn limit_is_exact<G: Geometry>() {
    let Prices { state, small, medium } = prices::<G>();
    for (size, chunk) in
        [(G::SMALL_MAX, small), (G::MEDIUM_MAX, medium), (G::MEDIUM_MAX + 8, G::MEDIUM_MAX + 8)]
    {
        let limit = state + 3 * chunk;
        let backing = Counting::new();
        let ring = Builder::new().geometry::<G>().limit(limit).build_in(&backing);
        let mut blocks = Checked::new(&ring);
        let served = fill(&mut blocks, size);
        assert_eq!(
            (backing.held().bytes, backing.held().peak),
            (limit, limit),
            "{size} bytes: not all of the limit is used"
        );
        assert_eq!((ring.stats().bytes_held, ring.stats().limit), (limit, limit));
        assert_eq!(backing.calls().refused, 0, "the ring requested more than its limit");
        drop(blocks);

        let backing = Counting::new();
        let ring = Builder::new().geometry::<G>().limit(limit - 1).build_in(&backing);
        let fewer = fill(&mut Checked::new(&ring), size);
        assert!(fewer < served, "{size} bytes: a limit one byte lower allows as many chunks");
        assert!(backing.held().peak <= limit - chunk, "{size} bytes: {:?}", backing.held());
    }
}

#[test]
fn limit_is_exact_in_every_class() {
    limit_is_exact::<Tiny>();
    limit_is_exact::<Standard>();
}

#[test]
fn state_of_a_ring_counts_towards_its_limit() {
    let state = prices::<Standard>().state;
    let backing = Counting::new();
    assert!(Builder::new().limit(state - 1).try_build_in(&backing).is_err());
    assert_eq!(backing.calls().allocate, 0);
    let ring = Builder::new().limit(state).try_build_in(&backing).expect("just enough");
    assert!(ring.allocate(layout(1, 1)).is_err());
    assert!(ring.allocate(layout(0, 1)).is_ok());
}

#[test]
fn try_build_returns_an_error_where_the_limit_is_too_low_for_the_state() {
    const SETTINGS: Builder = RingAlloc::builder();
    assert_eq!(SETTINGS.limit(1).try_build().err(), Some(AllocError));
    let ring = SETTINGS.retain(0).try_build().expect("no limit");
    assert_eq!(*Box::new_in(5_u8, &ring), 5);
}

#[test]
fn large_blocks_grow_up_to_the_limit() {
    let backing = Counting::new();
    let state = prices::<Standard>().state;
    let ring = Builder::new().limit(state + 200_000).build_in(&backing);
    let mut blocks = Checked::new(&ring);
    blocks.allocate(layout(100_000, 8)).expect("served");
    assert_eq!(blocks.resize(0, layout(200_001, 8), false), Err(AllocError));
    assert_eq!(blocks.resize(0, layout(200_001, 8), true), Err(AllocError));
    blocks.resize(0, layout(200_000, 8), false).expect("exactly the limit");
    assert_eq!(blocks.allocate(layout(1, 1)), Err(AllocError));
    blocks.resize(0, layout(150_000, 8), false).expect("a shrink is not refused");
    blocks.allocate(layout(1, 1)).expect("the limit allows a chunk again");
    assert_eq!(backing.held().peak, state + 200_000);
}

#[test]
fn vector_shrinks_at_the_limit() {
    let ring = Builder::new().limit(100_000).build();
    let mut few = allocator_api2::vec::Vec::with_capacity_in(70_000, ring.clone());
    few.push(7_u8);
    let few = few.into_boxed_slice();
    assert_eq!((few.len(), few[0]), (1, 7));
    assert!(ring.stats().bytes_held <= 100_000, "the large block was not freed");
}

#[test]
fn block_shrinks_into_another_class_at_the_limit() {
    // Every operation checks all blocks, so under Miri the test allocates fewer and larger blocks.
    const SIZE: usize = if cfg!(miri) { 20_000 } else { 3_000 };
    const LEAST: usize = if cfg!(miri) { 10 } else { 50 };
    let Prices { state, medium, .. } = prices::<Standard>();
    let backing = Counting::new();
    let ring = Builder::new().limit(state + medium).build_in(&backing);
    let mut blocks = Checked::new(&ring);
    let served = fill(&mut blocks, SIZE);
    assert!(served > LEAST, "{served} blocks in a chunk of 256 KiB");
    for index in 0..served {
        blocks.resize(index, layout(100, 8), false).expect("a shrink is not refused");
    }
    assert!(blocks.allocate(layout(SIZE, 8)).is_ok(), "the chunk of the larger blocks is not reused");
}

#[test]
fn empty_chunks_of_another_class_are_freed_before_a_refusal() {
    let Prices { state, small, medium } = prices::<Tiny>();
    for (first, second) in [(64, 256), (256, 64), (64, 500), (256, 500)] {
        let backing = Counting::new();
        let limit = state + 2 * medium + small / 2;
        let ring = Builder::new().geometry::<Tiny>().retain(8).limit(limit).build_in(&backing);
        let mut blocks = Checked::new(&ring);
        assert!(fill(&mut blocks, first) > 0);
        assert_eq!(blocks.allocate(layout(500, 8)), Err(AllocError));
        while !blocks.oracle.is_empty() {
            blocks.free(0);
        }
        blocks
            .allocate(layout(second, 8))
            .unwrap_or_else(|_| panic!("{second} bytes after {first} were refused"));
        assert!(backing.held().peak <= limit);
    }
}

#[test]
fn refusal_changes_nothing() {
    let backing = Counting::new();
    let ring = Builder::new().geometry::<Tiny>().limit(4_000).build_in(&backing);
    let mut blocks = Checked::new(&ring);
    assert!(fill(&mut blocks, 40) > 10);
    let before = ring.stats();
    assert_eq!(blocks.allocate(layout(60, 16)), Err(AllocError));
    for (index, size) in [(0, 64), (1, 200), (2, 2_000)] {
        assert_eq!(blocks.resize(index, layout(size, 8), true), Err(AllocError), "{size} bytes");
    }
    assert_eq!(ring.stats(), before);
    // A shrink in place does not allocate.
    for index in 0..blocks.oracle.len() {
        blocks.resize(index, layout(8, 8), false).expect("in place");
    }
    while blocks.oracle.len() > 1 {
        blocks.free(0);
    }
    blocks.allocate(layout(64, 16)).expect("the frees made room");
}

/// Performs random operations. After each operation, compares the statistics with the counts of the
/// backing allocator and of the oracle.
fn stats_are_exact<G: Geometry>(limit: usize, steps: usize) {
    let backing = Counting::new();
    let ring = Builder::new().geometry::<G>().limit(limit).build_in(&backing);
    let mut blocks = Checked::new(&ring);
    let mut rng = SplitMix::new(11);
    let Prices { state, small, medium } = prices::<G>();
    for step in 0..steps {
        let most = [G::SMALL_MAX, G::SMALL_MAX, G::MEDIUM_MAX, 2 * G::MEDIUM_MAX][rng.below(4)];
        let asked = layout(1 + rng.below(most), 1 << rng.below(8));
        let pick = rng.below(blocks.oracle.len().max(1));
        let before = backing.held().bytes;
        let mut shrinks = false;
        backing.reset_peak();
        match rng.below(8) {
            0..4 => drop(blocks.allocate(asked)),
            4 if !blocks.oracle.is_empty() => {
                shrinks = asked.size() < blocks.oracle.blocks()[pick].layout().size();
                assert!(blocks.resize(pick, asked, false).is_ok() || !shrinks, "a shrink is not refused");
            }
            5 if step % 50 == 0 => ring.flush(),
            _ if !blocks.oracle.is_empty() => blocks.free(pick),
            _ => {}
        }
        let stats = ring.stats();
        assert_eq!((stats.blocks_live, stats.bytes_live), (blocks.oracle.len(), blocks.oracle.bytes()));
        assert_eq!((stats.blocks_live(), stats.bytes_live()), (stats.blocks_live, stats.bytes_live));
        assert_eq!(stats.bytes_held, backing.held().bytes);
        // Only a shrink that moves its block may exceed the limit, and only by one chunk.
        let allowed = if shrinks { before.max(limit).saturating_add(medium) } else { before.max(limit) };
        assert!(backing.held().peak <= allowed, "{shrinks}: {:?} of {limit}", backing.held());
        assert_eq!(stats.chunks(), stats.small.chunks + stats.medium.chunks);
        assert_eq!(
            (stats.small.bytes_held, stats.medium.bytes_held),
            (stats.small.chunks * small, stats.medium.chunks * medium)
        );
        let (large, chunks) = (stats.large.bytes_held, stats.small.bytes_held + stats.medium.bytes_held);
        assert_eq!(stats.bytes_held, state + large + chunks);
        assert_eq!(large, stats.large.bytes_live);
        assert_eq!(backing.held().blocks, 1 + stats.chunks() + stats.large.blocks_live);
        for class in [stats.small, stats.medium] {
            let filling = class.chunks - class.empty_chunks - class.pinned_chunks;
            assert!(filling <= 1, "more than one front has live blocks: {class:?}");
        }
    }
    drop(blocks);
    assert_eq!((ring.stats().blocks_live(), ring.stats().pinned_chunks()), (0, 0));
    ring.flush();
    assert_eq!((ring.stats().chunks(), backing.held().bytes), (0, state));
}

#[test]
fn statistics_are_exact_after_every_operation() {
    let steps = if cfg!(miri) { 40 } else { 5_000 };
    stats_are_exact::<Tiny>(usize::MAX, steps);
    stats_are_exact::<Tiny>(8_000, steps);
    stats_are_exact::<Standard>(1 << 20, if cfg!(miri) { 25 } else { 3_000 });
}

#[test]
fn pinned_chunks_stay_until_their_last_block_is_freed() {
    let ring = Builder::new().geometry::<Tiny>().retain(9).build_in(Counting::new());
    let block = || Box::new_in([7_u8; 64], &ring);
    let pinned =
        || (ring.stats().small.chunks, ring.stats().pinned_chunks(), ring.stats().small.empty_chunks);
    let first = block();
    assert_eq!(pinned(), (1, 0, 0), "the front is not pinned");
    let second = block();
    assert_eq!(pinned(), (2, 1, 0), "a tiny chunk holds one block");
    let third = block();
    assert_eq!(pinned(), (3, 2, 0));
    drop(second);
    assert_eq!(pinned(), (3, 1, 1));
    drop(third);
    assert_eq!(pinned(), (3, 1, 2), "the front and one more are empty");
    drop(first);
    assert_eq!(pinned(), (3, 0, 3));
    ring.flush();
    assert_eq!(pinned(), (0, 0, 0));
}

#[test]
fn ring_keeps_retain_chunks_and_the_front() {
    for retain in [0, 1, 5] {
        let ring = Builder::new().geometry::<Tiny>().retain(retain).build_in(Counting::new());
        let blocks: alloc::vec::Vec<_> = (0..20).map(|byte| Box::new_in([byte; 64], &ring)).collect();
        assert_eq!(ring.stats().chunks(), 20);
        drop(blocks);
        assert_eq!(ring.stats().chunks(), retain + 1, "`retain` chunks and the front");
    }
}

#[test]
fn limit_of_one_ring_alloc_is_exact() {
    take_turn();
    let _unlimited = Unlimited;
    let before = clean();
    let limit = before + 3 * prices::<Standard>().small;
    OneRingAlloc.set_limit(limit);
    assert_eq!(OneRingAlloc.stats().limit, limit);
    let mut blocks = Checked::new(&OneRingAlloc);
    assert!(fill(&mut blocks, 1_000) >= 90, "three chunks of 32 KiB");
    let stats = OneRingAlloc.stats();
    assert_eq!((stats.bytes_held, stats.blocks_live()), (limit, blocks.oracle.len()));
    assert_eq!(stats.bytes_live(), blocks.oracle.bytes());
    // Under a lowered limit, requests for new memory are refused, but the chunks that are held
    // stay, and their room is reused.
    OneRingAlloc.set_limit(0);
    assert_eq!(blocks.allocate(layout(100_000, 8)), Err(AllocError));
    blocks.free(blocks.oracle.len() - 1);
    blocks.allocate(layout(1_000, 8)).expect("room in a chunk that is held");
    drop(blocks);
    assert_eq!(clean(), before);
    assert!(OneRingAlloc.allocate(layout(1, 1)).is_err());
    OneRingAlloc.set_limit(usize::MAX);
    drop(Box::new_in(1_u8, OneRingAlloc));
    assert_eq!(clean(), before);
}

#[test]
fn conc_limit_counts_the_chunk_of_an_ended_thread_until_its_last_block_is_freed() {
    take_turn();
    let _unlimited = Unlimited;
    // Bind this thread to a record, so that the thread below gets another record.
    drop(Box::new_in(1_u8, OneRingAlloc));
    let before = clean();
    let left = std::thread::spawn(|| Box::new_in([1_u8; 100], OneRingAlloc));
    let left = left.join().expect("the thread does not panic");
    let held = OneRingAlloc.stats().bytes_held;
    assert!(held > before);
    OneRingAlloc.set_limit(held);
    assert!(OneRingAlloc.allocate(layout(1, 1)).is_err());
    // This free empties a chunk of a record without a holder, so it also frees the chunk. The freed
    // bytes suffice for exactly one chunk of this thread.
    drop(left);
    assert_eq!(OneRingAlloc.stats().bytes_held, before);
    let mut blocks = Checked::new(&OneRingAlloc);
    assert!(fill(&mut blocks, 1_000) >= 30);
    assert_eq!(OneRingAlloc.stats().bytes_held, held);
    drop(blocks);
    assert_eq!(clean(), before);
}
