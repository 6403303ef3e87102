//! Tests destructors of thread-locals that allocate and drop values. A thread registers these
//! destructors before or after that of this crate's own thread-local.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/tally.rs"]
mod tally;

use alloc::sync::Arc;
use core::cell::RefCell;
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use shared_arena::{ArenaArc, ArenaBox, ArenaRc, Pool, SharedArena};
use tally::{Counted, Tally};

static ARENA: LazyLock<Arc<SharedArena<Counted>>> = LazyLock::new(|| Arc::new(SharedArena::new()));

/// A value in a thread-local. Its destructor drops some of its handles, allocates further values,
/// and sends two of them to the test.
struct AtExit {
    boxes: Vec<ArenaBox<Counted>>,
    rcs: Vec<ArenaRc<Counted>>,
    tally: Tally,
    to: Sender<(ArenaBox<Counted>, ArenaArc<Counted>)>,
}

impl Drop for AtExit {
    fn drop(&mut self) {
        self.boxes.truncate(1);
        self.rcs.pop();
        let fresh: Vec<_> = (0..5).map(|number| ARENA.alloc(self.tally.value(number))).collect();
        assert!(fresh.iter().enumerate().all(|(number, value)| value.number() == number));
        let sent = (ARENA.alloc(self.tally.value(50)), ARENA.alloc_arc(self.tally.value(51)));
        self.to.send(sent).expect("the receiver is live");
        ARENA.shrink_to_fit();
        // The destructor also uses a new arena and a new pool, on the exiting thread.
        let (arena, pool) = (SharedArena::new(), Pool::new());
        let (kept, pooled) = (arena.alloc(self.tally.value(60)), pool.alloc_rc(self.tally.value(61)));
        drop((arena, pool));
        assert_eq!((kept.number(), pooled.number()), (60, 61));
    }
}

std::thread_local! {
    static EARLY: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// Registers the destructor of the first thread-local.
    Early,
    /// Registers the destructor of the second thread-local.
    Late,
    /// Uses the arena for the first time.
    Use,
}

fn exits(steps: &'static [Step]) {
    ephemera_testkit::suite::take_turn();
    let tally = Tally::default();
    let (to, from) = channel();
    let elsewhere: Vec<_> = (0..3).map(|number| ARENA.alloc(tally.value(number))).collect();
    let there = tally.clone();
    thread::spawn(move || {
        let register = |slot: &RefCell<Option<AtExit>>| {
            let at_exit = AtExit { boxes: Vec::new(), rcs: Vec::new(), tally: there.clone(), to: to.clone() };
            *slot.borrow_mut() = Some(at_exit);
        };
        for step in steps {
            match step {
                Step::Early => EARLY.with(register),
                Step::Late => LATE.with(register),
                Step::Use => drop(ARENA.alloc(there.value(0))),
            }
        }
        // If the steps use the arena, the early destructor gets values of this thread. A registered
        // late destructor gets values of another thread.
        if steps.contains(&Step::Use) {
            EARLY.with_borrow_mut(|at_exit| {
                let Some(at_exit) = at_exit else { return };
                at_exit.boxes.extend((0..3).map(|number| ARENA.alloc(there.value(number))));
                at_exit.rcs.extend((0..3).map(|number| ARENA.alloc_rc(there.value(number))));
            });
        }
        LATE.with_borrow_mut(|at_exit| at_exit.as_mut().into_iter().for_each(|it| it.boxes = Vec::new()));
        LATE.with_borrow_mut(|at_exit| {
            if let Some(at_exit) = at_exit {
                at_exit.boxes = elsewhere;
            }
        });
    })
    .join()
    .unwrap();
    let sent: Vec<_> = from.iter().collect();
    assert_eq!(sent.len(), steps.iter().filter(|step| **step != Step::Use).count());
    assert!(sent.iter().all(|(boxed, arc)| (boxed.number(), arc.number()) == (50, 51)));
    drop(sent);
    assert_eq!((tally.alive(), ARENA.stats().0), (0, 0));
    ARENA.shrink_to_fit();
    assert_eq!((ARENA.stats(), shared_arena::reclaim()), ((0, 0), 0));
}

#[test]
fn conc_a_destructor_registered_before_the_first_use_may_use_the_arena() {
    exits(&[Step::Early, Step::Use]);
}

#[test]
fn conc_a_destructor_registered_after_the_first_use_may_use_the_arena() {
    exits(&[Step::Use, Step::Early]);
}

#[test]
fn conc_destructors_on_both_sides_of_the_first_use_may_use_the_arena() {
    exits(&[Step::Early, Step::Use, Step::Late]);
    exits(&[Step::Late, Step::Use, Step::Early]);
}

#[test]
fn conc_destructors_may_be_the_first_to_use_the_arena() {
    exits(&[Step::Early, Step::Late]);
}
