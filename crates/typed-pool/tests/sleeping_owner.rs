//! Memory of a burst leaves while the burst is freed, although every thread sleeps right after it.
//! No operation follows the last free, and nothing trims.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]
// The sanitizer's shadow memory stays resident.
#![cfg(not(ephemera_poison = "asan"))]

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ephemera_prim::pages;
use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// The tests of this file take turns.
static TURN: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;
const BURST: usize = 64 * MIB;
/// The bytes of repeated bursts. They are short, so that each follows the last one soon.
const SHORT: usize = 16 * MIB;

/// Sizes of the blocks of a burst, in words: many classes, with units of two lengths.
const WORDS: [usize; 8] = [3, 6, 12, 20, 40, 60, 80, 120];

/// The bytes that may stay beside the header of each unit: empty units that the heaps keep, and the
/// front of each class.
const KEPT: usize = 3 * MIB;
const HEADERS: usize = BURST / 8;

type Burst = Vec<Box<[u64]>>;

/// Returns the resident bytes of the process.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("the system has this file");
    let pages = pages.split(' ').nth(1).and_then(|word| word.parse::<usize>().ok());
    pages.expect("the second word is a number") * 4_096
}

/// Allocates blocks of this number of bytes together.
fn burst(bytes: usize) -> Burst {
    let mean = 8 * WORDS.iter().sum::<usize>() / WORDS.len();
    (0..bytes / mean).map(|number| vec![number as u64; WORDS[number % WORDS.len()]].into()).collect()
}

fn in_order(blocks: &mut Burst) {
    blocks.iter_mut().for_each(|block| drop(core::mem::take(block)));
}

fn in_reverse(blocks: &mut Burst) {
    blocks.iter_mut().rev().for_each(|block| drop(core::mem::take(block)));
}

/// Returns the page faults of the process so far.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the system has this file");
    let after_name = stat.rsplit(')').next().expect("the name of the program");
    // The fields after the name start with the third one, and `minflt` is the tenth.
    after_name.split_whitespace().nth(7).and_then(|word| word.parse().ok()).expect("a number")
}

/// What a burst left behind.
struct After {
    /// The bytes that stay resident, without the list of the blocks.
    left: usize,
    /// The page faults during its allocation.
    faults: u64,
}

/// Measures a burst that `make` allocates and `free` frees.
fn measured(make: impl FnOnce() -> Burst, free: fn(&mut Burst)) -> After {
    let (before, faults_before) = (resident(), faults());
    let mut blocks = make();
    let faults = faults() - faults_before;
    free(&mut blocks);
    let list = blocks.capacity() * size_of::<Box<[u64]>>();
    After { left: resident().saturating_sub(before + list), faults }
}

/// A thread allocates bursts and sleeps after each, and this thread frees them.
fn remote(free: fn(&mut Burst), bytes: usize, bursts: usize) -> Vec<After> {
    let (send, receive): (SyncSender<Burst>, Receiver<Burst>) = sync_channel(1);
    let (order, orders) = sync_channel(1);
    thread::scope(|threads| {
        let owner = threads.spawn(move || orders.iter().for_each(|()| send.send(burst(bytes)).unwrap_or(())));
        let make = || {
            order.send(()).expect("the owner waits");
            receive.recv().expect("the owner sends")
        };
        let after = (0..bursts).map(|_| measured(make, free)).collect();
        drop(order);
        // A scope does not wait for the end of thread exit, which frees units.
        owner.join().expect("no panic");
        after
    })
}

/// Checks what stays of a burst that another thread frees.
fn check_remote(free: fn(&mut Burst)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    pages::purge();
    let left = remote(free, BURST, 1)[0].left;
    assert!(left < HEADERS + KEPT, "{left} bytes stay");
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
fn burst_that_its_owner_frees_leaves_without_a_later_operation() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    pages::purge();
    let left = measured(|| burst(BURST), in_order).left;
    // 4 MiB of them are the cache of the process.
    assert!(left < 4 * MIB + KEPT, "{left} bytes stay");
}

#[test]
fn repeated_bursts_that_another_thread_frees_keep_their_pages_after_a_few() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    pages::purge();
    let after = remote(in_order, SHORT, 10);
    let faults: Vec<_> = after.iter().map(|burst| burst.faults).collect();
    let all = (SHORT / 4_096) as u64;
    assert!(faults[8..].iter().all(|later| *later < all / 4), "{faults:?}");
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
        // 200 MiB have 51,200 pages.
        assert!(faults < 5_000, "{faults} page faults");
    });
}
