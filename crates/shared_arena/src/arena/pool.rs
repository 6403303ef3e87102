//! Defines the pool for one thread.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr::NonNull;

use super::builder::{Build, Builder};
use crate::close;
use crate::error::{Refused, TryAllocError};
use crate::group::GroupsOf;
use crate::handle::sealed::Sealed;
use crate::handle::{AllocRc, ArenaRc, PoolBox};
use crate::owner::ShardOwner;
use crate::shard::ShardPtr;
use crate::slot::{ClaimedSlot, OneThread, pool_mark};
use crate::stats::Stats;
use crate::store::{ArenaSettings, ArenaStore, Seat};
use crate::trim::{self, Fate};

/// A pool of values of one type for one thread. Its fast paths never use an atomic
/// read-modify-write. The pool needs neither a thread-local nor `std`.
///
/// Handles are one pointer wide, stay on the thread, and may outlive the pool.
///
/// # Examples
///
/// ```
/// use shared_arena::Pool;
///
/// let pool = Pool::new();
/// let one = pool.alloc([1_u8; 40]);
/// let two = pool.alloc_rc([2_u8; 40]);
/// assert_eq!((one[0], two[0], pool.stats().0), (1, 2, 2));
/// drop((one, two));
/// pool.shrink_to_fit();
/// assert_eq!(pool.stats(), (0, 0));
/// ```
///
/// ```compile_fail,E0277
/// # use shared_arena::Pool;
/// fn send<T: Send>() {}
/// send::<Pool<u8>>();
/// ```
///
/// ```compile_fail,E0277
/// # use shared_arena::Pool;
/// fn sync<T: Sync>() {}
/// sync::<Pool<u8>>();
/// ```
pub struct Pool<T> {
    core: PoolCore<T>,
}

/// The seat of a pool's only shard.
const SEAT: Seat = Seat::numbered(1);

/// The store of a pool, and its shard.
///
/// # Invariant
/// **A1** `store` lives as long as this value, and was made with the geometry of `T`. `shard` is
/// the only shard of that store. Only one thread uses the store.
struct PoolCore<T> {
    store: NonNull<ArenaStore>,
    shard: ShardPtr,
    of: PhantomData<fn() -> T>,
}

impl<T> PoolCore<T> {
    fn create(settings: ArenaSettings) -> Result<Self, Refused> {
        let store = ArenaStore::create(GroupsOf::<T>::GEOMETRY, settings, true)?;
        // SAFETY: the store was just made, and this function does not use `this` after `dissolve`.
        let this = unsafe { store.as_ref() };
        // SAFETY: this thread is the pool's only thread.
        match unsafe { this.make_shard(SEAT, pool_mark()) } {
            Ok(shard) => Ok(Self { store, shard, of: PhantomData }),
            Err(refused) => {
                // SAFETY: the store has no group, and no other code has seen it.
                unsafe { ArenaStore::dissolve(store) };
                Err(refused)
            }
        }
    }

    /// Allocates `slots` slots in advance.
    fn reserve(&self, slots: usize) -> Result<(), Refused> {
        self.store().check_capacity(slots)?;
        self.store().reserve(slots)
    }

    #[inline]
    fn store(&self) -> &ArenaStore {
        // SAFETY: the store lives as long as this value (A1).
        unsafe { self.store.as_ref() }
    }

    #[inline]
    fn owner(&self) -> ShardOwner<'_> {
        // SAFETY: the shard is the store's (A1). This is the pool's only thread, and the borrowed
        // pool is not dropped during the borrow (O1).
        unsafe { ShardOwner::new(self.store(), self.shard) }
    }

    #[inline]
    fn claim(&self) -> Result<ClaimedSlot<T, OneThread>, Refused> {
        let slot = match self.shard.claim(&GroupsOf::<T>::GEOMETRY) {
            Some(slot) => slot,
            None => self.claim_slow()?,
        };
        // SAFETY: the slot was just claimed from a pool for `T`.
        Ok(unsafe { ClaimedSlot::adopt(slot.cast()) })
    }

    #[cold]
    #[inline(never)]
    fn claim_slow(&self) -> Result<NonNull<u8>, Refused> {
        self.owner().serve_or_grow()
    }

    #[inline]
    fn claim_counted(&self) -> Result<ClaimedSlot<T, OneThread>, Refused> {
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
        slot: ClaimedSlot<T, OneThread>,
        refused: Refused,
    ) -> Result<ClaimedSlot<T, OneThread>, Refused> {
        let make_room = || {
            self.owner().trim(Fate::Release);
            trim::reserve_counts(self.store(), refused)
        };
        let prefer_used = || self.owner().prefer_used_pages();
        slot.retry_counts(self.store(), refused, make_room, prefer_used, || self.claim())
    }
}

impl<T> Drop for PoolCore<T> {
    fn drop(&mut self) {
        // SAFETY: this call drops the pool and closes its only shard once. This thread is the
        // pool's only one, so it owns the shard (A1).
        let left = unsafe { close::close_shard(self.store(), self.shard, false) };
        // SAFETY: the only shard was closed, `left` of its groups remain, and the pool is not used
        // again.
        unsafe { close::close_store(self.store, left) };
    }
}

impl<T> Pool<T> {
    fn create(settings: ArenaSettings) -> Result<Self, Refused> {
        Ok(Self { core: PoolCore::create(settings)? })
    }

    /// Frees groups of pages without a live slot. Returns whether it freed a group.
    ///
    /// Visits each page of the pool, so the call takes time linear in the number of pages.
    pub fn trim(&self) -> bool {
        let trimmed = self.core.owner().trim(Fate::Release).unwrap_or(0);
        trimmed + self.core.store().release_unbound() != 0
    }

    /// Alias of [`Pool::trim`], under its name in shared_arena 0.8.
    pub fn shrink_to_fit(&self) {
        self.trim();
    }
}

arena_methods!(Pool, PoolBox);
