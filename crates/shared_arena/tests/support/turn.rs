//! A turn for tests that look at what the whole process has.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests that look at what the whole process has take turns.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
