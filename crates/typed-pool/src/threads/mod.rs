//! Pools that all threads may use. Each thread has its own heaps for each family.
//!
//! A *family* consists of the pools of one type, or the size classes of one allocator, on all
//! threads. A *record* is the identity of a thread for its allocators (see
//! `ephemera_prim::record`). A *table* consists of the heaps of one family on one record.
//!
//! ```text
//!   thread-local of a family --> table: the family's heaps on a record that the thread holds
//!   record --> table --> table --> ...       one for each family that was used under this record
//!   unit   --> heap  --> record, inbox
//! ```
//!
//! Each family has its own thread-local, so a thread reaches its heap with one load. All families
//! share the tenant `PoolRecord` and its exit hook. The bundles of remote frees belong to a second
//! tenant. Tables and records are never freed.
//!
//! `DESIGN.md` lists these files in rows. Each file uses only files in the rows above it, or to its
//! left in its own row.

#[cfg(not(ephemera_loom))]
mod binding;
mod books;
mod bundle;
#[cfg(all(test, not(ephemera_loom)))]
mod bundle_tests;
#[cfg(not(ephemera_loom))]
mod cell;
#[cfg(not(ephemera_loom))]
mod charge;
mod family;
#[cfg(all(test, not(ephemera_loom)))]
mod guest_tests;
mod idle_owner;
#[cfg(not(ephemera_loom))]
mod idle_queue;
#[cfg(not(ephemera_loom))]
mod large;
mod last_resort;
mod lease_end;
mod ledger;
#[cfg(all(test, ephemera_loom))]
mod models;
mod owner;
#[cfg(not(ephemera_loom))]
mod pooled;
mod publish;
#[cfg(all(test, not(ephemera_loom)))]
mod purge_tests;
mod records;
mod remote;
#[cfg(all(test, not(ephemera_loom)))]
mod rest_tests;
#[cfg(not(ephemera_loom))]
mod scope_ref;
#[cfg(all(test, not(ephemera_loom)))]
mod scope_tests;
#[cfg(not(ephemera_loom))]
mod scopes;
#[cfg(all(test, not(ephemera_loom)))]
mod selection_tests;
#[cfg(not(ephemera_loom))]
mod spans;
mod state;
mod statistics;
mod table;
mod tagged;
#[cfg(not(ephemera_loom))]
mod tenant;
#[cfg(all(test, not(ephemera_loom)))]
mod tests;
#[cfg(not(ephemera_loom))]
mod this_thread;
mod unused;
mod visit;

#[cfg(not(ephemera_loom))]
pub(crate) use {
    binding::refill,
    large::{allocate_beyond, allocate_large, deallocate_large, grow_large, shrink_large},
    ledger::Ledger,
    pooled::{pooled_cell, pooled_family},
    remote::give_erased,
    scope_ref::ScopeRef,
    spans::{allocate_block, deallocate_block, grow_block},
    table::Heaps,
    this_thread::this_record,
};
#[cfg(not(ephemera_loom))]
pub use {
    ledger::Counts,
    state::{Family, FamilyCell, ThisCell},
};
