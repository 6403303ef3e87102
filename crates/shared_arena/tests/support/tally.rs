//! Values that are counted while they are live, and the tally that counts them.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(Arc<AtomicUsize>);

impl Tally {
    pub(crate) fn alive(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn value(&self, number: usize) -> Counted {
        self.0.fetch_add(1, Ordering::SeqCst);
        Counted { number, check: !number, tally: self.clone() }
    }
}

/// A value that contains its number, and asserts that it was not overwritten.
#[derive(Debug)]
pub(crate) struct Counted {
    number: usize,
    check: usize,
    tally: Tally,
}

impl Counted {
    pub(crate) fn number(&self) -> usize {
        assert_eq!(self.check, !self.number, "a value was overwritten");
        self.number
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.tally.value(self.number)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.number();
        let before = self.tally.0.fetch_sub(1, Ordering::SeqCst);
        assert_ne!(before, 0, "a value was dropped twice");
    }
}
