//! Counts the `ArenaArc` or `ArenaRc` handles of a slot. One word holds the strong and the weak
//! count, so one load says whether a handle is the only one.
//!
//! ```text
//!   | weak: 32 bits | strong: 32 bits |      all strong handles together have one weak count
//! ```
//!
//! A page has no counts before its first counted handle (`group::counted`). A thread that finds a
//! count above half of its range aborts the process.

use ephemera_prim::sync::{AtomicU64, Ordering, change_if};
use ephemera_prim::witness::Witness;

const STRONG: u64 = 1;
const WEAK: u64 = 1 << 32;
/// The bound on a count: half of its range. A thread that finds a larger count aborts the process,
/// long before other threads could make the count overflow.
const MOST: u64 = 1 << 31;
/// The initial counts: one strong handle, and the one weak count that all strong handles share.
const START: u64 = STRONG | WEAK;

// ORDERING: Release. Pairs with the Acquire in `Count::drop_strong`, `Count::drop_weak`,
// `Count::is_unique` and `Count::take_unique`. Publishes: this handle's last use of the value, or
// of the slot.
ordering!(let_go_order = Release, Relaxed if "count_let_go_relaxed");
// ORDERING: Acquire. Pairs with the Release in `Count::drop_strong`: the value is dropped after its
// last use.
ordering!(last_strong_order = Acquire, Relaxed if "count_last_strong_relaxed");
// ORDERING: Acquire. Pairs with the Release in `Count::drop_weak`: the slot is freed after the
// value was dropped.
ordering!(last_weak_order = Acquire, Relaxed if "count_last_weak_relaxed");
// ORDERING: Acquire. Pairs with the Release in `Count::drop_strong` and `Count::drop_weak`: the
// only handle may write to the value after all others have read it.
ordering!(alone_order = Acquire, Relaxed if "count_alone_relaxed");

/// The counts of one slot.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Count {
    word: AtomicU64,
    witness: Witness,
}

impl Count {
    pub(crate) fn new() -> Self {
        let this = Self { word: AtomicU64::new(0), witness: Witness::new() };
        this.witness.write();
        this
    }

    fn get(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    fn set(&self, word: u64) {
        self.word.store(word, Ordering::Relaxed);
    }

    /// Sets the counts for the first handle. The caller must be the only thread with a pointer to
    /// the slot.
    #[inline]
    pub(crate) fn start(&self) {
        self.witness.touch();
        self.set(START);
    }

    /// Returns the number of strong handles at this moment.
    #[inline]
    pub(crate) fn strong(&self) -> usize {
        strong_in(self.get()) as usize
    }

    /// Counts another handle on the same thread, for a value that only this thread uses.
    #[inline]
    pub(crate) fn clone_here(&self) {
        let word = self.get();
        check(strong_in(word));
        self.set(word + STRONG);
    }

    /// Takes a handle off the count, for a value that only this thread uses. Returns whether it was
    /// the last handle.
    #[inline]
    pub(crate) fn drop_here(&self) -> bool {
        let word = self.get() - STRONG;
        self.set(word);
        strong_in(word) == 0
    }

    /// Returns the number of weak handles at this moment, without the one weak count of all strong
    /// handles.
    pub(crate) fn weak(&self) -> usize {
        let word = self.get();
        (weak_in(word) as usize).saturating_sub(usize::from(strong_in(word) != 0))
    }

    /// Counts another strong handle, made from a strong one. The addition can be relaxed, because
    /// the transfer of the handle to another thread provides the ordering.
    #[inline]
    pub(crate) fn clone_strong(&self) {
        check(strong_in(self.word.fetch_add(STRONG, Ordering::Relaxed)));
    }

    /// Counts another weak handle, made from any handle.
    #[inline]
    pub(crate) fn clone_weak(&self) {
        check(weak_in(self.word.fetch_add(WEAK, Ordering::Relaxed)));
    }

    /// Counts a strong handle, made from a weak one, and returns `true`. Returns `false` without
    /// counting the handle if the value was dropped or moved out.
    ///
    /// The exchange can be relaxed, because it need not make any write visible. The thread has seen
    /// the initialised value, since it has a weak handle. No later write can exist: while a weak
    /// handle exists, `get_mut` and `make_mut` never give mutable access to the value.
    pub(crate) fn upgrade(&self) -> bool {
        let more = |word| {
            check(strong_in(word));
            let alive = strong_in(word) != 0 || weakened!("count_upgrade_dead");
            alive.then_some(word + STRONG)
        };
        let relaxed = Ordering::Relaxed;
        let exchange = |old, new| self.word.compare_exchange_weak(old, new, relaxed, relaxed);
        change_if(self.word.load(relaxed), exchange, more).is_ok()
    }

    /// Takes a strong handle off its count. Returns whether it was the last one. If so, the caller
    /// must drop the value, and then call `drop_weak` for the one weak count of all strong handles.
    #[inline]
    #[must_use]
    pub(crate) fn drop_strong(&self) -> bool {
        // ORDERING: `let_go_order`. Pairs with the load below, in `Count::drop_strong`, and with
        // `Count::is_unique` and `Count::take_unique`.
        if strong_in(self.word.fetch_sub(STRONG, let_go_order())) != 1 {
            return false;
        }
        // ORDERING: `last_strong_order`. Pairs with the subtractions of other threads in
        // `Count::drop_strong`.
        self.word.load(last_strong_order());
        true
    }

    /// Takes a weak handle, or the one weak count of all strong handles, off the weak count.
    /// Returns whether no handle is left. If so, the caller must free the slot.
    #[inline]
    #[must_use]
    pub(crate) fn drop_weak(&self) -> bool {
        // ORDERING: `last_weak_order`. Pairs with the subtraction of another thread in
        // `Count::drop_weak`. The last handle does not need a read-modify-write.
        if self.word.load(last_weak_order()) == WEAK {
            return true;
        }
        // ORDERING: `let_go_order`. Pairs with the loads in `Count::drop_weak` and with
        // `Count::is_unique`.
        if self.word.fetch_sub(WEAK, let_go_order()) != WEAK {
            return false;
        }
        // ORDERING: `last_weak_order`. Pairs with the subtraction of another thread in
        // `Count::drop_weak`.
        self.word.load(last_weak_order());
        true
    }

    /// Returns whether this strong handle is the only handle of any kind. The owner of the handle
    /// may then write to the value.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        // ORDERING: `alone_order`. Pairs with `Count::drop_strong` and `Count::drop_weak`.
        self.word.load(alone_order()) == START
    }

