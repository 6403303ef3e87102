//! The counts of an `ArenaArc` or `ArenaRc`: both in one word, so that one load says whether a handle is the only one.
//!
//! ```text
//!   | weak: 32 bits | strong: 32 bits |      all strong handles together hold one weak count
//! ```
//!
//! A page has no counts until its first counted handle; see `group`. Above half of its range a count ends the process.

#[cfg(target_has_atomic = "64")]
use ephemera_prim::sync::{AtomicU64 as Word, Ordering};
use ephemera_prim::witness::Witness;
#[cfg(not(target_has_atomic = "64"))]
use ephemera_prim::word::OwnerU64 as Word;

const STRONG: u64 = 1;
const WEAK: u64 = 1 << 32;
/// Half of what a count can hold: a thread that finds more stops, long before others could make it overflow.
const MOST: u64 = 1 << 31;
/// One strong handle, and the weak count of all strong ones.
const START: u64 = STRONG | WEAK;

#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod orderings {
    use super::Ordering;

    // ORDERING: Release. Pairs with the Acquire in `Count::drop_strong`, `Count::drop_weak`, `Count::is_unique` and
    // `Count::take_unique`. Publishes: this handle's last use of the value, or of the slot.
    pub(super) const LET_GO: Ordering =
        if cfg!(ephemera_weaken = "count_let_go_relaxed") { Ordering::Relaxed } else { Ordering::Release };
    // ORDERING: Acquire. Pairs with the Release in `Count::drop_strong`: the value is dropped after its last use.
    pub(super) const LAST_STRONG: Ordering = if cfg!(ephemera_weaken = "count_last_strong_relaxed") {
        Ordering::Relaxed
    } else {
        Ordering::Acquire
    };
    // ORDERING: Acquire. Pairs with the Release in `Count::drop_weak`: the slot is given back after the value was dropped.
    pub(super) const LAST_WEAK: Ordering =
        if cfg!(ephemera_weaken = "count_last_weak_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
    // ORDERING: Acquire. Pairs with the Release in `Count::drop_strong` and `Count::drop_weak`: who is alone may write
    // to the value after all others have read it.
    pub(super) const ALONE: Ordering =
        if cfg!(ephemera_weaken = "count_alone_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
}
#[cfg(all(feature = "std", target_has_atomic = "64"))]
use orderings::{ALONE, LAST_STRONG, LAST_WEAK, LET_GO};

/// The counts of one slot.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Count {
    word: Word,
    witness: Witness,
}

impl Count {
    pub(crate) fn new() -> Self {
        let this = Self { word: Word::new(0), witness: Witness::new() };
        this.witness.write();
        this
    }

    fn get(&self) -> u64 {
        #[cfg(target_has_atomic = "64")]
        return self.word.load(Ordering::Relaxed);
        #[cfg(not(target_has_atomic = "64"))]
        self.word.get()
    }

    fn set(&self, word: u64) {
        #[cfg(target_has_atomic = "64")]
        self.word.store(word, Ordering::Relaxed);
        #[cfg(not(target_has_atomic = "64"))]
        self.word.set(word);
    }

    /// The first handle is made. Nobody else knows the slot yet.
    #[inline]
    pub(crate) fn start(&self) {
        self.witness.touch();
        self.set(START);
    }

    /// Strong handles at this moment.
    #[inline]
    pub(crate) fn strong(&self) -> usize {
        strong_in(self.get()) as usize
    }

    /// Another handle on the same thread, of a value that no other thread can have.
    #[inline]
    pub(crate) fn clone_here(&self) {
        let word = self.get();
        check(strong_in(word));
        self.set(word + STRONG);
    }

    /// A handle on the same thread goes, of a value that no other thread can have. `true` if it was the last one.
    #[inline]
    pub(crate) fn drop_here(&self) -> bool {
        let word = self.get() - STRONG;
        self.set(word);
        strong_in(word) == 0
    }
}

#[cfg(all(feature = "std", target_has_atomic = "64"))]
impl Count {
    /// Weak handles at this moment, without what the strong ones hold together.
    pub(crate) fn weak(&self) -> usize {
        let word = self.get();
        (weak_in(word) as usize).saturating_sub(usize::from(strong_in(word) != 0))
    }

    /// Another strong handle, made from one. Orders nothing: how it gets to another thread does.
    #[inline]
    pub(crate) fn clone_strong(&self) {
        check(strong_in(self.word.fetch_add(STRONG, Ordering::Relaxed)));
    }

