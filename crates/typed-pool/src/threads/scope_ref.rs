//! `ScopeRef`, a counted reference to a scope, and `Entered`, the guard that keeps a thread in a
//! scope.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, handle_alloc_error};
use ephemera_prim::record::Lease;

use super::ledger::Ledger;
use super::pooled::{pooled_cell, pooled_family};
use super::scopes::ScopeHeaps;
use super::state::PoolRecord;
use super::table::Heaps;
use super::{lease_end, statistics};
use crate::stats::Stats;

/// A counted reference to the heaps of a scope. Dropping the last reference ends the scope.
#[derive(Debug)]
pub(crate) struct ScopeRef(pub(super) &'static ScopeHeaps);

impl Clone for ScopeRef {
    fn clone(&self) -> Self {
        self.0.users.add();
        Self(self.0)
    }
}

impl Drop for ScopeRef {
    fn drop(&mut self) {
        if self.0.users.remove() {
            self.0.end(true, |_| ());
        }
    }
}

impl ScopeRef {
    /// Starts a scope, on unused heaps if there are any. Returns `None` if there is no memory for
    /// new ones.
    pub(crate) fn start(limit: usize, counting: bool) -> Option<Self> {
        let heaps = ScopeHeaps::take_unused(counting).or_else(|| ScopeHeaps::make(counting))?;
        heaps.ledger.begin(limit);
        heaps.users.set(1);
        Some(Self(heaps))
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// Lets the calling thread allocate from the scope, like [`try_enter`](Self::try_enter).
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if there is no memory for the scope's heaps.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Entered> {
        self.try_enter().unwrap_or_else(|AllocError| handle_alloc_error(Layout::new::<Heaps<'_>>()))
    }

    /// Lets the calling thread allocate from the scope until the result is dropped. If the thread
    /// already allocates from the scope, the call has no effect, or makes the thread use another
    /// record of the scope.
    ///
    /// Returns `Ok(None)`, without entering, if the thread-local is being destroyed and cannot be
    /// written. That happens only on targets that build thread-locals on keys of the operating
    /// system.
    ///
    /// # Errors
    /// Returns [`AllocError`] if there is no memory for the scope's heaps. The thread then does not
    /// enter the scope.
    #[inline]
    pub(crate) fn try_enter(&self) -> Result<Option<Entered>, AllocError> {
        match self.0.lease_first() {
            Some(lease) => self.enter_record(lease),
            None => self.enter_any_record(),
        }
    }

    /// Enters the scope through any of its records, or through a new one, unless the thread already
    /// allocates from the scope.
    #[cold]
    #[inline(never)]
    fn enter_any_record(&self) -> Result<Option<Entered>, AllocError> {
        let ledger = pooled_cell().table().and_then(|heaps| heaps.first().ledger());
        if ledger.is_some_and(|ledger| ptr::eq(ledger, self.ledger())) {
            return Ok(Some(Entered { lease: None, thread: PhantomData }));
        }
        self.enter_record(self.0.lease().ok_or(AllocError)?)
    }

    /// Enters the scope through a record that the thread has leased: makes the table if the record
    /// has none, and frees the units that an earlier holder left ([`lease_end::trim_ended`]).
    #[inline]
    fn enter_record(&self, lease: Lease<'static, PoolRecord>) -> Result<Option<Entered>, AllocError> {
        // SAFETY: this thread holds the record; records and families are never freed.
        let Some(heaps) = (unsafe { Heaps::find_or_make(lease.record(), pooled_family()) }) else {
            lease_end::release(lease);
            return Err(AllocError);
        };
        lease_end::trim_ended(lease.record());
        if !pooled_cell().enter(heaps, self.ledger().is_counting()) {
            lease_end::release(lease);
            return Ok(None);
        }
        Ok(Some(Entered { lease: Some(lease), thread: PhantomData }))
    }

    /// Frees the scope's empty units, then calls `read` with the ledger and returns the result of
    /// `read`. A thread that still holds a record of the scope frees that record's empty units when
    /// it leaves the scope. If `self` is the only reference, the scope ends, and some empty units
    /// may stay for the next scope.
    pub(crate) fn finish<R>(self, read: impl FnOnce(&Ledger) -> R) -> R {
        let heaps = self.0;
        if heaps.users.is_one() {
            mem::forget(self);
            // Only a user can add a user, so no thread has become one since `is_one` returned.
            let last = heaps.users.remove();
            ephemera_prim::invariant!(last, "a scope got a second user while its only user ended it");
            return heaps.end(false, read);
        }
        heaps.records().for_each(lease_end::end_scope);
        read(&heaps.ledger)
    }

    /// Returns the units and slots of the scope's heaps, including units that earlier scopes left,
    /// and the large blocks and bytes that count for the scope.
    pub(crate) fn stats(&self) -> Stats {
        statistics::stats_of_scope(pooled_family(), self.0.records(), self.ledger())
    }
}

/// A guard that keeps a thread in a scope until the guard is dropped. It cannot move to another
/// thread.
///
/// # Aborts
/// Dropping the guard ends the process if the thread is still in a scope that it entered later.
#[derive(Debug)]
pub(crate) struct Entered {
    /// The lease of the scope's record, or `None` if the thread was in the scope already.
    lease: Option<Lease<'static, PoolRecord>>,
    /// Makes the guard neither `Send` nor `Sync`, because a pointer is neither.
    thread: PhantomData<NonNull<()>>,
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            pooled_cell().leave(lease.record());
            lease_end::leave_scope(lease);
        }
    }
}
