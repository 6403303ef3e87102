//! The state that all threads share: on each thread's record, the heaps of every family.
//!
//! A *family* is the pools of one type, or of the size classes of one allocator, on all threads. A
//! *record* is the identity of a thread, see `ephemera_prim::record`.
//!
//! ```text
//!   thread-local of a family --> table: its heaps on this thread's record
//!   record --> table --> table --> ...       one for each family that was used under this record
//!   unit   --> heap  --> record, inbox
//! ```
//!
//! Each family has its own thread-local, so a thread reaches its heap by one load. The crate is a
//! single `Tenant` and has one exit hook, for any number of types. Tables, like records, are never
//! freed.

#[cfg(not(ephemera_loom))]
mod binding;
#[cfg(not(ephemera_loom))]
mod books;
#[cfg(not(ephemera_loom))]
mod cell;
#[cfg(not(ephemera_loom))]
mod charge;
mod family;
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
#[cfg(all(test, not(ephemera_loom)))]
mod purge_tests;
#[cfg(not(ephemera_loom))]
mod scope_ref;
#[cfg(all(test, not(ephemera_loom)))]
mod scope_tests;
#[cfg(not(ephemera_loom))]
mod scopes;
#[cfg(not(ephemera_loom))]
mod spans;
mod statistics;
mod table;
mod tagged;
mod tally;
#[cfg(all(test, not(ephemera_loom)))]
mod tests;
#[cfg(any(test, not(ephemera_loom)))]
mod unused;

#[cfg(not(ephemera_loom))]
pub(crate) use binding::{allocate_beyond, refill, this_record, trim_all, trim_here};
#[cfg(not(ephemera_loom))]
pub use cell::FamilyCell;
#[cfg_attr(ephemera_loom, expect(unreachable_pub, reason = "models have no macros that name it"))]
pub use family::Family;
#[cfg(not(ephemera_loom))]
pub(crate) use large::{allocate_large, deallocate_large, grow_large, shrink_large};
#[cfg(not(ephemera_loom))]
pub(crate) use ledger::{Ledger, LedgerCounts};
#[cfg(not(ephemera_loom))]
pub(crate) use owner::give_erased;
#[cfg(not(ephemera_loom))]
pub(crate) use scope_ref::ScopeRef;
#[cfg(not(ephemera_loom))]
pub(crate) use scopes::{ScopeHeaps, UNLIMITED};
#[cfg(not(ephemera_loom))]
pub(crate) use spans::{allocate_block, deallocate_block, grow_block};
#[cfg(not(ephemera_loom))]
pub(crate) use table::{Heaps, spec_of};
