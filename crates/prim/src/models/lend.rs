//! Models of lent units, while other threads push and the holder drains.

use loom::thread;

use super::explore;
use super::foreign::Side;
use super::memory::ModelArc;
use crate::foreign::Inbox;

/// A thread borrows the unit of an inbox and puts it back, while another thread frees the unit's
/// last block and the holder books remote frees. The unit becomes empty once, and no thread touches
/// it after that.
#[test]
fn loom_lent_units_are_booked_once() {
    explore(|| {
        let side = Side::new(2);
        let aside = ModelArc::new(Inbox::new());
        side.remote_free(0);
        let borrower = {
            let (side, aside) = (side.clone(), aside.clone());
            thread::spawn(move || {
                let (inbox, aside) = (side.inbox.get(), aside.get());
                // SAFETY: both inboxes belong to this model's record, and are never closed.
                let mut lent = unsafe { inbox.lend(aside, inbox) };
                if let Some(unit) = lent.look() {
                    assert_eq!(unit, side.chunk.pointer());
                    side.chunk.get().foreign().touch();
                }
                lent.put_back();
            })
        };
        let other = {
            let side = side.clone();
            thread::spawn(move || side.remote_free(1))
        };
        let seen = Side { chunk: side.chunk.clone(), inbox: aside };
        let mut emptied = side.book_inbox();
        if emptied {
            side.chunk.get().free();
        }
        borrower.join().unwrap();
        other.join().unwrap();
        for place in [&side, &seen] {
            if place.book_inbox() {
                assert!(!emptied, "the unit ran empty twice");
                emptied = true;
                place.chunk.get().free();
            }
        }
        assert!(emptied, "the unit was lost");
    });
}

/// A borrower puts units that no thread looked at back below the units that were pushed during the
/// loan.
#[test]
fn loom_units_pushed_during_a_loan_are_not_lost() {
    explore(|| {
        let inbox = ModelArc::new(Inbox::new());
        let sides = [0, 1].map(|_| Side { inbox: inbox.clone(), ..Side::new(1) });
        let aside = Inbox::new();
        sides[0].remote_free(0);
        let second = sides[1].clone();
        let other = thread::spawn(move || second.remote_free(0));
        // SAFETY: both inboxes belong to this model's record, and are never closed.
        unsafe { inbox.get().lend(&aside, inbox.get()) }.put_back();
        other.join().unwrap();
        let mut emptied = [0, 0];
        // SAFETY: no other thread takes from this inbox.
        for (unit, given) in unsafe { inbox.get().take() } {
            let which = usize::from(unit == sides[1].chunk.pointer());
            emptied[which] += u32::from(sides[which].chunk.get().book(given));
        }
        assert_eq!(emptied, [1, 1], "a unit was lost");
    });
}
