//! Models of remote frees while the holder books them: a unit becomes empty once, no thread touches
//! it after that, and each push links it once.

use core::mem::offset_of;

use loom::cell::UnsafeCell;
use loom::thread;

use super::explore;
use super::memory::ModelArc;
use crate::foreign::{Foreign, ForeignHeader, Inbox};

/// A unit of three blocks, with a count that only its holder writes.
pub(super) struct Chunk {
    foreign: Foreign<Chunk>,
    /// The number of live blocks.
    pub(super) live: UnsafeCell<u64>,
    blocks: [UnsafeCell<u32>; 3],
}

// SAFETY: `FOREIGN` is the offset of the field `foreign`.
unsafe impl ForeignHeader for Chunk {
    const FOREIGN: usize = offset_of!(Chunk, foreign);
}

impl Chunk {
    pub(super) fn new(live: u64) -> Self {
        Self {
            foreign: Foreign::new(),
            live: UnsafeCell::new(live),
            blocks: [UnsafeCell::new(0), UnsafeCell::new(0), UnsafeCell::new(0)],
        }
    }

    /// Writes to block `index`, as its user.
    pub(super) fn use_block(&self, index: usize) {
        // SAFETY: loom reports any race before this write.
        self.blocks[index].with_mut(|block| unsafe { *block += 1 });
    }

    /// Subtracts `count` from the live blocks, as the holder. Returns whether the unit became
    /// empty.
    pub(super) fn book(&self, count: u64) -> bool {
        self.live.with_mut(|live| {
            // SAFETY: loom reports any race before this access.
            let live = unsafe { &mut *live };
            *live = live.checked_sub(count).expect("more blocks were freed than were live");
            *live == 0
        })
    }

    /// Returns the number of live blocks. Only the holder may call this.
    pub(super) fn live(&self) -> u64 {
        // SAFETY: loom reports any race before this read.
        self.live.with(|live| unsafe { *live })
    }

    pub(super) fn foreign(&self) -> &Foreign<Chunk> {
        &self.foreign
    }

    /// Frees the unit, and writes to all of its memory, as the memory's next user will.
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
    pub(super) chunk: ModelArc<Chunk>,
    pub(super) inbox: ModelArc<Inbox<Chunk>>,
}

impl Side {
    pub(super) fn new(live: u64) -> Self {
        Self { chunk: ModelArc::new(Chunk::new(live)), inbox: ModelArc::new(Inbox::new()) }
    }

    /// Frees block `index` as a thread that is not the holder. Returns whether this call pushed the
    /// unit.
    pub(super) fn remote_free(&self, index: usize) -> bool {
        self.chunk.get().use_block(index);
        // SAFETY: the unit belongs to this inbox. The block belongs to this thread, and keeps the
        // unit live until it is booked.
        unsafe { self.inbox.get().give_back_add(self.chunk.pointer(), 1) }
    }

    /// Frees block `index` as the holder. Returns whether the unit became empty.
    pub(super) fn local_free(&self, index: usize) -> bool {
        self.chunk.get().use_block(index);
        self.chunk.get().book(1)
    }

    /// Books the remote frees in the inbox, as the holder. Returns whether the unit became empty.
    pub(super) fn book_inbox(&self) -> bool {
        let mut emptied = false;
        // SAFETY: only one thread of the model calls this, or the caller holds the record's lease.
        for (unit, given) in unsafe { self.inbox.get().take() } {
            assert_eq!(unit, self.chunk.pointer());
            emptied |= self.chunk.get().book(given);
        }
        emptied
    }

    /// Returns `false`, unless the weakening `book_without_dequeue` is set. With that weakening,
    /// books the frees in the unit's word without dequeuing the unit, which F2 forbids, and returns
    /// whether the unit became empty.
    fn retire(&self) -> bool {
        if !weakened!("book_without_dequeue") {
            return false;
        }
        let given = self.chunk.get().foreign.steal();
        given != 0 && self.chunk.get().book(given)
    }
}

