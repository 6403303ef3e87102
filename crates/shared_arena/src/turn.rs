//! The turn at one shard whose arena was dropped, and what other threads leave for its holder: one word.
//!
//! ```text
//!   null              nobody has the turn
//!   BUSY              somebody has it
//!   BUSY | LOOK       ... and its owner asks for a look
//!   BUSY | group      ... and groups were left, linked by their `record`
//! ```
//!
//! Whoever finds the word at null has the turn. Everybody else leaves a group or a request with one exchange, and that is the last
//! touch of the shard: the holder finds it before it lets the turn go.

use core::ptr;

use ephemera_prim::sync::{AtomicPtr, Ordering};

use crate::group::{Group, GroupPtr};

const BUSY: usize = 1;
const LOOK: usize = 2;

// ORDERING: AcqRel. Pairs with itself, in `Turn::change` and `Turn::next`. Publishes: what the last holder did, and what other
// threads left.
const TURN: Ordering =
    if cfg!(ephemera_weaken = "arena_turn_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };

/// The turn at one shard.
#[derive(Debug)]
pub(crate) struct Turn(AtomicPtr<Group>);

/// What was left for the holder.
#[derive(Debug)]
pub(crate) struct Left {
    /// Groups whose last slot was counted, linked by their `record`.
    pub(crate) groups: *mut Group,
    /// Whether the shard's owner asks for a look on its behalf.
    pub(crate) look: bool,
}

impl Turn {
    /// A turn that the arena has, as long as it lives.
    pub(crate) fn taken() -> Self {
        Self(AtomicPtr::new(busy(ptr::null_mut())))
    }

    /// Takes the turn, if nobody has it.
    pub(crate) fn try_take(&self) -> bool {
        self.change(|word| word.is_null().then(|| busy(word)))
    }

    /// Takes the turn, or asks its holder for a look.
    pub(crate) fn take_or_ask(&self) -> bool {
        self.change(|word| Some(if word.is_null() { busy(word) } else { word.map_addr(|addr| addr | LOOK) }))
    }

    /// Leaves a group whose last slot was counted. Returns whether the caller has the turn: if not, it touches neither from here.
    pub(crate) fn leave(&self, group: GroupPtr) -> bool {
        self.change(|word| {
            group.record().set(untagged(word).cast());
            Some(busy(group.as_ptr()).map_addr(|addr| addr | (word.addr() & LOOK)))
        })
    }

    /// Changes the word as `to` says, and returns whether it was null. Nothing, where `to` returns nothing.
    fn change(&self, to: impl Fn(*mut Group) -> Option<*mut Group>) -> bool {
        // Blind under loom, which reverses an operation only with the last one on the same atomic.
        let mut word = if cfg!(ephemera_loom) { ptr::null_mut() } else { self.0.load(Ordering::Relaxed) };
        while let Some(new) = to(word) {
            // ORDERING: `TURN`. Pairs with `Turn::next`.
            match self.0.compare_exchange_weak(word, new, TURN, Ordering::Relaxed) {
                Ok(_) => return word.is_null(),
                Err(now) => word = now,
            }
        }
        false
    }

    /// What was left for the holder since it last asked. Nothing, once the turn has been let go.
    pub(crate) fn next(&self) -> Option<Left> {
        let alone = busy(ptr::null_mut());
        // ORDERING: `TURN`. Pairs with `Turn::change`.
        if self.0.compare_exchange(alone, ptr::null_mut(), TURN, Ordering::Relaxed).is_ok() {
            return None;
        }
        // ORDERING: `TURN`. Pairs with `Turn::change`.
        let word = self.0.swap(alone, TURN);
        Some(Left { groups: untagged(word), look: word.addr() & LOOK != 0 })
    }
}

fn busy(word: *mut Group) -> *mut Group {
    word.map_addr(|addr| addr | BUSY)
}

fn untagged(word: *mut Group) -> *mut Group {
    word.map_addr(|addr| addr & !(BUSY | LOOK))
}