    /// Another weak handle, made from a handle.
    #[inline]
    pub(crate) fn clone_weak(&self) {
        check(weak_in(self.word.fetch_add(WEAK, Ordering::Relaxed)));
    }

    /// A strong handle, made from a weak one: `false` if the value is gone. Orders nothing: whoever has a weak handle saw the
    /// value made, and nobody writes to it alone while there is one.
    pub(crate) fn upgrade(&self) -> bool {
        let more = |word| {
            check(strong_in(word));
            let alive = strong_in(word) != 0 || cfg!(ephemera_weaken = "count_upgrade_dead");
            alive.then_some(word + STRONG)
        };
        self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// A strong handle goes. `true` if it was the last one: the value is the caller's to drop, then the weak count to let go.
    #[inline]
    #[must_use]
    pub(crate) fn drop_strong(&self) -> bool {
        // ORDERING: `LET_GO`. Pairs with the load below, in `Count::drop_strong`.
        if strong_in(self.word.fetch_sub(STRONG, LET_GO)) != 1 {
            return false;
        }
        // ORDERING: `LAST_STRONG`. Pairs with `Count::drop_strong`.
        self.word.load(LAST_STRONG);
        true
    }

    /// A weak handle goes, or what all strong ones held. `true` if nobody has the slot any more: it is the caller's to give back.
    #[inline]
    #[must_use]
    pub(crate) fn drop_weak(&self) -> bool {
        // ORDERING: `LAST_WEAK`. Pairs with `Count::drop_weak`. Who is alone needs no second read-modify-write.
        if self.word.load(LAST_WEAK) == WEAK {
            return true;
        }
        // ORDERING: `LET_GO`. Pairs with the loads in `Count::drop_weak`.
        if self.word.fetch_sub(WEAK, LET_GO) != WEAK {
            return false;
        }
        // ORDERING: `LAST_WEAK`. Pairs with `Count::drop_weak`.
        self.word.load(LAST_WEAK);
        true
    }

    /// Whether this strong handle is the only handle of any kind, and its user may write to the value.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        // ORDERING: `ALONE`. Pairs with `Count::drop_strong` and `Count::drop_weak`.
        self.word.load(ALONE) == START
    }

    /// Lets go of the only strong handle, weak ones or not: `true` if it was, and the value is the caller's to take.
    pub(crate) fn take_unique(&self) -> bool {
        let less = |word| (strong_in(word) == 1).then_some(word - STRONG);
        // ORDERING: `ALONE`. Pairs with `Count::drop_strong`.
        self.word.fetch_update(ALONE, Ordering::Relaxed, less).is_ok()
    }
}

const fn strong_in(word: u64) -> u64 {
    word & (WEAK - 1)
}

#[cfg(all(feature = "std", target_has_atomic = "64"))]
const fn weak_in(word: u64) -> u64 {
    word >> 32
}

/// Ends the process if a count was beyond what it may be.
#[inline]
fn check(count: u64) {
    if count > MOST {
        overflow();
    }
}

#[cold]
#[inline(never)]
fn overflow() -> ! {
    /// A panic does not leave a function of this calling convention: it ends the process.
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
    fn a_handle_alone() {
        let count = count();
        assert_eq!((count.strong(), count.weak(), count.is_unique()), (1, 0, true));
        assert!(count.drop_strong());
        assert_eq!((count.strong(), count.weak(), count.upgrade()), (0, 1, false));
        assert!(count.drop_weak());
    }

    #[test]
    fn handles_of_both_kinds() {
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
    fn handles_of_one_thread() {
        let count = count();
        count.clone_here();
        assert_eq!(count.strong(), 2);
        assert!(!count.drop_here());
        assert!(count.drop_here());
    }

    #[test]
    fn half_of_the_range_is_fine() {
        let count = count();
        count.set(START + (MOST - 1) * STRONG + (MOST - 1) * WEAK);
        count.clone_strong();
        count.clone_weak();
        assert_eq!((count.strong() as u64, count.weak() as u64), (MOST + 1, MOST));
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "must end its process, and Miri starts none to see that: `ephemera_testkit::child`"
    )]
    fn beyond_that_the_process_ends() {
        if child::part().is_some() {
            let count = count();
            count.set(START + MOST * STRONG);
            child::end_unless_it_ends(|| count.clone_strong());
        }
        let ended = child::run("counts::tests::beyond_that_the_process_ends", "clone");
        assert!(!ended.well() && !ended.unwound(), "{ended:?}");
    }
}
