//! `TypedPool` as the owner of its heap: the environment of the heap, and the drop of the pool.

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::account::{Account, Limit, LocalAccount, reserved};

use super::TypedPool;
use crate::abandoned;
use crate::heap::{self, AllocEnv, PoolEnv, UnitHeap};
use crate::local_frees::{Freed, Reach};
use crate::unit::UnitPtr;

/// The size of a reservation, in bytes, above which the pool first requests all bytes as one block.
/// Without this probe, a backing allocator that overcommits could grant unit after unit until the
/// operating system kills the process.
const LARGE_RESERVE: u64 = 4 << 30;

impl<T, A: Allocator> TypedPool<T, A> {
    /// Reserves room for `slots` more values. Does nothing for values without units.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the total size exceeds the limit or `isize::MAX`, or if the
    /// backing allocator refuses. If the size is too large, the pool does not request any unit. If
    /// the backing allocator refuses, the pool keeps the units that it already got.
    pub(super) fn try_reserve(&self, slots: usize) -> Result<(), AllocError> {
        let Some(spec) = Self::SPEC else { return Ok(()) };
        let bytes = spec.bytes(slots).ok_or(AllocError)?;
        // Check the whole sum against the limit first. `heap::reserve` then counts each unit
        // separately.
        reserved(&self.account, bytes, Limit::Applies, || self.promised(bytes))?;
        self.account.release(bytes);
        heap::reserve(self, slots)
    }

    /// Checks that the backing allocator can grant `bytes` bytes at once, if `bytes` exceeds
    /// [`LARGE_RESERVE`].
    ///
    /// # Errors
    /// Returns [`AllocError`] if the backing allocator refuses.
    fn promised(&self, bytes: usize) -> Result<(), AllocError> {
        if bytes as u64 > LARGE_RESERVE {
            let layout = Layout::from_size_align(bytes, 1).map_err(|_| AllocError)?;
            let probe = self.backing.allocate(layout)?;
            // SAFETY: the probe was just allocated with this layout.
            unsafe { self.backing.deallocate(probe.cast(), layout) };
        }
        Ok(())
    }
}

// SAFETY: a borrowed pool stays on its thread, which owns the pool's one heap (H1). All units of
// the heap come from `backing`, and `frees_to` is asked only about these units.
unsafe impl<T, A: Allocator> PoolEnv for &TypedPool<T, A> {
    type Backing = A;
    type Account = LocalAccount;

    #[inline]
    fn heap(&self) -> &UnitHeap {
        &self.heap
    }

    fn backing(&self) -> &A {
        &self.backing
    }

    fn account(&self) -> &LocalAccount {
        &self.account
    }

    fn identity(&self) -> *const () {
        ptr::null()
    }

    #[inline]
    fn add_live(&self, slots: usize) {
        self.others.set(self.others.get() + slots);
    }

    #[inline]
    fn sub_live(&self, slots: usize) {
        self.others.set(self.others.get() - slots);
    }

    #[inline]
    fn frees_to(&self, _: UnitPtr) -> bool {
        !self.heap.is_open_to_guests()
    }

    fn book_mail(self) {}

    fn mail(self) -> impl Iterator<Item = (crate::slot_group::SlotGroupPtr, u64)> {
        core::iter::empty()
    }
}

impl<T, A: Allocator> AllocEnv for &TypedPool<T, A> {
    fn last_resort(self) {}

    #[inline(never)]
    unsafe fn give_back(self, unit: UnitPtr, block: NonNull<u8>, (size, reach): (usize, Reach)) {
        // SAFETY: H1: the thread that has the pool owns the heap. The caller frees a live slot of
        // this unit, which is a unit of the heap and not the front. `mark_free` has poisoned the
        // slot.
        unsafe { self.heap.host_or_give(self, unit, Freed { block, size, reach }) };
    }
}

impl<T, A: Allocator> Drop for TypedPool<T, A> {
    fn drop(&mut self) {
        heap::trim(&*self);
        let left = self.len();
        if left == 0 {
            // SAFETY: the field is dropped only here and is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.backing) };
            return;
        }
        abandoned::add(left, self.account.now().held);
        #[cfg(all(feature = "std", debug_assertions))]
        abandoned::complain(format_args!(
            "a TypedPool<{}> was dropped with {left} live slots: their units are never freed",
            core::any::type_name::<T>()
        ));
    }
}
