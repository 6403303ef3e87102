//! A biased lock protects words that one thread, the *owner*, uses often, and that another thread
//! may change while the owner does not use them.
//!
//! The owner *enters* by a store, without waiting and without a read-modify-write. If another
//! thread has the lock at that time, the owner is not *alone*, and must leave the protected words
//! as they are. Another thread locks by a flag and a fence on all threads (see [`barrier`]), and
//! gives up if the owner is inside.
//!
//! ```text
//!   owner                                   another thread
//!   inside = 1                              locked = true
//!   light fence                             heavy fence
//!   locked? no:  alone, uses the words      inside == 0? yes: changes the words
//!           yes: leaves them                             no:  gives up
//!   inside = 0                              locked = false
//! ```
//!
//! Because of the two fences, at least one thread sees the other's store: the owner sees the flag,
//! or the other thread sees that the owner is inside.
//!
//! The lock stores the generation of the process whose thread locked it (see
//! [`fork`](crate::fork)). If a process forks while a thread of the parent has the lock, the owner
//! finds the lock *left behind* in the child. The owner then repairs the protected words, which
//! that thread may have been changing, and opens the lock.

use crate::barrier;
use crate::fork::generation;
use crate::sync::{AtomicUsize, Ordering};
use crate::word::OwnerUsize;

// ORDERING: Acquire. Pairs with the Release in `BiasedGuard::drop`: the owner sees the other
// thread's changes.
ordering!(alone_order = Acquire, Relaxed if "alone_relaxed");
// ORDERING: Release. Pairs with the Acquire in `OwnerPass::state`, and with the heavy fence in
// `BiasedLock::try_lock`. Publishes: the changes to the protected words.
ordering!(unlock_order = Release, Relaxed if "biased_unlock_relaxed");

/// The word of an open lock.
const OPEN: usize = 0;

/// A lock that is biased towards the owner of the words that it protects.
#[derive(Debug)]
pub struct BiasedLock {
    /// The number of passes that the owner has.
    inside: OwnerUsize,
    /// [`OPEN`], or one more than the generation of the process whose thread has the lock.
    locked: AtomicUsize,
}

/// The pass of the owner. While it exists, a thread that starts to lock gives up. A thread that
/// started before may still obtain the lock, which [`OwnerPass::state`] reports.
#[derive(Debug)]
#[must_use = "the owner leaves as soon as this is dropped"]
pub struct OwnerPass<'l>(&'l BiasedLock);

/// The state of the lock, as the owner sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockState {
    /// The owner is alone: it may use the protected words until it leaves.
    Alone,
    /// Another thread may be using the protected words.
    Locked,
    /// A thread of the parent process had the lock at the fork. The owner may use the protected
    /// words after it has repaired them and called [`OwnerPass::open`].
    LeftBehind,
}

/// The right of a thread that is not the owner to use the protected words. Dropping it unlocks.
#[derive(Debug)]
#[must_use = "the lock opens as soon as this is dropped"]
pub struct BiasedGuard<'l>(&'l BiasedLock);

impl BiasedLock {
    crate::const_unless_loom! {
        /// Creates an open lock.
        pub fn new() -> Self {
            Self { inside: OwnerUsize::new(0), locked: AtomicUsize::new(OPEN) }
        }
    }

    /// Enters the lock. Only the owner may call this. It may enter again before it leaves.
    pub fn enter(&self) -> OwnerPass<'_> {
        self.inside.add(1);
        OwnerPass(self)
    }

    /// Returns whether a thread has the lock. The answer may be out of date.
    pub fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Relaxed) != OPEN
    }

    /// Locks, unless the owner is inside, another thread has the lock, or the kernel refuses the
    /// fence. Any thread may call this.
    pub fn try_lock(&self) -> Option<BiasedGuard<'_>> {
        // Relaxed: because of the heavy fence below, this thread sees the changes of the last
        // thread that had the lock.
        let locked = generation().wrapping_add(1);
        self.locked.compare_exchange(OPEN, locked, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        let guard = BiasedGuard(self);
        // ORDERING: heavy fence. Pairs with the Release in `BiasedGuard::drop`, and with the light
        // fence in `OwnerPass::state`. Either this thread sees that the owner is inside, or the
        // owner sees that another thread has locked. `observe` pairs with `OwnerPass::drop`: this
        // thread sees the owner's writes inside.
        (barrier::heavy() && self.inside.observe() == 0).then_some(guard)
    }
}

