//! Defines the state that all arenas of a process share, and the data that this crate keeps in a
//! thread's record.
//!
//! `protocol` and `parked` take the state and the record by reference, so that each model can make
//! its own.

use core::ptr::{self, NonNull};

use ephemera_prim::record::{Record, Registry};
use ephemera_prim::sync::{AtomicBool, AtomicUsize, Ordering};
use ephemera_prim::word::OwnerUsize;

use crate::bag::{Bag, BagLink, Linked};
use crate::shard::{Shard, ShardPtr};
use crate::store::Seat;

/// The data that this crate keeps in a thread's record: the record's seat, which is the same in
/// every store, and the record's parked shards.
#[derive(Debug)]
pub(crate) struct ArenaRecord {
    segment: OwnerUsize,
    at: OwnerUsize,
    /// The number of times that a thread leased the record to claim slots or to make a shard.
    pub(crate) entered: OwnerUsize,
    /// Parked shards of this record that wait for a look.
    pub(crate) parked: Bag<Shard>,
    /// Whether the record is in [`ArenaWorld::record_bag`].
    pub(crate) in_record_bag: AtomicBool,
    link: BagLink<Record<ArenaRecord>>,
}

impl ArenaRecord {
    ephemera_prim::const_unless_loom! {
        /// Creates the data for a record that no thread has held. The record has no seat yet.
        pub(crate) fn new() -> Self {
            Self {
                segment: OwnerUsize::new(0),
                at: OwnerUsize::new(0),
                entered: OwnerUsize::new(0),
                parked: Bag::new(),
                in_record_bag: AtomicBool::new(false),
                link: BagLink::new(),
            }
        }
    }

    #[inline]
    pub(crate) fn seat(&self) -> Seat {
        Seat { segment: self.segment.get(), at: self.at.get() }
    }

    /// Registers a new holder of the record. For the first holder, sets the record's seat to the
    /// one with the number that `next` returns.
    pub(crate) fn enter(&self, next: impl FnOnce() -> usize) {
        if self.seat() == Seat::NOBODYS {
            let seat = Seat::numbered(next());
            self.segment.set(seat.segment);
            self.at.set(seat.at);
        }
        self.entered.set(self.entered.get().wrapping_add(1));
    }
}

/// The state that all arenas share.
#[derive(Debug)]
pub(crate) struct ArenaWorld {
    pub(crate) registry: Registry<ArenaRecord>,
    /// The bag of records with parked shards, for threads that look at shards of other threads.
    pub(crate) record_bag: Bag<Record<ArenaRecord>>,
    /// The number of parked shards of all records.
    pub(crate) parked: AtomicUsize,
    #[cfg(test)]
    pub(crate) tally: ParkedTally,
}

impl ArenaWorld {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new(registry: Registry<ArenaRecord>) -> Self {
            Self {
                registry,
                record_bag: Bag::new(),
                parked: AtomicUsize::new(0),
                #[cfg(test)]
                tally: ParkedTally {
                    stores: core::sync::atomic::AtomicUsize::new(0),
                    looks: core::sync::atomic::AtomicUsize::new(0),
                },
            }
        }
    }

    /// Returns whether this thread sees a shard that waits for a look.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.parked.load(Ordering::Relaxed) != 0
    }

    /// Returns the number of freed stores: 1 if `freed` is set, and 0 otherwise. In tests, also
    /// updates the tally.
    pub(crate) fn freed(&self, freed: bool) -> usize {
        #[cfg(test)]
        self.tally.stores.fetch_sub(usize::from(freed), core::sync::atomic::Ordering::Relaxed);
        usize::from(freed)
    }

    /// In tests, counts a look at a group.
    pub(crate) fn looked(&self) {
        #[cfg(test)]
        self.tally.looks.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    }
}

/// Returns the address that identifies `record` in the headers of its groups.
#[inline]
pub(crate) fn identity(record: &Record<ArenaRecord>) -> *const () {
    ptr::from_ref(record).cast()
}

/// Counters for tests. They are not loom's atomics, because the interleavings of a model do not
/// depend on them.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct ParkedTally {
    /// The number of stores that are not freed although their arena was dropped.
    pub(crate) stores: core::sync::atomic::AtomicUsize,
    pub(crate) looks: core::sync::atomic::AtomicUsize,
}

impl Linked for Record<ArenaRecord> {
    fn link<'a>(item: NonNull<Self>) -> &'a BagLink<Self> {
        // SAFETY: records are never freed (L3).
        &unsafe { item.as_ref() }.data().link
    }
}

/// Returns the record that `shard` belongs to. The shard must not belong to a pool.
pub(crate) fn record_of<'w>(shard: ShardPtr) -> &'w Record<ArenaRecord> {
    let record = shard.record().cast::<Record<ArenaRecord>>();
    // SAFETY: the shard does not belong to a pool, so it stores the address of its record, and
    // records are never freed (L3).
    unsafe { &*record }
}
