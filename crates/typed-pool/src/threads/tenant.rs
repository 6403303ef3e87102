//! The exit hook of a thread, and the methods of a family: trims, the limit and statistics.

use core::ptr;

use ephemera_prim::local::Tenant;
use ephemera_prim::record::{Lease, Record};

use super::last_resort::trim_free_records;
use super::owner::apply_selection;
use super::pooled::pooled_family;
use super::publish::publish_own;
use super::records::REGISTRY;
use super::state::{Family, PoolRecord};
use super::table::Heaps;
use super::this_thread::{self, clear_spans, trim_outside};
use super::{lease_end, scopes, statistics};
use crate::stats::Stats;

impl Tenant for PoolRecord {
    type Near = ();

    fn near(_: &'static Record<Self>) {}

    ephemera_prim::tenant_statics!(PoolRecord, registry: &REGISTRY, nowhere: PoolRecord::new(), near: ());

    /// Starts with frees that branch: the frees of the last holder say nothing about this thread.
    fn enter(&self) {
        if !weakened!("records_keep_their_decision") && self.selection.reset() {
            // SAFETY: L1: the new holder of the record calls this function.
            unsafe { apply_selection(self) };
        }
    }

    /// Trims the thread's record and place, then resets the thread's cells. After that, each free
    /// of this thread is remote.
    fn leave(record: &'static Record<Self>) {
        lease_end::trim_record(record);
        scopes::trim_place(true);
        if weakened!("cells_keep_the_record") {
            return;
        }
        for heaps in Heaps::of(record.data()) {
            (heaps.family().cell)().set(None);
        }
    }

    fn release(lease: Lease<'static, Self>) {
        lease_end::release(lease);
    }
}

impl Family {
    /// Frees this thread's empty units of the family, and the empty units of the scopes that the
    /// thread is in. Also publishes the thread's bundle, and moves the thread's own spans to the
    /// cache of the process. For `PooledAllocator`, also frees the units that the thread's ended
    /// scopes left.
    pub fn trim(&'static self) {
        publish_own();
        if let Some(heaps) = (self.cell)().table() {
            // SAFETY: T2: the thread holds the record of the table in its cell.
            unsafe { heaps.trim() };
        }
        trim_outside(self);
        clear_spans();
        if ptr::eq(self, pooled_family()) {
            scopes::trim_place(false);
        }
    }

    /// Trims this thread and the records that no thread holds. Asks the holders of the other
    /// records to trim at their next slow path. A thread in a scope also trims when it leaves the
    /// scope.
    pub fn trim_all(&'static self) {
        self.trim();
        self.epoch.raise();
        trim_free_records(self);
    }

    /// Sets the limit on the bytes that all threads together hold.
    pub fn set_limit(&'static self, bytes: usize) {
        self.account().set_limit(bytes);
    }

    /// Returns the bytes that all threads hold for this family, and its units, live slots and large
    /// blocks.
    #[must_use]
    pub fn stats(&'static self) -> Stats {
        statistics::stats_of(self, |record| this_thread::holds(self, record))
    }
}