    /// Takes this strong handle off its count if it is the only strong handle. Returns whether it
    /// took the handle off. If so, the caller must move the value out.
    pub(crate) fn take_unique(&self) -> bool {
        let less = |word| (strong_in(word) == 1).then_some(word - STRONG);
        // ORDERING: `alone_order`. Pairs with `Count::drop_strong`.
        let exchange = |old, new| self.word.compare_exchange_weak(old, new, alone_order(), Ordering::Relaxed);
        change_if(self.word.load(Ordering::Relaxed), exchange, less).is_ok()
    }
}

const fn strong_in(word: u64) -> u64 {
    word & (WEAK - 1)
}

const fn weak_in(word: u64) -> u64 {
    word >> 32
}

/// Aborts the process if a count exceeds its bound.
#[inline]
fn check(count: u64) {
    if count > MOST {
        overflow();
    }
}

#[cold]
#[inline(never)]
fn overflow() -> ! {
    /// Aborts the process, because a panic cannot leave an `extern "C"` function.
    extern "C" fn stop() -> ! {
        panic!("more than {MOST} handles to one value");
    }
    stop()
}

#[cfg(all(test, feature = "std", target_has_atomic = "64", not(ephemera_loom)))]
mod tests {
    use ephemera_testkit::child;

    use super::{Count, MOST, START, STRONG, WEAK};

    fn count() -> Count {
        let count = Count::new();
        count.start();
        count
    }

    #[test]
    fn the_last_strong_handle_leaves_one_weak_count() {
        let count = count();
        assert_eq!((count.strong(), count.weak(), count.is_unique()), (1, 0, true));
        assert!(count.drop_strong());
        assert_eq!((count.strong(), count.weak(), count.upgrade()), (0, 1, false));
        assert!(count.drop_weak());
    }

    #[test]
    fn strong_and_weak_handles_are_counted_separately() {
        let count = count();
        count.clone_strong();
        assert!(!count.is_unique() && !count.take_unique());
        assert!(!count.drop_strong() && count.is_unique());
        count.clone_weak();
        assert_eq!((count.strong(), count.weak(), count.is_unique()), (1, 1, false));
        assert!(count.upgrade());
        assert!(!count.drop_strong());
        assert!(!count.drop_weak() && count.is_unique());
        count.clone_weak();
        assert!(count.take_unique() && !count.upgrade());
        assert!(!count.drop_weak());
        assert!(count.drop_weak());
    }

    #[test]
    fn handles_on_one_thread_are_counted() {
        let count = count();
        count.clone_here();
        assert_eq!(count.strong(), 2);
        assert!(!count.drop_here());
        assert!(count.drop_here());
    }

    #[test]
    fn a_count_may_reach_half_of_its_range() {
        let count = count();
        count.set(START + (MOST - 1) * STRONG + (MOST - 1) * WEAK);
        count.clone_strong();
        count.clone_weak();
        assert_eq!((count.strong() as u64, count.weak() as u64), (MOST + 1, MOST));
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "must abort its process, and Miri cannot start a process to see that: `ephemera_testkit::child`"
    )]
    fn a_count_beyond_half_of_its_range_aborts_the_process() {
        if child::part().is_some() {
            let count = count();
            count.set(START + MOST * STRONG);
            child::end_unless_it_ends(|| count.clone_strong());
        }
        let ended = child::run("counts::tests::a_count_beyond_half_of_its_range_aborts_the_process", "clone");
        assert!(!ended.succeeded() && !ended.panicked(), "{ended:?}");
    }
}
