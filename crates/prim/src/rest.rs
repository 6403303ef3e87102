//! Memory that rests: an owner waits before it reuses memory that another thread freed.
//!
//! The other thread has just read the blocks, so their cache lines are in the caches of its core.
//! The first store of the owner's core to such a line waits until the other core gives up the line.
//! After both cores have evicted the line to the cache that they share, the store takes a fraction
//! of that time.
//!
//! So an owner whose memory rests usually uses all of its free memory before it books remote frees,
//! and grows to [`REST`] bytes. One booking then finds much free memory, beginning with the most
//! recently freed. The owner uses this memory in the reverse order, which is about the order in
//! which it was freed:
//!
//! ```text
//!   freed by another thread    A  B  C  D
//!   booked                     D  C  B  A
//!   used                       A  B  C  D
//! ```
//!
//! A [`Rest`] decides whether memory rests. `ring-alloc` and `shared_arena` use it. `typed-pool`
//! has many heaps for each thread, so it chooses one heap of each family, and only the units of
//! this heap rest.

use crate::word::OwnerUsize;

/// The number of bytes to which an owner grows so that its memory rests: twice the second-level
/// cache of a Zen 4 core. The owners of models do not grow.
pub const REST: usize = if cfg!(ephemera_loom) { 0 } else { 2 << 20 };

/// The minimum number of slow paths between two decisions.
const ROUND: usize = 64;

/// Memory begins to rest if other threads free at least one in this many pieces that the owner
/// uses.
const START: usize = 2;

/// Memory stops resting if other threads free less than one in this many pieces. The gap between
/// this and [`START`] keeps an owner from growing and shrinking repeatedly.
const STOP: usize = 16;

/// A result of [`Rest::decide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestChange {
    /// Memory rests from now on.
    Starts,
    /// Memory no longer rests.
    Ends,
    /// Memory rests, or does not rest, as before.
    Stays,
}

/// Decides whether the memory of an owner rests. Only the owner uses this. Freed memory is counted
/// in *pieces*: chunks of a heap, or slots of a shard.
#[derive(Debug)]
pub struct Rest {
    /// The number of slow paths since the last decision.
    visits: OwnerUsize,
    /// The number of pieces that [`Rest::note_freed`] has counted since the last decision.
    freed: OwnerUsize,
    /// The number of chunks or pages to which the owner grows, or 0 if memory does not rest.
    goal: OwnerUsize,
}

impl Rest {
    crate::const_unless_loom! {
        /// Creates the state of a new owner, whose memory does not rest.
        pub fn new() -> Self {
            Self { visits: OwnerUsize::new(0), freed: OwnerUsize::new(0), goal: OwnerUsize::new(0) }
        }
    }

    /// Resets the counts, and ends the rest. Returns whether memory rested before the call.
    pub fn end(&self) -> bool {
        let rested = self.goal.get() != 0;
        self.visits.set(0);
        self.freed.set(0);
        self.goal.set(0);
        rested
    }

    /// Counts a slow path. Returns whether memory rests and the next decision is due. The owner
    /// must then book remote frees and [decide](Self::decide).
    #[inline]
    pub fn note_visit(&self) -> bool {
        let (visits, goal) = (self.visits.get().saturating_add(1), self.goal.get());
        self.visits.set(visits);
        goal != 0 && visits >= ROUND.max(2 * goal)
    }

    /// Notes that the owner booked `pieces` pieces that other threads freed.
    pub fn note_freed(&self, pieces: usize) {
        self.freed.set(self.freed.get().saturating_add(pieces));
    }

    /// Decides whether memory rests from now on. If fewer than 64 slow paths have passed since the
    /// last decision, nothing changes. The owner calls this after it has booked remote frees. Each
    /// slow path uses up to `pieces` pieces. If memory rests, the owner grows to `goal` chunks or
    /// pages. A `goal` of 0 means that memory must not rest.
    pub fn decide(&self, pieces: usize, goal: usize) -> RestChange {
        let (visits, before) = (self.visits.get(), self.goal.get());
        if visits < ROUND {
            return RestChange::Stays;
        }
        let share = if before == 0 { START } else { STOP };
        let least = if weakened!("memory_rests_at_once") {
            1
        } else if before != 0 && weakened!("memory_rests_forever") {
            0
        } else {
            visits.saturating_mul(pieces) / share
        };
        let now = if self.freed.get() >= least { goal } else { 0 };
        self.visits.set(0);
        self.freed.set(0);
        self.goal.set(now);
        match (before, now) {
            (0, 1..) => RestChange::Starts,
            (1.., 0) => RestChange::Ends,
            _ => RestChange::Stays,
        }
    }

    /// Returns the number of chunks or pages to which the owner grows, or 0 if memory does not
    /// rest.
    #[inline]
    pub fn goal(&self) -> usize {
        self.goal.get()
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::{ROUND, Rest, RestChange};

    /// Makes `visits` slow paths, notes `freed` pieces, and decides. Each slow path uses 10 pieces.
    fn round(rest: &Rest, visits: usize, freed: usize) -> RestChange {
        for _ in 0..visits {
            rest.note_visit();
        }
        rest.note_freed(freed);
        rest.decide(10, 100)
    }

    #[test]
    fn memory_begins_to_rest_if_others_free_half_of_it() {
        let rest = Rest::new();
        assert_eq!(round(&rest, ROUND, 5 * ROUND - 1), RestChange::Stays);
        assert_eq!((round(&rest, ROUND, 5 * ROUND), rest.goal()), (RestChange::Starts, 100));
    }

    #[test]
    fn memory_rests_until_others_free_less_than_a_sixteenth() {
        let rest = Rest::new();
        round(&rest, ROUND, 5 * ROUND);
        assert_eq!(round(&rest, ROUND, 10 * ROUND / 16), RestChange::Stays);
        assert_eq!((round(&rest, ROUND, 10 * ROUND / 16 - 1), rest.goal()), (RestChange::Ends, 0));
    }

    #[test]
    fn few_slow_paths_decide_nothing() {
        let rest = Rest::new();
        assert_eq!(round(&rest, ROUND - 1, 1_000), RestChange::Stays);
        assert_eq!(round(&rest, 1, 0), RestChange::Starts, "the counts continue");
    }

    #[test]
    fn owner_whose_memory_rests_books_after_twice_as_many_slow_paths_as_its_goal() {
        let rest = Rest::new();
        assert!((0..1_000).all(|_| !rest.note_visit()), "nothing is due while memory does not rest");
        assert_eq!(round(&rest, 0, 10_000), RestChange::Starts);
        assert_eq!((1..).find(|_| rest.note_visit()), Some(200));
    }

    #[test]
    fn goal_of_zero_ends_the_rest() {
        let rest = Rest::new();
        round(&rest, ROUND, 10 * ROUND);
        (0..ROUND).for_each(|_| _ = rest.note_visit());
        rest.note_freed(10 * ROUND);
        assert_eq!(rest.decide(10, 0), RestChange::Ends);
        round(&rest, ROUND, 10 * ROUND);
        assert!(rest.end() && !rest.end());
    }
}
