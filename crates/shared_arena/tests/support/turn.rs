//! A lock for tests that measure the whole process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test holds the lock, and holds it until the guard is dropped.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
