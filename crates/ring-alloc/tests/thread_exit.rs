//! Blocks are freed and allocated in destructors of thread-locals, whenever those were registered.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/blocks.rs"]
mod blocks;

use core::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use blocks::{Balanced, Bytes, SIZES, check, check_all, filled, joined, some};
use ring_alloc::OneRingAlloc;

/// Lives in a thread-local; its destructor frees what it was given and allocates.
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
            to.send(filled(9, SIZES[2])).expect("the other end is there");
            to.send(filled(9, SIZES[3])).expect("the other end is there");
        }
        // What the destructor leaves behind is nobody's any more.
        OneRingAlloc.clean_local();
        OneRingAlloc.clean_global();
    }
}

thread_local! {
    static EARLY: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

/// What a thread does to its thread-locals, in order.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Registers the destructor of the first one.
    Early,
    /// The same for the second one.
    Late,
    /// First use of the ring.
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
        // Blocks of this thread for one destructor, of another thread for the other one.
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
fn conc_a_destructor_registered_before_the_first_use() {
    exits(&[Step::Early, Step::Use]);
}

#[test]
fn conc_a_destructor_registered_after_the_first_use() {
    exits(&[Step::Use, Step::Early]);
}

#[test]
fn conc_destructors_on_both_sides_of_the_first_use() {
    exits(&[Step::Early, Step::Use, Step::Late]);
    exits(&[Step::Late, Step::Use, Step::Early]);
}

#[test]
fn conc_destructors_that_are_the_first_to_use_the_ring() {
    exits(&[Step::Early, Step::Late]);
}
