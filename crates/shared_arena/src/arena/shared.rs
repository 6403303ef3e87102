//! The arena that threads share.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr::NonNull;

use super::builder::{Build, Builder};
use crate::error::{Refused, TryAllocError};
use crate::group::Of;
use crate::handle::sealed::Sealed;
use crate::handle::{AllocArc, AllocRc, ArenaArc, ArenaBox, ArenaRc};
use crate::slot::{Slot, Threads};
use crate::stats::Statistics;
use crate::store::{Settings, Store};
use crate::thread;

/// A pool of values of one type for any number of threads.
///
/// Each thread claims from pages of its own, with no atomic read-modify-write; a value may be dropped on any thread, which costs one if it is
/// not the thread that has the page. Handles are one pointer wide and may outlive the arena.
///
/// # Examples
///
/// ```
/// use shared_arena::{ArenaBox, SharedArena};
///
/// let arena = SharedArena::new();
/// std::thread::scope(|scope| {
///     for name in ["one", "two"] {
///         let arena = &arena;
///         scope.spawn(move || assert_eq!(*arena.alloc(name.to_owned()), name));
///     }
/// });
/// let mut buffer: ArenaBox<_> = arena.alloc_with(|slot| slot.write(String::new()));
/// buffer.push_str("written in place");
/// ```
pub struct SharedArena<T> {
    pub(super) core: Core<T>,
}

/// The store of an arena, and what its handles are for.
///
/// # Invariant
/// **A1** `store` is alive as long as this, and was made with the geometry of `T`.
pub(super) struct Core<T> {
    pub(super) store: NonNull<Store>,
    of: PhantomData<fn() -> T>,
}

// SAFETY: a store holds no values, and all of it is fit to be used by threads at once.
unsafe impl<T> Send for Core<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Core<T> {}

impl<T> Core<T> {
    pub(super) fn create(settings: Settings) -> Result<Self, Refused> {
        thread::look();
        let store = Store::create(Of::<T>::GEOMETRY, settings, false)?;
        Ok(Self { store, of: PhantomData })
    }

    #[inline]
    pub(super) fn store(&self) -> &Store {
        // SAFETY: A1.
        unsafe { self.store.as_ref() }
    }

    #[inline]
    pub(super) fn claim(&self) -> Result<Slot<T, Threads>, Refused> {
        let slot = thread::claim(self.store(), &Of::<T>::GEOMETRY)?;
        // SAFETY: a fresh slot of an arena for `T`.
        Ok(unsafe { Slot::adopt(slot.cast()) })
    }

    #[inline]
    pub(super) fn claim_counted(&self) -> Result<Slot<T, Threads>, Refused> {
        let slot = self.claim()?;
        match slot.start_counts(self.store()) {
            Ok(()) => Ok(slot),
            Err(refused) => self.start_counts_slow(slot, refused),
        }
    }

    /// There was no room for the counts: once more, after what is empty was given back.
    #[cold]
    #[inline(never)]
    fn start_counts_slow(
        &self,
        slot: Slot<T, Threads>,
        refused: Refused,
    ) -> Result<Slot<T, Threads>, Refused> {
        thread::make_room(self.store(), refused);
        slot.start_counts(self.store())?;
        Ok(slot)
    }
}

impl<T> Drop for Core<T> {
    fn drop(&mut self) {
        // SAFETY: A1; nobody else has the arena.
        unsafe { thread::close(self.store) };
    }
}

impl<T> SharedArena<T> {
    fn from_core(core: Core<T>) -> Self {
        Self { core }
    }
}

arena_methods!(SharedArena, ArenaBox);
sendable_methods!(SharedArena);
