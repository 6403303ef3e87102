//! What all threads share: the pools of types and of size classes, a heap of each on each thread's record.
//!
//! ```text
//!   thread-local of a family --> table: its heaps on this thread's record
//!   record --> table --> table --> ...       one for each family that was used under this record
//!   unit   --> heap  --> record, inbox
//! ```
//!
//! A thread reaches its heap by one load, since each family has a thread-local of its own; the crate has one `Tenant`, so
//! that it takes up one exit hook however many types are pooled. Tables are like records: once made, for ever.

#[cfg(not(ephemera_loom))]
mod books;
mod family;
#[cfg(not(ephemera_loom))]
mod here;
#[cfg(all(test, ephemera_loom))]
mod models;
mod owner;
mod table;
mod tally;
#[cfg(all(test, not(ephemera_loom)))]
mod tests;

#[cfg_attr(ephemera_loom, expect(unreachable_pub, reason = "models have no macros that name it"))]
pub use family::Family;
#[cfg(not(ephemera_loom))]
pub use here::Here;
#[cfg(not(ephemera_loom))]
pub(crate) use here::{
    allocate_beyond, allocate_large, deallocate_large, grow_large, refill, shrink_large, this_record,
    trim_all, trim_here,
};
#[cfg(not(ephemera_loom))]
pub(crate) use owner::give_erased;
