//! Tests that other threads purge memory while the thread that allocated it sleeps. The owner stays
//! asleep until the check, and no thread trims.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]
// The sanitizer's shadow memory stays resident.
#![cfg(not(ephemera_poison = "asan"))]

use core::time::Duration;
use std::sync::{Barrier, Mutex};
use std::thread;

use ephemera_testkit::bursts;
use typed_pool::{PooledAllocator, pages};

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// A lock that each test of this file holds, so that the tests run one at a time.
static TURN: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;
const BURST: usize = 32 * MIB;

/// The length of a pause. An owner that takes no slow path for this long is idle.
const PAUSE: Duration = Duration::from_millis(250);

/// The number of large blocks that another thread allocates after each pause.
const VISITS: usize = 4_000;

/// The maximum number of pauses after which the memory must have been returned. Together with
/// [`VISITS`], it bounds the number of operations. Two pauses suffice if no other heaps are in the
/// queue, but it may contain heaps of ended tests.
const PAUSES: usize = 8;

type Block = Box<[u64]>;

/// Returns the resident bytes of the process, without the bytes in the cache of freed pages.
fn resident() -> usize {
    bursts::resident().saturating_sub(pages::usage().bytes_cached)
}

/// Takes slow paths, on a thread that neither owns nor freed the memory.
fn other_threads_work() {
    let sizes = (0..VISITS).map(|number| 40_000 + number % 8);
    assert!(sizes.map(|size| vec![1_u8; size].len()).all(|size| size >= 40_000));
}

/// Allocates a burst of blocks on a thread that then sleeps until the check is over. That thread
/// first drops the blocks that `keeps` does not return. Another thread then drops the remaining
/// blocks, except for the blocks that `frees` returns. Checks that no more than `allowed` bytes of
/// the burst stay resident.
fn check(
    words: usize,
    keeps: fn(Vec<Block>) -> Vec<Block>,
    frees: fn(Vec<Block>) -> Vec<Block>,
    allowed: usize,
) {
    let _turn = TURN.lock();
    pages::purge();
    let (asleep, awake) = (Barrier::new(2), Barrier::new(2));
    let shared = Mutex::new(Vec::new());
    thread::scope(|threads| {
        let before = resident();
        threads.spawn(|| {
            let count = BURST / (8 * words);
            let blocks = (0..count).map(|number| vec![number as u64; words].into_boxed_slice());
            let blocks = keeps(blocks.collect());
            *shared.lock().expect("no panic") = blocks;
            asleep.wait();
            awake.wait();
            // The owner allocates from its purged units again.
            let again: Vec<Block> = (0..count).map(|number| vec![number as u64; words].into()).collect();
            let right = |(number, block): (usize, &Block)| block.iter().all(|word| *word == number as u64);
            assert!(again.iter().enumerate().all(right), "a block was given out twice");
        });
        asleep.wait();
        let blocks = core::mem::take(&mut *shared.lock().expect("no panic"));
        let rest = threads.spawn(move || frees(blocks)).join().expect("no panic");
        // Looks before and after a pause find that the owner took no slow path. A look during the
        // frees may have seen units that were not empty yet. The next look at these units comes
        // after one more pause.
        let left_after = |pause| {
            thread::sleep(pause);
            threads.spawn(other_threads_work).join().expect("no panic");
            resident().saturating_sub(before)
        };
        let mut left = left_after(Duration::ZERO);
        for _ in 0..PAUSES {
            if left > allowed {
                left = left_after(PAUSE);
            }
        }
        awake.wait();
        drop(rest);
        assert!(left <= allowed, "{left} bytes stay");
    });
}

fn all(blocks: Vec<Block>) -> Vec<Block> {
    blocks
}

fn none(blocks: Vec<Block>) -> Vec<Block> {
    drop(blocks);
    Vec::new()
}

/// The total size of the pages with the units' headers, in bytes. These pages stay resident: 4 KiB
/// of every 32 KiB.
const HEADERS: usize = BURST / 8;
const SLACK: usize = 6 * MIB;

#[test]
fn memory_leaves_after_another_thread_frees_what_a_sleeping_thread_allocated() {
    check(8, all, none, HEADERS + SLACK);
}

#[test]
fn memory_leaves_after_another_thread_frees_it_in_reverse() {
    let reverse = |mut blocks: Vec<Block>| {
        while let Some(block) = blocks.pop() {
            drop(block);
        }
        Vec::new()
    };
    check(8, all, reverse, HEADERS + SLACK);
}

#[test]
fn memory_leaves_after_its_owner_frees_one_half_and_another_thread_the_other() {
    let half = |blocks: Vec<Block>| blocks.into_iter().step_by(2).collect();
    check(8, half, none, HEADERS + SLACK);
}

#[test]
fn memory_of_large_classes_leaves_except_for_the_headers() {
    // Each unit has 256 KiB, and only the page with its header stays resident.
    check(1_000, all, none, BURST / 32 + SLACK);
}

#[test]
fn a_live_block_keeps_only_its_own_unit() {
    // One block in about two units stays live.
    let some = |blocks: Vec<Block>| blocks.into_iter().step_by(1_000).collect();
    check(8, all, some, HEADERS + BURST * 5 / 8 + SLACK);
}
