//! Tests that memory leaves the process while its owner, the thread that allocated it, sleeps. The
//! owner does not run before the check, and no thread trims.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]
// The shadow memory of AddressSanitizer stays resident.
#![cfg(not(ephemera_poison = "asan"))]

use core::time::Duration;
use std::sync::{Barrier, Mutex};
use std::thread;

use allocator_api2::boxed::Box;
use ephemera_testkit::bursts::{huge_page_excess, resident};
use ring_alloc::OneRingAlloc;

/// Serialises the tests of this file.
static TURN: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;
const BURST: usize = 32 * MIB;

/// A pause without slow paths, long enough for an owner to become idle.
const PAUSE: Duration = Duration::from_millis(250);

/// The number of rounds of slow paths after each pause. In each round, another thread fills about
/// ten chunks, and takes the slow path once for each chunk.
const ROUNDS: usize = 200;

/// The number of pauses within which the memory must leave the process. Together with [`ROUNDS`],
/// it bounds the number of operations. Two pauses suffice, unless a look during the frees saw
/// chunks that were not empty yet.
const PAUSES: usize = 8;

/// The number of resident bytes that the test allows for other memory of the process: chunks that
/// threads retain, and cached spans. It is less than a page of each small chunk, so a resident page
/// in each of them fails the test.
const SLACK: usize = 7 * MIB / 2;

type Block<const WORDS: usize> = Box<[u64; WORDS], OneRingAlloc>;

fn block<const WORDS: usize>(number: usize) -> Block<WORDS> {
    Box::new_in([number as u64; WORDS], OneRingAlloc)
}

/// Allocates and frees blocks, so that the thread takes slow paths. The caller runs this on a
/// thread that neither owns nor freed the memory.
fn other_threads_work() {
    for round in 0..ROUNDS {
        let blocks: Vec<_> = (0..150).map(|number| block::<256>(round + number)).collect();
        assert_eq!(blocks[149][255], (round + 149) as u64);
    }
}

/// Allocates a burst of blocks on a thread, the owner. The owner drops the blocks that `keeps` does
/// not return, and then sleeps until the check is over. Another thread drops the remaining blocks,
/// except for the blocks that `frees` returns. Checks that at most `allowed` bytes of the burst
/// stay resident.
fn check<const WORDS: usize>(
    keeps: fn(Vec<Block<WORDS>>) -> Vec<Block<WORDS>>,
    frees: fn(Vec<Block<WORDS>>) -> Vec<Block<WORDS>>,
    allowed: usize,
) {
    let _turn = TURN.lock();
    // Let the process forget the bursts of earlier tests.
    ring_alloc::pages::purge();
    let (asleep, awake) = (Barrier::new(2), Barrier::new(2));
    let shared = Mutex::new(Vec::new());
    thread::scope(|threads| {
        threads.spawn(|| {
            let count = BURST / (8 * WORDS);
            *shared.lock().expect("no panic") = keeps((0..count).map(block).collect());
            asleep.wait();
            awake.wait();
            // The owner reuses its purged memory.
            let again: Vec<Block<WORDS>> = (0..count).map(block).collect();
            let right =
                |(number, block): (usize, &Block<WORDS>)| block.iter().all(|word| *word == number as u64);
            assert!(again.iter().enumerate().all(right), "a block was handed out twice");
        });
        asleep.wait();
        // Compare with the peak, because cached spans may have served the burst.
        let peak = resident();
        let blocks = core::mem::take(&mut *shared.lock().expect("no panic"));
        let rest = threads.spawn(move || frees(blocks)).join().expect("no panic");
        let left_after = |pause| {
            thread::sleep(pause);
            threads.spawn(other_threads_work).join().expect("no panic");
            (resident() + BURST).saturating_sub(peak)
        };
        let mut left = left_after(Duration::ZERO);
        for _ in 0..PAUSES {
            if left > allowed {
                left = left_after(PAUSE);
            }
        }
        awake.wait();
        assert!(rest.iter().all(|block| block.iter().all(|word| *word == block[0])), "a live block changed");
        assert!(peak > BURST, "the burst was not resident");
        let allowed = allowed + huge_page_excess(2);
        assert!(left <= allowed, "{left} bytes stay, {allowed} are allowed");
    });
}

fn all<T>(blocks: Vec<T>) -> Vec<T> {
    blocks
}

fn none<T>(blocks: Vec<T>) -> Vec<T> {
    drop(blocks);
    Vec::new()
}

#[test]
fn memory_leaves_after_another_thread_frees_what_a_sleeping_thread_allocated() {
    check::<8>(all, none, SLACK);
}

#[test]
fn memory_leaves_after_another_thread_frees_it_in_reverse() {
    let reverse = |mut blocks: Vec<Block<8>>| {
        while let Some(block) = blocks.pop() {
            drop(block);
        }
        Vec::new()
    };
    check::<8>(all, reverse, SLACK);
}

#[test]
fn memory_leaves_after_its_owner_frees_one_half_and_another_thread_the_other() {
    let half = |blocks: Vec<Block<8>>| blocks.into_iter().step_by(2).collect();
    check::<8>(half, none, SLACK);
}

#[test]
fn memory_of_medium_blocks_leaves_after_another_thread_frees_it() {
    check::<1_000>(all, none, SLACK);
}

#[test]
fn surviving_block_keeps_only_its_own_chunk() {
    // A chunk has 507 blocks, so about every second chunk has a block that survives.
    let some = |blocks: Vec<Block<8>>| blocks.into_iter().step_by(1_018).collect();
    check::<8>(all, some, BURST / 2 + SLACK + 2 * MIB);
}
