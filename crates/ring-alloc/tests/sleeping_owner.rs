//! Tests that the memory of a burst leaves the process while another thread frees the burst, and
//! that repeated bursts keep their pages. All threads sleep right after the last free: no operation
//! follows, and no thread trims.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]
// The shadow memory of AddressSanitizer stays resident.
#![cfg(not(ephemera_poison = "asan"))]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use bursts::{BURST, Burst, KEPT, SHORT, burst, in_order, left};
use ephemera_testkit::bursts::{check_pages_are_kept, freed_elsewhere, huge_page_excess, two_freed_at_once};

#[path = "support/bursts.rs"]
mod bursts;

/// Serialises the tests of this file, and lets the process forget the bursts of earlier tests.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    ring_alloc::pages::purge();
    turn
}

fn in_reverse(blocks: &mut Burst) {
    blocks.iter_mut().rev().for_each(|block| *block = None);
}

/// Frees the blocks on two threads. Each thread frees every second piece of 100 blocks, which fill
/// about three chunks.
fn on_two_threads(blocks: &mut Burst) {
    let mut halves = [Vec::new(), Vec::new()];
    blocks.chunks_mut(100).enumerate().for_each(|(number, piece)| halves[number % 2].push(piece));
    thread::scope(|threads| {
        for half in halves {
            threads.spawn(|| half.into_iter().flatten().for_each(|block| *block = None));
        }
    });
}

/// Checks how much memory of a burst stays after another thread has freed the burst.
fn check_remote(free: fn(&mut Burst)) {
    let _turn = turn();
    let left = left(freed_elsewhere(|| burst(BURST), free, 1)[0]);
    assert!(left < KEPT + huge_page_excess(1), "{left} bytes stay");
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
    check_remote(on_two_threads);
}

#[test]
fn two_bursts_that_are_freed_at_once_leave_without_a_later_operation() {
    let _turn = turn();
    let left = left(two_freed_at_once(|| burst(BURST / 2), in_order));
    assert!(left < KEPT + huge_page_excess(1), "{left} bytes stay");
}

#[test]
fn repeated_bursts_that_another_thread_frees_keep_their_pages_after_a_few() {
    let _turn = turn();
    check_pages_are_kept(&freed_elsewhere(|| burst(SHORT), in_order, 10), SHORT);
}
