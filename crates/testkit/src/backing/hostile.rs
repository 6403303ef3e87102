//! Defines a stack of the hostile allocators of this module.

use alloc::vec::Vec;
use core::alloc::Layout;

use allocator_api2::alloc::Global;

use super::{Calls, Counting, Disaligning, FailNth, LayoutChecked, Level, Limited, Refusals};

/// The maximum number of bytes that [`Hostile`] holds at one time.
const LIMIT: usize = 1 << 30;

/// An allocator that counts calls and bytes, refuses the calls that its [`Refusals`] select,
/// refuses absurd sizes, checks layouts, fills memory, and aligns as badly as the contract allows.
#[derive(Debug)]
pub struct Hostile {
    stack: Counting<FailNth<Limited<LayoutChecked<Disaligning<Global>>>>>,
}

impl Hostile {
    /// Creates an allocator that holds at most 1 GiB. Until its refusals are armed, it refuses only
    /// requests that would exceed this limit.
    #[must_use]
    pub fn new() -> Self {
        let checked = LayoutChecked::over(Disaligning::new());
        Self { stack: Counting::over(FailNth::over(Limited::over(checked, LIMIT))) }
    }

    /// Returns the bytes and blocks held now, the peak of the bytes, and the bytes ever allocated.
    #[must_use]
    pub fn held(&self) -> Level {
        self.stack.held()
    }

    /// Returns the numbers of calls so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.stack.calls()
    }

    /// Returns the [`Refusals`] of this allocator.
    #[must_use]
    pub const fn refusals(&self) -> &Refusals {
        self.stack.inner().refusals()
    }

    /// Returns the layouts of all live blocks, sorted by size.
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
