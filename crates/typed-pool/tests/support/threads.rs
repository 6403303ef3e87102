//! Functions that tests with threads share.

use std::thread::JoinHandle;

/// Returns `miri` under Miri, and `here` elsewhere.
pub(crate) const fn here_or_miri(here: usize, miri: usize) -> usize {
    if cfg!(miri) { miri } else { here }
}

pub(crate) fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("the thread does not panic")
}
