//! Settings for an arena.

use core::fmt;
use core::marker::PhantomData;

use crate::account::UNLIMITED;
use crate::error::Refused;
use crate::handle::sealed::Sealed;
use crate::store::Settings;

/// When pages without a value go back to the heap, apart from `shrink_to_fit` and the end of the arena.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trim {
    /// Groups of pages go that were found empty twice in a row and not used in between. A thread counts how often it runs out of the slots
    /// at hand, which are up to 63. It looks when that count reaches the number of its pages, and 64. So a look costs little for each
    /// value, and what comes and goes stays. A thread that never runs out does not look: one that only replaces a single value.
    #[default]
    Idle,
    /// Never by themselves.
    Manual,
}

/// An arena that a [`Builder`] makes: [`SharedArena`](crate::SharedArena), [`Arena`](crate::Arena) or [`Pool`](crate::Pool).
pub trait Build: Sealed + Sized {
    #[doc(hidden)]
    fn from_builder(builder: Builder<Self>) -> Result<Self, Refused>;
}

/// Settings for an arena.
///
/// # Examples
///
/// ```
/// use shared_arena::{Pool, Trim};
///
/// let pool = Pool::<[u8; 100]>::builder().capacity(50).limit(16 << 10).trim(Trim::Manual).try_build()?;
/// assert_eq!(pool.stats(), (0, 63));
/// let held: Vec<_> = (0..).map_while(|_| pool.try_alloc([0; 100]).ok()).collect();
/// assert!(held.len() >= 126 && pool.statistics().bytes_held <= 16 << 10);
/// # Ok::<(), shared_arena::Refused>(())
/// ```
#[must_use = "settings make no arena by themselves"]
pub struct Builder<A> {
    pub(super) settings: Settings,
    pub(super) capacity: usize,
    arena: PhantomData<fn() -> A>,
}

impl<A: Build> Builder<A> {
    /// No limit, no capacity in advance, idle pages go.
    pub(crate) const fn new() -> Self {
        let settings = Settings { limit: UNLIMITED, trims: true };
        Self { settings, capacity: 0, arena: PhantomData }
    }

    /// The most bytes that the arena may hold from the heap: pages, counts of shared handles, and its own state. What would need more is
    /// refused, after what is empty within reach was given back.
    pub const fn limit(mut self, bytes: usize) -> Self {
        self.settings.limit = bytes;
        self
    }

    /// Slots to have in advance, rounded up to whole pages. So many that the limit, or the address space, has no room for them are refused
    /// before anything is taken.
    pub const fn capacity(mut self, slots: usize) -> Self {
        self.capacity = slots;
        self
    }

    /// When empty pages go by themselves.
    pub const fn trim(mut self, trim: Trim) -> Self {
        self.settings.trims = matches!(trim, Trim::Idle);
        self
    }

    /// The arena.
    ///
    /// # Panics
    /// Where [`Builder::try_build`] fails: by way of `handle_alloc_error`.
    #[must_use]
    pub fn build(self) -> A {
        match self.try_build() {
            Ok(arena) => arena,
            Err(refused) => refused.give_up(),
        }
    }

    /// The arena.
    ///
    /// # Errors
    /// [`Refused`] when the limit, or the heap, has no room for the arena's state and its capacity.
    pub fn try_build(self) -> Result<A, Refused> {
        A::from_builder(self)
    }
}

impl<A> Clone for Builder<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Builder<A> {}

impl<A> fmt::Debug for Builder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("settings", &self.settings).field("capacity", &self.capacity).finish()
    }
}
