//! Tests of guests in heaps of threads: limits, statistics of other threads, and when the unit of a
//! guest is freed.
#![expect(unreachable_pub, reason = "the methods of an allocator that the macro declares are public")]

use core::alloc::Layout;
use std::sync::mpsc::channel;
use std::thread;
use std_alloc::vec::Vec;

use allocator_api2::boxed::Box;
// The tests run one at a time, because a thread of one test may hold the record that has the heaps
// of another test.
use ephemera_testkit::suite::take_turn;

use super::this_thread;
use crate::alloc::class_of;
use crate::heap::{PoolEnv, UnitHeap};
use crate::pooled_allocator;

pooled_allocator! {
    struct GuestPool;
}

type Value = Box<[usize; 64], GuestPool>;

/// The number of values: enough for several units.
const VALUES: usize = if cfg!(miri) { 150 } else { 2_000 };

/// Calls `ask` with the heap of this thread for these values.
fn ask_heap<R>(ask: impl FnOnce(&UnitHeap) -> R) -> R {
    let class = class_of(Layout::new::<[usize; 64]>()).expect("values have a class");
    // SAFETY: T2: the thread may use these heaps, and the family has a heap for each class.
    ask(unsafe { GuestPool::__cell().heaps().owner(class) }.heap())
}

fn is_hosting() -> bool {
    ask_heap(UnitHeap::is_hosting)
}

fn value(number: usize) -> Value {
    Box::new_in([number; 64], GuestPool)
}

/// Makes values and replaces them until each unit has been full and then the front again. Then
/// replaces values until the heap hosts, or until it has replaced as many as before.
fn replaced() -> Vec<Value> {
    drop(value(0));
    let data = this_thread::record().expect("the thread has a record").data();
    if !data.selection.selects() {
        // Forget the pause after trials in earlier tests, which may run on the same thread.
        data.selection.reset();
    }
    let mut values: Vec<_> = (0..VALUES).map(value).collect();
    let rounds = if cfg!(miri) { 2 } else { 10 } * VALUES;
    for round in 0..2 * rounds {
        if round >= rounds && is_hosting() {
            break;
        }
        let at = round * 67 % VALUES;
        drop(values.swap_remove(at));
        values.push(value(round));
    }
    values
}

fn free_until_guest(values: &mut Vec<Value>) {
    while ask_heap(UnitHeap::guests) == 0 {
        drop(values.swap_remove(0));
    }
}

#[test]
fn a_heap_with_a_limit_hosts_no_guest() {
    take_turn();
    GuestPool.set_limit(1 << 30);
    let values = replaced();
    let hosts = is_hosting();
    GuestPool.set_limit(usize::MAX);
    drop(values);
    GuestPool.trim();
    assert!(!hosts);
}

#[test]
fn a_heap_that_hosts_stops_after_its_family_got_a_limit() {
    take_turn();
    let mut values = replaced();
    free_until_guest(&mut values);
    GuestPool.set_limit(1 << 30);
    for round in 0..if cfg!(miri) { 200 } else { 20_000 } {
        let at = round * 67 % values.len();
        drop(values.swap_remove(at));
        values.push(value(round));
    }
    let hosts = is_hosting();
    GuestPool.set_limit(usize::MAX);
    drop(values);
    GuestPool.trim();
    assert!(!hosts);
}

#[test]
fn another_thread_counts_one_slot_of_a_hosting_heap_as_unsettled() {
    take_turn();
    let (send, receive) = channel();
    let (wake, sleep) = channel::<()>();
    let owner = thread::spawn(move || {
        let mut values = replaced();
        free_until_guest(&mut values);
        let in_front = ask_heap(UnitHeap::live_in_front);
        send.send((values.len(), in_front, GuestPool.stats())).expect("the test receives");
        // A failed test drops the sender too, which ends the wait.
        let _ = sleep.recv();
    });
    let (live, in_front, own) = receive.recv().expect("the owner sends");
    let seen = GuestPool.stats();
    assert_eq!((own.slots_live, own.unsettled_slots), (live, 0));
    assert_eq!(own.bytes_live, live * size_of::<[usize; 64]>());
    assert_eq!(seen.slots_live, live - in_front, "the guest does not count as live");
    assert_eq!(seen.bytes_live, (live - in_front) * size_of::<[usize; 64]>());
    assert!(seen.unsettled_slots > in_front, "{seen:?}");
    drop(wake);
    owner.join().expect("no panic");
    assert_eq!(GuestPool.stats().slots_live, 0);
}

#[test]
fn the_unit_of_a_guest_is_freed_at_the_end_of_its_thread() {
    take_turn();
    thread::spawn(|| {
        let mut values = replaced();
        free_until_guest(&mut values);
        values.clear();
        let stats = GuestPool.stats();
        assert_eq!((stats.slots_live, stats.empty_units), (0, stats.units));
    })
    .join()
    .expect("no panic");
    assert_eq!(GuestPool.stats().bytes_held, 0);
}

#[test]
fn a_thread_that_replaces_values_does_the_work_of_the_slow_path() {
    take_turn();
    let visits = || this_thread::record().expect("the thread has a record").data().visits.get();
    let mut values = replaced();
    free_until_guest(&mut values);
    let (rounds, visit_every) = if cfg!(miri) { (300, 256) } else { (100_000, 8_192) };
    let before = visits();
    for round in 0..rounds {
        let at = round * 67 % values.len();
        drop(values.swap_remove(at));
        values.push(value(round));
        // In one of 1,000 rounds, an allocation misses.
        if round % 1_000 == 0 {
            let pair = (values.pop(), values.pop());
            drop(pair);
            values.extend([value(round), value(round)]);
        }
    }
    let visited = visits() - before;
    assert!(visited >= rounds / visit_every, "{visited} visits to the slow path or inspections");
    assert!(is_hosting());
    drop(values);
    GuestPool.trim();
}

#[test]
fn a_thread_that_freed_everything_keeps_one_unit_for_a_guest() {
    take_turn();
    let mut values = replaced();
    free_until_guest(&mut values);
    values.clear();
    // The heap keeps three empty units, its front, and the unit of the guest.
    assert!(GuestPool.stats().units <= 5, "{:?}", GuestPool.stats());
    GuestPool.trim();
    assert_eq!(GuestPool.stats().bytes_held, 0);
}
