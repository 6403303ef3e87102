//! All hostile allocators of this module, one on top of the other.

use alloc::vec::Vec;
use core::alloc::Layout;

use allocator_api2::alloc::Global;

use super::{Calls, Counting, Disaligning, FailNth, LayoutChecked, Level, Limited, Refusals};

/// Most bytes that [`Hostile`] lets be held.
const LIMIT: usize = 1 << 30;

/// Counts, refuses when armed, refuses absurd sizes, checks layouts, fills memory, and aligns as badly as it may.
#[derive(Debug)]
pub struct Hostile {
    stack: Counting<FailNth<Limited<LayoutChecked<Disaligning<Global>>>>>,
}

impl Hostile {
    /// One that serves everything up to a GiB until its refusals are armed.
    #[must_use]
    pub fn new() -> Self {
        let checked = LayoutChecked::over(Disaligning::new());
        Self { stack: Counting::over(FailNth::over(Limited::over(checked, LIMIT))) }
    }

    /// What is held now, the peak, and what was ever taken.
    #[must_use]
    pub fn held(&self) -> Level {
        self.stack.held()
    }

    /// Calls so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.stack.calls()
    }

    /// Which calls are refused: arm it here.
    #[must_use]
    pub const fn refusals(&self) -> &Refusals {
        self.stack.inner().refusals()
    }

    /// Layouts of all blocks that did not come back yet, by size.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Layout> {
        self.stack.inner().inner().inner().outstanding()
    }
}

impl Default for Hostile {
    fn default() -> Self {
        Self::new()
    }
}

super::pass_on!([] Hostile, stack);
