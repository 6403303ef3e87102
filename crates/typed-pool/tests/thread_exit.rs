//! Tests of thread-locals whose destructors drop and allocate values. The destructors are
//! registered before or after the first use of the pools.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/threads.rs"]
mod support;

use alloc::vec::Vec;
use core::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use allocator_api2::boxed::Box as Block;
use support::{here_or_miri, joined};
use typed_pool::{PooledBox, pooled, pooled_allocator};

pooled_allocator! {
    /// The allocator of these tests.
    struct Blocks;
}

struct Value(usize, [u64; 3]);
pooled!(Value, chunk_len = 8);

/// A value of a type with a pool, and a block of a pooled allocator.
struct Both(PooledBox<Value>, Block<[u32; 5], Blocks>);

fn both(number: usize) -> Both {
    Both(PooledBox::new(Value(number, [7; 3])), Block::new_in([number as u32; 5], Blocks))
}

fn some(count: usize) -> Vec<Both> {
    (0..count).map(both).collect()
}

fn check_all(all: &[Both]) {
    for Both(value, block) in all {
        assert_eq!((value.1, **block), ([7; 3], [value.0 as u32; 5]));
    }
}

/// The content of a thread-local. Its destructor drops the values and makes new ones.
struct AtExit {
    values: Vec<Both>,
    to: Sender<Both>,
}

impl Drop for AtExit {
    fn drop(&mut self) {
        check_all(&self.values);
        self.values.truncate(2);
        let fresh = some(12);
        check_all(&fresh);
        self.values.clear();
        check_all(&fresh);
        self.to.send(both(9)).unwrap_or_else(|_| unreachable!("the other end is open"));
        PooledBox::<Value>::trim_all();
        Blocks.trim_all();
        self.to.send(both(9)).unwrap_or_else(|_| unreachable!("the other end is open"));
    }
}

thread_local! {
    static EARLY: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

/// A step of a thread that uses its thread-locals and the pools in a given order.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// Registers the destructor of `EARLY`.
    Early,
    /// Registers the destructor of `LATE`.
    Late,
    /// Uses the pools for the first time.
    Use,
}

fn exits(steps: &'static [Step]) {
    let (to, from) = channel();
    let abroad = some(6);
    joined(thread::spawn(move || {
        let register = |slot: &RefCell<Option<AtExit>>| {
            *slot.borrow_mut() = Some(AtExit { values: Vec::new(), to: to.clone() });
        };
        for step in steps {
            match step {
                Step::Early => EARLY.with(register),
                Step::Late => LATE.with(register),
                Step::Use => check_all(&some(6)),
            }
        }
        // One destructor gets values of this thread. The other destructor gets values of another
        // thread.
        let fill = |slot: &RefCell<Option<AtExit>>, values| {
            if let Some(at_exit) = slot.borrow_mut().as_mut() {
                at_exit.values = values;
            }
        };
        if steps.contains(&Step::Use) {
            EARLY.with(|slot| fill(slot, some(12)));
        }
        LATE.with(|slot| fill(slot, abroad));
    }));
    let sent: Vec<Both> = from.iter().collect();
    assert_eq!(sent.len(), 2 * steps.iter().filter(|step| **step != Step::Use).count());
    check_all(&sent);
}

/// Runs a test, then checks that no memory is held. The tests of this file run one at a time,
/// because they share their pools.
fn check_nothing_held_after(test: impl FnOnce()) {
    ephemera_testkit::suite::take_turn();
    test();
    PooledBox::<Value>::trim_all();
    Blocks.trim_all();
    let (values, blocks) = (PooledBox::<Value>::stats(), Blocks.stats());
    assert_eq!((values.slots_live, values.bytes_held), (0, 0), "{values:?}");
    assert_eq!((blocks.slots_live, blocks.bytes_held), (0, 0), "{blocks:?}");
}

#[test]
fn conc_a_destructor_registered_before_the_first_use_frees_its_values() {
    check_nothing_held_after(|| exits(&[Step::Early, Step::Use]));
}

#[test]
fn conc_a_destructor_registered_after_the_first_use_frees_its_values() {
    check_nothing_held_after(|| exits(&[Step::Use, Step::Early]));
}

#[test]
fn conc_destructors_registered_before_and_after_the_first_use_free_their_values() {
    check_nothing_held_after(|| {
        exits(&[Step::Early, Step::Use, Step::Late]);
        exits(&[Step::Late, Step::Use, Step::Early]);
    });
}

#[test]
fn conc_destructors_may_be_the_first_to_use_the_pools() {
    check_nothing_held_after(|| exits(&[Step::Early, Step::Late]));
}

/// Values that a destructor makes after its thread's exit hook has run stay valid while another
/// thread holds the record.
#[test]
fn conc_a_record_is_taken_over_while_values_of_its_last_thread_are_live() {
    check_nothing_held_after(|| {
        let (to, from) = channel();
        joined(thread::spawn(move || {
            EARLY.with(|slot| *slot.borrow_mut() = Some(AtExit { values: Vec::new(), to }));
            check_all(&some(6));
        }));
        let left: Vec<Both> = from.iter().collect();
        let ((ready, holds), (go, dropped)) = (channel(), channel::<()>());
        let next = thread::spawn(move || {
            let values = some(here_or_miri(200, 20));
            ready.send(()).expect("the test waits");
            dropped.recv().expect("the test sends");
            check_all(&values);
            values
        });
        holds.recv().expect("the thread holds the record");
        check_all(&left);
        drop(left);
        go.send(()).expect("the thread waits");
        check_all(&joined(next));
    });
}

/// The content of a thread-local. Its destructor may run after the exit hook, and makes values
/// while the next holder of the record also makes values.
struct AfterExit {
    here: Sender<Sender<Vec<Both>>>,
}

impl Drop for AfterExit {
    fn drop(&mut self) {
        let (to, from) = channel();
        self.here.send(to).expect("the test waits");
        let values = some(12);
        check_all(&values);
        from.recv().map(|others| check_all(&others)).expect("the values of the other thread");
        check_all(&values);
    }
}

thread_local! {
    static AFTER_EXIT: RefCell<Option<AfterExit>> = const { RefCell::new(None) };
}

#[test]
fn conc_after_its_exit_hook_a_thread_owns_nothing() {
    check_nothing_held_after(|| {
        for users_first in [true, false] {
            let (here, from) = channel();
            let ends = thread::spawn(move || {
                let register = || AFTER_EXIT.with(|slot| *slot.borrow_mut() = Some(AfterExit { here }));
                if users_first {
                    register();
                    some(2)
                } else {
                    let values = some(2);
                    register();
                    values
                }
            });
            let to = from.recv().expect("the destructor");
            // This thread takes over the record of the other thread, if that thread has released
            // it.
            let values = joined(thread::spawn(|| {
                let values = some(12);
                check_all(&values);
                values
            }));
            to.send(values).expect("the destructor waits");
            // The thread's values are live until here, so the thread ended with free slots in its
            // front.
            check_all(&joined(ends));
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "fifty threads, several times")]
fn fifty_threads_one_after_another_leave_nothing() {
    check_nothing_held_after(|| {
        for round in 0..50 {
            let steps: &'static [Step] = match round % 5 {
                0 => &[Step::Early, Step::Use],
                1 => &[Step::Use, Step::Early],
                2 => &[Step::Early, Step::Use, Step::Late],
                3 => &[Step::Late, Step::Use, Step::Early],
                _ => &[Step::Early, Step::Late],
            };
            exits(steps);
        }
        assert!(PooledBox::<Value>::stats().state_bytes < 64 << 10);
    });
}
