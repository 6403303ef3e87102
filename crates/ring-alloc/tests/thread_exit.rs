//! Tests that destructors of thread-locals can free and allocate blocks, in whatever order the
//! destructors were registered.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/blocks.rs"]
mod blocks;

use core::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use blocks::{Balanced, Bytes, SIZES, check, check_all, filled, joined, some};
use ring_alloc::OneRingAlloc;

/// The value of a thread-local. Its destructor allocates blocks, and frees the blocks in the value.
struct AtExit {
    blocks: alloc::vec::Vec<Bytes>,
    to: Option<Sender<Bytes>>,
}

impl Drop for AtExit {
    fn drop(&mut self) {
        check_all(&self.blocks);
        self.blocks.truncate(2);
        for (number, bytes) in self.blocks.iter_mut().enumerate() {
            bytes.resize(bytes.len() + 50, number as u8);
            bytes.shrink_to_fit();
        }
        let fresh = some(12);
        check_all(&fresh);
        self.blocks.clear();
        check_all(&fresh);
        if let Some(to) = &self.to {
            to.send(filled(9, SIZES[2])).expect("the other end is open");
            to.send(filled(9, SIZES[3])).expect("the other end is open");
        }
        // Trim while the sent blocks are live. The thread may have released its record already.
        OneRingAlloc.clean_local();
        OneRingAlloc.clean_global();
    }
}

thread_local! {
    static EARLY: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

/// An action that a thread performs before it exits.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Registers the destructor of `EARLY`.
    Early,
    /// Registers the destructor of `LATE`.
    Late,
    /// Uses the ring.
    Use,
}

fn exits(steps: &'static [Step]) {
    let _balanced = Balanced::new();
    let (to, from) = channel();
    let abroad = some(6);
    joined(thread::spawn(move || {
        let register = |slot: &RefCell<Option<AtExit>>| {
            *slot.borrow_mut() = Some(AtExit { blocks: alloc::vec::Vec::new(), to: Some(to.clone()) });
        };
        for step in steps {
            match step {
                Step::Early => EARLY.with(register),
                Step::Late => LATE.with(register),
                Step::Use => check_all(&some(6)),
            }
        }
        // `EARLY` gets blocks of this thread if there is a `Use`. `LATE` gets blocks of another
        // thread.
        let fill = |slot: &RefCell<Option<AtExit>>, blocks| {
            if let Some(at_exit) = slot.borrow_mut().as_mut() {
                at_exit.blocks = blocks;
            }
        };
        if steps.iter().any(|step| matches!(step, Step::Use)) {
            EARLY.with(|slot| fill(slot, some(12)));
        }
        LATE.with(|slot| fill(slot, abroad));
    }));
    let sent: alloc::vec::Vec<Bytes> = from.iter().collect();
    assert_eq!(sent.len(), 2 * steps.iter().filter(|step| !matches!(step, Step::Use)).count());
    sent.iter().for_each(|bytes| check(9, bytes));
}

#[test]
fn conc_destructor_registered_before_the_first_use_may_allocate() {
    exits(&[Step::Early, Step::Use]);
}

#[test]
fn conc_destructor_registered_after_the_first_use_may_allocate() {
    exits(&[Step::Use, Step::Early]);
}

#[test]
fn conc_destructors_registered_before_and_after_the_first_use_may_allocate() {
    exits(&[Step::Early, Step::Use, Step::Late]);
    exits(&[Step::Late, Step::Use, Step::Early]);
}

#[test]
fn conc_destructors_may_be_the_first_to_use_the_ring() {
    exits(&[Step::Early, Step::Late]);
}
