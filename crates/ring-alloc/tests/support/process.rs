//! Helpers for tests of the limit of `OneRingAlloc`: a guard that removes the limit, and a function
//! that trims and reports the bytes that are still held.

use ring_alloc::OneRingAlloc;

/// A guard whose drop removes the limit, even if the test fails.
pub(crate) struct Unlimited;

impl Drop for Unlimited {
    fn drop(&mut self) {
        OneRingAlloc.set_limit(usize::MAX);
    }
}

/// Trims with `trim_all`, and returns the number of bytes that `OneRingAlloc` still holds.
pub(crate) fn clean() -> usize {
    OneRingAlloc.trim_all();
    OneRingAlloc.stats().bytes_held
}
