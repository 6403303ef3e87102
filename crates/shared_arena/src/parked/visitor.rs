//! Defines the roles of threads that visit the bag of a record.

use core::ptr;

use ephemera_prim::record::Record;

use crate::world::ArenaRecord;

/// The role of a thread that visits the bag of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visitor {
    /// The thread that holds the record.
    Holder,
    /// A thread that found the record without a holder, and handles the shards and requests that
    /// other threads left for a holder.
    Successor,
    /// A thread that does not hold the record, and looks at the shards that it finds in the bag.
    Passer,
    /// A thread that only takes shards without a queued group out of the bag, and does not look at
    /// groups. It may hold the record: a holder takes this role for requests of other threads.
    Finisher,
}

impl Visitor {
    /// Returns the role at the bag of `record` for a thread that holds the record `mine`, if any.
    pub(super) fn of(record: &Record<ArenaRecord>, mine: Option<&Record<ArenaRecord>>) -> Self {
        if mine.is_some_and(|mine| ptr::eq(mine, record)) { Self::Holder } else { Self::Passer }
    }

    /// Returns the request that this thread leaves if another thread is visiting the bag, or 0 for
    /// no request.
    pub(super) fn request(self) -> usize {
        match self {
            Self::Holder | Self::Passer => 0,
            Self::Finisher => 1,
            Self::Successor => 2,
        }
    }
}