/// Two threads and the holder free a block each. The unit becomes empty once, and no thread touches
/// it after that.
#[test]
fn loom_remote_frees_empty_a_unit_once() {
    explore(|| {
        let side = Side::new(3);
        let others = [0, 1].map(|index| {
            let side = side.clone();
            thread::spawn(move || side.remote_free(index))
        });
        let mut emptied = 0;
        let mut settled = |now: bool| {
            if now {
                side.chunk.get().free();
                emptied += 1;
            }
        };
        settled(side.local_free(2));
        settled(side.retire());
        settled(side.book_inbox());
        let pushes = others.map(|other| other.join().unwrap());
        settled(side.book_inbox());
        assert_eq!(emptied, 1, "the unit ran empty {emptied} times");
        assert!(pushes.contains(&true), "no thread pushed the unit");
    });
}

/// The holder frees the unit as soon as it is empty. Only accesses to the unit's word order the
/// free of the unit after the remote free of the thread that did not push.
#[test]
fn loom_remote_frees_end_before_the_unit_is_freed() {
    explore(|| {
        let side = Side::new(2);
        let others = [0, 1].map(|index| {
            let side = side.clone();
            thread::spawn(move || side.remote_free(index))
        });
        let mut emptied = false;
        for _ in 0..2 {
            if side.book_inbox() {
                side.chunk.get().free();
                emptied = true;
            }
            thread::yield_now();
        }
        for other in others {
            other.join().unwrap();
        }
        if !emptied {
            assert!(side.book_inbox(), "blocks were lost");
        } else {
            assert!(side.inbox.get().is_empty(), "a freed unit is linked");
        }
    });
}

/// If the first booking empties the unit, the holder reuses a block. Another thread frees this
/// block, so the unit enters the inbox a second time.
#[test]
fn loom_remote_free_of_a_reused_block_is_not_lost() {
    explore(|| {
        let side = Side::new(2);
        let first = side.clone();
        let first = thread::spawn(move || first.remote_free(0));
        let second = side.clone();
        let second = thread::spawn(move || second.remote_free(1));
        let mut emptied = side.book_inbox();
        let third = if emptied {
            // No block is live, so the holder reuses the unit from its start.
            // SAFETY: loom reports any race before this write.
            side.chunk.get().live.with_mut(|live| unsafe { *live = 1 });
            side.chunk.get().use_block(0);
            emptied = false;
            let third = side.clone();
            Some(thread::spawn(move || third.remote_free(0)))
        } else {
            None
        };
        emptied |= side.book_inbox();
        for other in [Some(first), Some(second), third].into_iter().flatten() {
            other.join().unwrap();
        }
        emptied |= side.book_inbox();
        assert!(emptied, "blocks were lost");
        side.chunk.get().free();
    });
}

/// Two units of one record: each link names the other unit or is null, and no unit is lost.
#[test]
fn loom_remote_frees_of_two_units_are_all_yielded() {
    explore(|| {
        let inbox = ModelArc::new(Inbox::new());
        let sides = [0, 1].map(|_| Side { chunk: ModelArc::new(Chunk::new(2)), inbox: inbox.clone() });
        let others = [0, 1].map(|index: usize| {
            let sides = sides.clone();
            // Each thread has a block in both units. The two threads free their blocks in opposite
            // orders.
            thread::spawn(move || {
                sides[index].remote_free(index);
                sides[1 - index].remote_free(index);
            })
        });
        let mut emptied = [0, 0];
        let mut book = || {
            // SAFETY: no other thread takes from this inbox.
            for (unit, given) in unsafe { inbox.get().take() } {
                let which = usize::from(unit == sides[1].chunk.pointer());
                if sides[which].chunk.get().book(given) {
                    sides[which].chunk.get().free();
                    emptied[which] += 1;
                }
            }
        };
        book();
        for other in others {
            other.join().unwrap();
        }
        book();
        assert_eq!(emptied, [1, 1], "a unit was lost or ran empty twice");
    });
}
