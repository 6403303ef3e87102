//! Defines the arena that threads share.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr::NonNull;

use super::builder::{Build, Builder};
use crate::error::{Refused, TryAllocError};
use crate::group::GroupsOf;
use crate::handle::sealed::Sealed;
use crate::handle::{AllocArc, AllocRc, ArenaArc, ArenaBox, ArenaRc};
use crate::slot::{ClaimedSlot, Threads};
use crate::stats::Stats;
use crate::store::{ArenaSettings, ArenaStore};
use crate::thread;

/// A pool of values of one type for any number of threads.
///
/// Each thread claims slots from its own pages, usually without an atomic read-modify-write. Any
/// thread may drop a value. If another thread owns the value's page, the drop usually costs one
/// read-modify-write. Handles are one pointer wide and may outlive the arena.
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
    pub(super) core: ArenaCore<T>,
}

/// The store of an arena for values of type `T`.
///
/// # Invariant
/// **A1** `store` lives as long as this value, and was made with the geometry of `T`.
pub(super) struct ArenaCore<T> {
    pub(super) store: NonNull<ArenaStore>,
    of: PhantomData<fn() -> T>,
}

// SAFETY: the core does not give access to values, and several threads may use a store at the same
// time.
unsafe impl<T> Send for ArenaCore<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ArenaCore<T> {}

impl<T> ArenaCore<T> {
    pub(super) fn create(settings: ArenaSettings) -> Result<Self, Refused> {
        thread::look();
        let store = ArenaStore::create(GroupsOf::<T>::GEOMETRY, settings, false)?;
        Ok(Self { store, of: PhantomData })
    }

    /// Allocates `slots` slots in advance. Unless `slots` is 0, makes this thread's shard first.
    /// This thread can then claim all the slots under any limit that has room for the shard and the
    /// slots.
    pub(super) fn reserve(&self, slots: usize) -> Result<(), Refused> {
        if slots != 0 && !weakened!("capacity_without_a_shard") {
            self.store().check_capacity(slots)?;
            thread::make_shard(self.store())?;
        }
        self.store().reserve(slots)
    }

    #[inline]
    pub(super) fn store(&self) -> &ArenaStore {
        // SAFETY: the store lives as long as this value (A1).
        unsafe { self.store.as_ref() }
    }

    #[inline]
    pub(super) fn claim(&self) -> Result<ClaimedSlot<T, Threads>, Refused> {
        let slot = thread::claim(self.store(), &GroupsOf::<T>::GEOMETRY)?;
        // SAFETY: the slot was just claimed from an arena for `T`.
        Ok(unsafe { ClaimedSlot::adopt(slot.cast()) })
    }

    #[inline]
    pub(super) fn claim_counted(&self) -> Result<ClaimedSlot<T, Threads>, Refused> {
        let slot = self.claim()?;
        match slot.start_counts(self.store()) {
            Ok(()) => Ok(slot),
            Err(refused) => self.retry_counts(slot, refused),
        }
    }

    #[cold]
    #[inline(never)]
    fn retry_counts(
        &self,
        slot: ClaimedSlot<T, Threads>,
        refused: Refused,
    ) -> Result<ClaimedSlot<T, Threads>, Refused> {
        let make_room = || thread::make_room_for_counts(self.store(), refused);
        let prefer_used = || thread::prefer_used_pages(self.store());
        slot.retry_counts(self.store(), refused, make_room, prefer_used, || self.claim())
    }
}

impl<T> Drop for ArenaCore<T> {
    fn drop(&mut self) {
        // SAFETY: the store is live (A1). This call drops the arena, so no thread uses it except
        // through handles.
        unsafe { thread::close(self.store) };
    }
}

impl<T> SharedArena<T> {
    fn create(settings: ArenaSettings) -> Result<Self, Refused> {
        Ok(Self { core: ArenaCore::create(settings)? })
    }
}

arena_methods!(SharedArena, ArenaBox);
sendable_methods!(SharedArena);
