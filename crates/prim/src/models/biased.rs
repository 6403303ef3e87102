//! Models of the biased lock: the owner and a thread with the lock keep each other out, and each
//! sees the other's writes.

use loom::cell::UnsafeCell;
use loom::thread;

use super::explore;
use super::memory::ModelArc;
use crate::biased::{BiasedLock, LockState};

struct Protected {
    lock: BiasedLock,
    changes: UnsafeCell<u32>,
}

impl Protected {
    fn new() -> ModelArc<Self> {
        ModelArc::new(Self { lock: BiasedLock::new(), changes: UnsafeCell::new(0) })
    }

    fn change(&self) -> u32 {
        // SAFETY: loom reports any race before this write.
        self.changes.with_mut(|changes| unsafe { *changes += 1 });
        1
    }

    /// Enters as the owner, and makes a change if the owner is alone. Returns the number of
    /// changes.
    fn enter(&self) -> u32 {
        let pass = self.lock.enter();
        if pass.state() == LockState::Alone { self.change() } else { 0 }
    }

    /// Makes a change if this thread obtains the lock. Returns the number of changes.
    fn lock(&self) -> u32 {
        self.lock.try_lock().map_or(0, |_guard| self.change())
    }

    fn check(&self, changes: u32) {
        // SAFETY: loom reports any race before this read.
        assert_eq!(self.changes.with(|made| unsafe { *made }), changes);
        assert_eq!((self.enter(), self.lock()), (1, 1), "the lock is open at the end");
    }
}

/// Lets another thread lock once while `owner` runs. `owner` returns the number of its changes.
fn lock_beside(owner: impl Fn(&Protected) -> u32 + Send + Sync + 'static) {
    explore(move || {
        let protected = Protected::new();
        let theirs = protected.clone();
        let other = thread::spawn(move || theirs.get().lock());
        let mine = owner(protected.get());
        protected.get().check(mine + other.join().unwrap());
    });
}

#[test]
fn loom_owner_that_is_alone_excludes_a_thread_with_the_lock() {
    lock_beside(|protected| protected.enter() + protected.enter());
}

#[test]
fn loom_owner_that_enters_twice_stays_inside_until_it_has_left_twice() {
    lock_beside(|protected| {
        let pass = protected.lock.enter();
        let is_alone = pass.state() == LockState::Alone;
        drop(protected.lock.enter());
        if is_alone { protected.change() } else { 0 }
    });
}

#[test]
fn loom_biased_lock_has_one_holder_at_a_time() {
    explore(|| {
        let protected = Protected::new();
        let others = [0, 1].map(|_| {
            let theirs = protected.clone();
            thread::spawn(move || theirs.get().lock())
        });
        let changes = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert_ne!(changes, 0, "one of the two threads obtains the lock");
        protected.get().check(changes);
    });
}