impl OwnerPass<'_> {
    /// Returns whether the owner is alone, and otherwise which thread may have the lock.
    pub fn state(&self) -> LockState {
        // ORDERING: light fence. Pairs with the heavy one in `BiasedLock::try_lock`.
        barrier::light();
        // ORDERING: `alone_order`. Pairs with `BiasedGuard::drop`.
        match self.0.locked.load(alone_order()) {
            OPEN => LockState::Alone,
            _ if weakened!("owner_is_always_alone") => LockState::Alone,
            locked if locked == generation().wrapping_add(1) => LockState::Locked,
            _ if weakened!("lock_stays_left_behind") => LockState::Locked,
            _ => LockState::LeftBehind,
        }
    }

    /// Opens a lock that was left behind, after the owner has repaired the protected words.
    pub fn open(&self) {
        // Relaxed: the owner is still inside, and its drop of the pass publishes the repair.
        self.0.locked.store(OPEN, Ordering::Relaxed);
    }
}

impl Drop for OwnerPass<'_> {
    fn drop(&mut self) {
        self.0.inside.sub_publish(1);
    }
}

impl Drop for BiasedGuard<'_> {
    fn drop(&mut self) {
        // ORDERING: `unlock_order`. Pairs with `OwnerPass::state` and `BiasedLock::try_lock`.
        self.0.locked.store(OPEN, unlock_order());
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use core::cell::UnsafeCell;

    use super::{BiasedLock, LockState};

    #[test]
    fn owner_and_another_thread_keep_each_other_out() {
        let lock = BiasedLock::new();
        let outer = lock.enter();
        drop(lock.enter());
        assert!(outer.state() == LockState::Alone && lock.try_lock().is_none(), "the owner is still inside");
        drop(outer);
        // A kernel may refuse the fence.
        if let Some(guard) = lock.try_lock() {
            assert!(lock.enter().state() == LockState::Locked && lock.try_lock().is_none());
            drop(guard);
        }
        // A thread of another generation had the lock.
        lock.locked.store(usize::MAX, core::sync::atomic::Ordering::Relaxed);
        let pass = lock.enter();
        assert!(pass.state() == LockState::LeftBehind && lock.try_lock().is_none());
        pass.open();
        assert_eq!(pass.state(), LockState::Alone);
    }

    #[test]
    fn conc_owner_that_is_alone_excludes_a_thread_with_the_lock() {
        const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
        struct Shared(BiasedLock, UnsafeCell<usize>);
        // SAFETY: the lock protects the number.
        unsafe impl Sync for Shared {}
        let shared = Shared(BiasedLock::new(), UnsafeCell::new(0));
        let shared = &shared;
        // SAFETY: the callers below are alone, or have the lock.
        let count = || unsafe { *shared.1.get() += 1 };
        let (mine, theirs) = std::thread::scope(|threads| {
            let other = threads.spawn(move || {
                let locked = |_: &usize| shared.0.try_lock().map(|_guard| count()).is_some();
                (0..ROUNDS).filter(locked).count()
            });
            let alone = |_: &usize| {
                let pass = shared.0.enter();
                let is_alone = pass.state() == LockState::Alone;
                if is_alone {
                    count();
                }
                is_alone
            };
            let mine = (0..ROUNDS).filter(alone).count();
            (mine, other.join().expect("no panic"))
        });
        // SAFETY: the other thread has ended.
        assert_eq!(unsafe { *shared.1.get() }, mine + theirs);
    }
}
