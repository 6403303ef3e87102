//! A lock for tests that look at the whole process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test that looks at the whole process runs.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
