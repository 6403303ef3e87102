//! Foreign frees against the holder: a unit is drained once, is not touched after that, and links only once.

use core::ptr::NonNull;

use loom::cell::UnsafeCell;
use loom::thread;

use super::explore;
use super::memory::Kept;
use crate::foreign::{Foreign, Inbox, Unit};

/// A unit of three blocks, with what only its holder writes.
pub(super) struct Chunk {
    foreign: Foreign<Chunk>,
    /// Blocks that are out.
    pub(super) live: UnsafeCell<u64>,
    blocks: [UnsafeCell<u32>; 3],
}

// SAFETY: the address of one field, for as long as the unit is there.
unsafe impl Unit for Chunk {
    unsafe fn foreign(unit: NonNull<Self>) -> NonNull<Foreign<Self>> {
        // SAFETY: the caller's unit is alive; no reference is made.
        let field = unsafe { &raw mut (*unit.as_ptr()).foreign };
        // SAFETY: a field of what a non-null pointer points at.
        unsafe { NonNull::new_unchecked(field) }
    }
}

impl Chunk {
    pub(super) fn new(live: u64) -> Self {
        Self {
            foreign: Foreign::new(),
            live: UnsafeCell::new(live),
            blocks: [UnsafeCell::new(0), UnsafeCell::new(0), UnsafeCell::new(0)],
        }
    }

    /// Whoever has block `index` writes to it.
    pub(super) fn use_block(&self, index: usize) {
        // SAFETY: loom reports the race before this write.
        self.blocks[index].with_mut(|block| unsafe { *block += 1 });
    }

    /// The holder takes `count` off, and says whether the unit is drained.
    pub(super) fn book(&self, count: u64) -> bool {
        self.live.with_mut(|live| {
            // SAFETY: loom reports the race before this access.
            let live = unsafe { &mut *live };
            *live = live.checked_sub(count).expect("more was given back than was out");
            *live == 0
        })
    }

    /// Blocks that are out. The holder's alone.
    pub(super) fn live(&self) -> u64 {
        // SAFETY: loom reports the race before this read.
        self.live.with(|live| unsafe { *live })
    }

    pub(super) fn foreign(&self) -> &Foreign<Chunk> {
        &self.foreign
    }

    /// The unit is drained and goes back to where it came from: all of it is written to.
    pub(super) fn free(&self) {
        self.foreign.end();
        for index in 0..self.blocks.len() {
            self.use_block(index);
        }
    }
}

/// A unit and the inbox of its record.
#[derive(Clone)]
pub(super) struct Side {
    pub(super) chunk: Kept<Chunk>,
    pub(super) inbox: Kept<Inbox<Chunk>>,
}

impl Side {
    pub(super) fn new(live: u64) -> Self {
        Self { chunk: Kept::new(Chunk::new(live)), inbox: Kept::new(Inbox::new()) }
    }

    /// Any other thread frees block `index`. Returns whether it pushed.
    pub(super) fn foreign_free(&self, index: usize) -> bool {
        self.chunk.get().use_block(index);
        // SAFETY: the block was this thread's, and keeps the unit alive until it is booked.
        unsafe { self.inbox.get().give_back_add(self.chunk.pointer(), 1) }
    }

    /// The holder frees block `index`, and says whether the unit is drained by that.
    pub(super) fn home_free(&self, index: usize) -> bool {
        self.chunk.get().use_block(index);
        self.chunk.get().book(1)
    }

    /// The holder books what waits, and says whether the unit is drained by that.
    pub(super) fn settle(&self) -> bool {
        let mut drained = false;
        // SAFETY: the model calls this on one thread, or under the record's lease.
        for (unit, given) in unsafe { self.inbox.get().take() } {
            assert_eq!(unit, self.chunk.pointer());
            drained |= self.chunk.get().book(given);
        }
        drained
    }

