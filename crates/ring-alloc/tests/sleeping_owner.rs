//! Memory of a burst leaves while the burst is freed, although every thread sleeps right after it.
//! No operation follows the last free, and nothing trims.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]
// The sanitizer's shadow memory stays resident.
#![cfg(not(ephemera_poison = "asan"))]

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use bursts::{After, BURST, Burst, CHUNK, KEPT, PAGE, SHORT, burst, check_repeated, in_order, measured};

#[path = "support/bursts.rs"]
mod bursts;

/// The tests of this file take turns.
static TURN: Mutex<()> = Mutex::new(());

fn in_reverse(blocks: &mut Burst) {
    blocks.iter_mut().rev().for_each(|block| *block = None);
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
        // A scope does not wait for the end of thread exit, which frees chunks.
        owner.join().expect("no panic");
        after
    })
}

/// Checks what stays of a burst that another thread frees: the page of each chunk's header, and the
/// last page of each chunk, which is not whole.
fn check_remote(free: fn(&mut Burst)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let left = remote(free, BURST, 1)[0].left;
    assert!(left < BURST / CHUNK * 2 * PAGE + KEPT, "{left} bytes stay");
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
fn repeated_bursts_that_another_thread_frees_keep_their_pages_after_a_few() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    check_repeated(&remote(in_order, SHORT, 10));
}
