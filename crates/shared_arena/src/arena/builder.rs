//! Defines the settings of an arena.

use core::fmt;
use core::marker::PhantomData;

use ephemera_prim::account::UNLIMITED;

use crate::error::Refused;
use crate::handle::sealed::Sealed;
use crate::store::ArenaSettings;

/// The policy that decides whether an arena frees empty pages while it is in use. With either
/// policy, an arena also frees empty pages when it is trimmed or dropped, and uses or frees them
/// before it refuses a request.
///
/// # Examples
///
/// ```
/// use shared_arena::{Pool, Trim};
///
/// let pool = Pool::<u64>::builder().trim(Trim::Manual).build();
/// drop((0..10_000).map(|number| pool.alloc(number)).collect::<Vec<_>>());
/// let held = pool.statistics().bytes_held;
/// assert!(pool.trim() && pool.statistics().bytes_held < held);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trim {
    /// Frees groups of pages that two looks in a row found empty, and that were not used in
    /// between. A thread usually claims from empty groups last, no matter which threads free its
    /// slots, so the memory of a burst is freed while the arena stays in use.
    ///
    /// A thread counts how often it has used up its slots at hand, of which there are at most 64.
    /// It looks when the count reaches 64 or the number of its pages, whichever is larger. The cost
    /// of a look is thus spread over many values, and pages in steady use stay allocated. A thread
    /// that never runs out of slots, such as one that repeatedly replaces a single value, never
    /// looks.
    #[default]
    Idle,
    /// Frees empty pages only in the cases that [`Trim`] lists.
    Manual,
}

/// An arena that a [`Builder`] can make: [`SharedArena`](crate::SharedArena),
/// [`Arena`](crate::Arena) or [`Pool`](crate::Pool).
pub trait Build: Sealed + Sized {
    #[doc(hidden)]
    fn from_builder(builder: Builder<Self>) -> Result<Self, Refused>;
}

/// The settings of an arena.
///
/// # Examples
///
/// ```
/// use shared_arena::{Pool, Trim};
///
/// let builder = Pool::<[u8; 100]>::builder().capacity(50).limit(16 << 10).trim(Trim::Manual);
/// let pool = builder.try_build()?;
/// assert_eq!(pool.stats(), (0, 63));
/// let held: Vec<_> = (0..).map_while(|_| pool.try_alloc([0; 100]).ok()).collect();
/// assert!(held.len() >= 126 && pool.statistics().bytes_held <= 16 << 10);
/// # Ok::<(), shared_arena::Refused>(())
/// ```
#[must_use = "settings make no arena by themselves"]
pub struct Builder<A> {
    pub(super) settings: ArenaSettings,
    pub(super) capacity: usize,
    arena: PhantomData<fn() -> A>,
}

impl<A: Build> Builder<A> {
    /// Creates settings without a limit and without capacity, with [`Trim::Idle`].
    pub const fn new() -> Self {
        let settings = ArenaSettings { limit: UNLIMITED, trims: true };
        Self { settings, capacity: 0, arena: PhantomData }
    }

    /// Sets the number of slots to allocate in advance, rounded up to whole pages. If these slots
    /// together exceed the limit or the address space, [`Builder::try_build`] fails before it
    /// allocates a slot.
    ///
    /// The thread that builds the arena can then claim all of these slots, even if the limit has no
    /// room for more. Each further thread needs memory for its part of the arena's state, and each
    /// page with a counted handle needs memory for its counts. If the limit does not allow that
    /// memory, the arena frees reserved slots that are not in use.
    pub const fn capacity(mut self, slots: usize) -> Self {
        self.capacity = slots;
        self
    }

    /// Sets the maximum number of bytes that the arena may hold from the global allocator: pages,
    /// counts of counted handles, and its own state. Before a request fails because of the limit,
    /// the thread uses or frees empty pages: its own pages, the pages of exited threads, and the
    /// pages that no thread owns. If there are too few empty pages, the arena refuses the request:
    /// the `try_` methods return an error, and the others abort the process.
    pub const fn limit(mut self, bytes: usize) -> Self {
        self.settings.limit = bytes;
        self
    }

    /// Sets when the arena's threads free empty pages: see [`Trim`].
    pub const fn trim(mut self, trim: Trim) -> Self {
        self.settings.trims = matches!(trim, Trim::Idle);
        self
    }

    /// Creates the arena.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if [`Builder::try_build`] fails.
    #[must_use]
    pub fn build(self) -> A {
        match self.try_build() {
            Ok(arena) => arena,
            Err(refused) => refused.give_up(),
        }
    }

    /// Creates the arena.
    ///
    /// # Errors
    /// Returns [`Refused`] if the limit or the global allocator refuses the memory for the arena's
    /// state or its capacity, if the capacity exceeds the address space, or if there is no memory
    /// to register the thread.
    pub fn try_build(self) -> Result<A, Refused> {
        A::from_builder(self)
    }
}

impl<A: Build> Default for Builder<A> {
    fn default() -> Self {
        Self::new()
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
