//! Defines the **turn** at a shard whose arena was dropped: the exclusive right to free the shard's
//! queued groups. One word holds the turn and the requests that other threads leave for its holder.
//!
//! ```text
//!   null              no thread has the turn
//!   BUSY              a thread has it
//!   BUSY | LOOK       ... and the shard's owner asks for a look
//!   BUSY | group      ... and groups were left, linked by their `record`
//! ```
//!
//! A thread that finds the word null takes the turn. Any other thread can leave a group or a
//! request with one exchange. After it has left a group, it does not touch the shard again. Before
//! the holder releases the turn, it handles everything that other threads left.

use core::ptr;

use crossbeam_utils::Backoff;
use ephemera_prim::sync::{AtomicPtr, Ordering, change_if, guess};

use crate::group::{PageGroup, PageGroupPtr};

const BUSY: usize = 1;
const LOOK: usize = 2;

// ORDERING: AcqRel. Pairs with itself, in `Turn::change` and `Turn::next`. Publishes: the writes of
// the last holder, and the groups and requests that other threads left.
ordering!(turn_order = AcqRel, Relaxed if "arena_turn_relaxed");

/// One word that holds the turn at a shard, and the work that other threads leave for the
/// turn-holder.
#[derive(Debug)]
pub(crate) struct Turn(AtomicPtr<PageGroup>);

/// Work that other threads left for the turn-holder.
#[derive(Debug)]
pub(crate) struct TurnWork {
    /// Groups whose last slot was counted, linked by their `record`.
    pub(crate) groups: *mut PageGroup,
    /// Whether the shard's owner asks the turn-holder for a look on its behalf.
    pub(crate) look: bool,
}

impl Turn {
    /// Creates a turn that is taken, because a live arena holds the turns of all its shards until
    /// its drop.
    pub(crate) fn taken() -> Self {
        Self(AtomicPtr::new(busy(ptr::null_mut())))
    }

    /// Takes the turn if no thread has it. Returns whether the caller got the turn.
    pub(crate) fn try_take(&self) -> bool {
        self.change(|word| word.is_null().then(|| busy(word)))
    }

    /// Takes the turn, or asks its holder for a look if another thread has it. Returns whether the
    /// caller got the turn.
    pub(crate) fn take_or_ask(&self) -> bool {
        self.change(|word| Some(if word.is_null() { busy(word) } else { word.map_addr(|addr| addr | LOOK) }))
    }

    /// Leaves a group whose last slot was counted, and takes the turn if no thread has it. Returns
    /// whether the caller got the turn. If not, the caller must not touch the group or the shard
    /// again.
    pub(crate) fn leave(&self, group: PageGroupPtr) -> bool {
        self.change(|word| {
            group.record().set(untagged(word).cast());
            Some(busy(group.as_ptr()).map_addr(|addr| addr | (word.addr() & LOOK)))
        })
    }

    /// Replaces the word with `to(word)`, and returns whether the old word was null. If `to`
    /// returns `None`, leaves the word unchanged and returns `false`.
    fn change(&self, to: impl Fn(*mut PageGroup) -> Option<*mut PageGroup>) -> bool {
        let backoff = Backoff::new();
        let exchange = |word, new| {
            // ORDERING: `turn_order`. Pairs with `Turn::next`.
            let exchanged = self.0.compare_exchange_weak(word, new, turn_order(), Ordering::Relaxed);
            exchanged.inspect_err(|_| backoff.spin())
        };
        change_if(guess(&self.0), exchange, to).is_ok_and(|word| word.is_null())
    }

    /// Takes the work that was left since the last call. If there is none, releases the turn and
    /// returns `None`. Only the turn-holder may call this.
    pub(crate) fn next(&self) -> Option<TurnWork> {
        let alone = busy(ptr::null_mut());
        // ORDERING: `turn_order`. Pairs with `Turn::change`.
        if self.0.compare_exchange(alone, ptr::null_mut(), turn_order(), Ordering::Relaxed).is_ok() {
            return None;
        }
        // ORDERING: `turn_order`. Pairs with `Turn::change`.
        let word = self.0.swap(alone, turn_order());
        Some(TurnWork { groups: untagged(word), look: word.addr() & LOOK != 0 })
    }
}

fn busy(word: *mut PageGroup) -> *mut PageGroup {
    word.map_addr(|addr| addr | BUSY)
}

fn untagged(word: *mut PageGroup) -> *mut PageGroup {
    word.map_addr(|addr| addr & !(BUSY | LOOK))
}