    /// A holder that takes the word when it retires the unit, dequeued or not: what F2 forbids.
    fn retire(&self) -> bool {
        if !cfg!(ephemera_weaken = "settle_without_dequeue") {
            return false;
        }
        let given = self.chunk.get().foreign.steal();
        given != 0 && self.chunk.get().book(given)
    }
}

/// Two threads and the holder free a block each. The unit is drained once, and nobody is in it then.
#[test]
fn loom_foreign_frees_drain_a_unit_once() {
    explore(|| {
        let side = Side::new(3);
        let others = [0, 1].map(|index| {
            let side = side.clone();
            thread::spawn(move || side.foreign_free(index))
        });
        let mut drained = 0;
        let mut settled = |now: bool| {
            if now {
                side.chunk.get().free();
                drained += 1;
            }
        };
        settled(side.home_free(2));
        settled(side.retire());
        settled(side.settle());
        let pushes = others.map(|other| other.join().unwrap());
        settled(side.settle());
        assert_eq!(drained, 1, "the unit was drained {drained} times");
        assert!(pushes.contains(&true), "nobody told the holder");
    });
}

/// The holder frees the unit as soon as it can; what orders it behind the thread that did not push is the word alone.
#[test]
fn loom_foreign_frees_end_before_the_unit_is_freed() {
    explore(|| {
        let side = Side::new(2);
        let others = [0, 1].map(|index| {
            let side = side.clone();
            thread::spawn(move || side.foreign_free(index))
        });
        let mut drained = false;
        for _ in 0..2 {
            if side.settle() {
                side.chunk.get().free();
                drained = true;
            }
            thread::yield_now();
        }
        for other in others {
            other.join().unwrap();
        }
        if !drained {
            assert!(side.settle(), "blocks were lost");
        } else {
            assert!(side.inbox.get().is_empty(), "a freed unit is linked");
        }
    });
}

/// The holder hands a block out again that it has just booked, and that one is freed by its new user: the unit goes
/// through the inbox twice.
#[test]
fn loom_foreign_free_of_a_block_that_was_used_again() {
    explore(|| {
        let side = Side::new(2);
        let first = side.clone();
        let first = thread::spawn(move || first.foreign_free(0));
        let second = side.clone();
        let second = thread::spawn(move || second.foreign_free(1));
        let mut drained = side.settle();
        let third = if drained {
            // All home: the unit is used again from its start.
            // SAFETY: loom reports the race before this write.
            side.chunk.get().live.with_mut(|live| unsafe { *live = 1 });
            side.chunk.get().use_block(0);
            drained = false;
            let third = side.clone();
            Some(thread::spawn(move || third.foreign_free(0)))
        } else {
            None
        };
        drained |= side.settle();
        for other in [Some(first), Some(second), third].into_iter().flatten() {
            other.join().unwrap();
        }
        drained |= side.settle();
        assert!(drained, "blocks were lost");
        side.chunk.get().free();
    });
}

/// Two units of one record: each link leads to the other unit, or nowhere, and none is lost.
#[test]
fn loom_foreign_frees_of_two_units_are_all_yielded() {
    explore(|| {
        let inbox = Kept::new(Inbox::new());
        let sides = [0, 1].map(|_| Side { chunk: Kept::new(Chunk::new(2)), inbox: inbox.clone() });
        let others = [0, 1].map(|index: usize| {
            let sides = sides.clone();
            // Each thread has a block in both units, and frees them in its own order.
            thread::spawn(move || {
                sides[index].foreign_free(index);
                sides[1 - index].foreign_free(index);
            })
        });
        let mut drained = [0, 0];
        let mut settle = || {
            // SAFETY: this is the only thread that takes.
            for (unit, given) in unsafe { inbox.get().take() } {
                let which = usize::from(unit == sides[1].chunk.pointer());
                if sides[which].chunk.get().book(given) {
                    sides[which].chunk.get().free();
                    drained[which] += 1;
                }
            }
        };
        settle();
        for other in others {
            other.join().unwrap();
        }
        settle();
        assert_eq!(drained, [1, 1], "a unit was lost or drained twice");
    });
}
