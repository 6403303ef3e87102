//! Tests that the memory of a burst returns to the operating system while the burst is freed. No
//! operation follows the last free, and no thread trims.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]
// The sanitizer's shadow memory stays resident.
#![cfg(not(ephemera_poison = "asan"))]

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ephemera_prim::pages;
use ephemera_testkit::bursts::{
    check_pages_are_kept, faults, freed_elsewhere, huge_page_excess, measured, two_freed_at_once,
};
use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// A lock that each test of this file holds, so that the tests run one at a time.
static TURN: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;
const BURST: usize = 64 * MIB;
/// The size of each repeated burst in bytes. A small size lets the bursts follow each other
/// quickly.
const SHORT: usize = 16 * MIB;

/// The sizes of the blocks of a burst, in words. The blocks have many classes, with units of two
/// lengths.
const WORDS: [usize; 8] = [3, 6, 12, 20, 40, 60, 80, 120];

/// The number of bytes that may stay resident in addition to the headers of the units: empty units
/// that the heaps keep, and the front of each class.
const KEPT: usize = 3 * MIB;
const HEADERS: usize = BURST / 8;

type Burst = Vec<Box<[u64]>>;

/// The mean size of a block in bytes.
const MEAN: usize = {
    let (mut sum, mut at) = (0, 0);
    while at < WORDS.len() {
        sum += WORDS[at] * 8;
        at += 1;
    }
    sum / WORDS.len()
};

/// The size, in bytes, of the list of a burst's blocks.
const LIST: usize = BURST / MEAN * size_of::<Box<[u64]>>();

/// Allocates blocks of `bytes` bytes in total.
fn burst(bytes: usize) -> Burst {
    (0..bytes / MEAN).map(|number| vec![number as u64; WORDS[number % WORDS.len()]].into()).collect()
}

fn in_order(blocks: &mut Burst) {
    blocks.iter_mut().for_each(|block| drop(core::mem::take(block)));
}

fn in_reverse(blocks: &mut Burst) {
    blocks.iter_mut().rev().for_each(|block| drop(core::mem::take(block)));
}

/// Frees the blocks on two threads. Each thread frees every second piece of 128 blocks.
fn on_two_threads(blocks: &mut Burst) {
    let mut halves = [Vec::new(), Vec::new()];
    blocks.chunks_mut(128).enumerate().for_each(|(number, piece)| halves[number % 2].push(piece));
    thread::scope(|threads| {
        for half in halves {
            threads.spawn(|| half.into_iter().flatten().for_each(|block| drop(core::mem::take(block))));
        }
    });
}

/// Checks how much memory stays resident after another thread has freed a burst.
fn check_remote(free: fn(&mut Burst)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    pages::purge();
    let memory = freed_elsewhere(|| burst(BURST), free, 1)[0];
    assert!(memory.after < memory.before + LIST + HEADERS + KEPT, "{memory:?}");
}

#[test]
fn burst_that_another_thread_frees_leaves_without_a_later_operation() {
    check_remote(in_order);
}

#[test]
fn burst_that_another_thread_frees_in_reverse_leaves_without_a_later_operation() {
    check_remote(in_reverse);
}

#[test]
fn burst_that_two_threads_free_leaves_without_a_later_operation() {
    /// The size of a block in words. A unit of 256 KiB has room for about 31 of these blocks, so
    /// each thread frees whole units.
    const LARGE: usize = 1_000;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let burst = || (0..BURST / (8 * LARGE)).map(|number| vec![number as u64; LARGE].into()).collect();
    pages::purge();
    let memory = freed_elsewhere(burst, on_two_threads, 1)[0];
    assert!(memory.after < memory.before + HEADERS + KEPT, "{memory:?}");
}

#[test]
fn two_bursts_that_are_freed_at_once_leave_without_a_later_operation() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    pages::purge();
    let memory = two_freed_at_once(|| burst(BURST / 2), in_order);
    assert!(memory.after < memory.before + LIST + HEADERS + 2 * KEPT, "{memory:?}");
}

#[test]
fn burst_that_its_owner_frees_leaves_without_a_later_operation() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    pages::purge();
    let memory = measured(|| burst(BURST), in_order);
    // The process caches up to 4 MiB of pages. The cached spans have two lengths.
    let cached = 4 * MIB + huge_page_excess(2);
    assert!(memory.after < memory.before + LIST + cached + KEPT, "{memory:?}");
}

#[test]
fn repeated_bursts_that_another_thread_frees_keep_their_pages_after_a_few() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    pages::purge();
    check_pages_are_kept(&freed_elsewhere(|| burst(SHORT), in_order, 10), SHORT);
}

#[test]
fn steady_hand_over_is_not_purged() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (send, receive): (SyncSender<Burst>, Receiver<Burst>) = sync_channel(4);
    thread::scope(|threads| {
        let owner = threads.spawn(move || {
            // The first batches are new memory.
            let batch = || send.send(burst(MIB / 4)).expect("the other thread receives");
            (0..40).for_each(|_| batch());
            let before = faults();
            (0..800).for_each(|_| batch());
            faults() - before
        });
        receive.iter().for_each(drop);
        let faults = owner.join().expect("no panic");
        // The 800 batches of 256 KiB have 51,200 pages.
        assert!(faults < 5_000, "{faults} page faults");
    });
}
