//! The pool as the owner of its heap: where units come from, and what is left at its end.

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};

use super::TypedPool;
use crate::abandoned;
use crate::account::{Account, LocalAccount};
use crate::heap::{self, Env, Heap};
use crate::unit::UnitPtr;

/// Room for more than so many bytes is first asked for in one piece: a heap that promises more than there is would grant unit after
/// unit, until the process is ended for it.
const LARGE_RESERVE: u64 = 4 << 30;

impl<T, A: Allocator> TypedPool<T, A> {
    /// Takes room for so many values more from the backing allocator. Values without units have none.
    ///
    /// # Errors
    /// [`AllocError`] when the limit would be exceeded, and nothing was taken; or when the backing allocator refuses, and what was taken until
    /// then is kept.
    pub(super) fn try_reserve(&self, slots: usize) -> Result<(), AllocError> {
        let Some(spec) = Self::SPEC else { return Ok(()) };
        let bytes = spec.bytes(slots).ok_or(AllocError)?;
        // Refused as a whole, before anything was taken for a part of it; each unit is booked by itself then.
        heap::reserved(&self.account, bytes, || self.promised(bytes))?;
        self.account.release(bytes);
        heap::reserve(self, slots)
    }

    /// Whether the backing allocator may have so much.
    ///
    /// # Errors
    /// [`AllocError`] when it has not.
    fn promised(&self, bytes: usize) -> Result<(), AllocError> {
        if bytes as u64 > LARGE_RESERVE {
            let layout = Layout::from_size_align(bytes, 1).map_err(|_| AllocError)?;
            let probe = self.backing.allocate(layout)?;
            // SAFETY: just allocated with this layout.
            unsafe { self.backing.deallocate(probe.cast(), layout) };
        }
        Ok(())
    }
}

// SAFETY: a pool does not leave its thread while it is borrowed; it owns the one heap, whose units all come from `backing`.
unsafe impl<T, A: Allocator> Env for &TypedPool<T, A> {
    type Backing = A;
    type Account = LocalAccount;

    #[inline]
    fn heap(&self) -> &Heap {
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
    fn owns(&self, _: UnitPtr) -> bool {
        true
    }

    fn settle(self) {}

    #[cfg(all(any(feature = "std", ephemera_loom), target_has_atomic = "64"))]
    fn mail(self) -> impl Iterator<Item = (crate::group::GroupPtr, u64)> {
        core::iter::empty()
    }

    fn last_resort(self) {}

    #[inline]
    unsafe fn give_back(self, unit: UnitPtr, _: NonNull<u8>) {
        // It owns every unit, so nothing comes here.
        ephemera_prim::invariant!(self.owns(unit), "a pool for one thread met a unit that is not its own");
    }
}

impl<T, A: Allocator> Drop for TypedPool<T, A> {
    fn drop(&mut self) {
        heap::trim(&*self);
        let left = self.len();
        if left == 0 {
            // SAFETY: dropped here alone, and used no more.
            unsafe { ManuallyDrop::drop(&mut self.backing) };
            return;
        }
        abandoned::add(left, self.account.now().held);
        #[cfg(all(feature = "std", debug_assertions))]
        abandoned::complain(format_args!(
            "a TypedPool<{}> was dropped with {left} slots out: their units are kept",
            core::any::type_name::<T>()
        ));
    }
}
