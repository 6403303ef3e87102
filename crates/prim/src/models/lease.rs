//! Models of leases: a record has one holder at a time, each holder sees the last holder's writes,
//! and no remote free is lost between two leases.

use loom::cell::UnsafeCell;
use loom::thread;

use super::explore;
use super::foreign::{Chunk, Side};
use super::memory::ModelArc;
use crate::foreign::Inbox;
use crate::record::Record;

/// The data of the record in these models.
struct LeasedData {
    /// The number of times that the unit has become empty. Only the holder writes it.
    emptied: UnsafeCell<u32>,
}

impl LeasedData {
    fn new() -> Self {
        Self { emptied: UnsafeCell::new(0) }
    }

    fn count(&self, emptied: bool) {
        self.emptied.with_mut(|count| {
            // SAFETY: loom reports any race before this write.
            unsafe { *count += u32::from(emptied) };
        });
    }
}

/// A record with one unit.
#[derive(Clone)]
struct LeaseWorld {
    record: ModelArc<Record<LeasedData>>,
    side: Side,
}

impl LeaseWorld {
    fn new(live: u64) -> Self {
        let side = Side { chunk: ModelArc::new(Chunk::new(live)), inbox: ModelArc::new(Inbox::new()) };
        Self { record: ModelArc::new(Record::new(LeasedData::new())), side }
    }

    /// Returns whether the inbox holds the unit.
    fn has_mail(&self) -> bool {
        !self.side.inbox.get().is_empty()
    }

    /// Books the remote frees in the inbox. The caller must hold the lease.
    fn drain(&self) {
        self.record.get().data().count(self.side.book_inbox());
    }

    /// Frees a block as a thread that does not hold the record.
    fn remote_free(&self, index: usize) {
        if self.side.remote_free(index) && self.record.get().is_free() {
            self.record.get().look_after(|_| self.has_mail(), |_| self.drain());
        }
    }

    /// Checks that the unit became empty once. No thread trims the record before this check.
    fn assert_emptied_once(&self) {
        // SAFETY: loom reports any race before this read.
        let emptied = self.record.get().data().emptied.with(|count| unsafe { *count });
        assert_eq!(emptied, 1, "the unit ran empty {emptied} times");
        assert!(self.record.get().is_free(), "a lease was not released");
        self.side.chunk.get().free();
    }

    /// Books the remote frees in the inbox, if this thread can lease the record.
    fn clean(&self) {
        if let Some(lease) = self.record.get().try_lease() {
            lease.record().data().count(self.side.book_inbox());
        }
    }
}

/// The holder frees its block and exits, while another thread frees a block and a third thread
/// leases the record.
#[test]
fn loom_lease_shows_the_last_holders_writes() {
    explore(|| {
        let world = LeaseWorld::new(2);
        let lease = world.record.get().try_lease().unwrap();
        let (foreign, next) = (world.clone(), world.clone());
        let foreign = thread::spawn(move || foreign.side.remote_free(0));
        let next = thread::spawn(move || next.clean());
        lease.record().data().count(world.side.local_free(1));
        lease.record().data().count(world.side.book_inbox());
        drop(lease);
        foreign.join().unwrap();
        next.join().unwrap();
        world.clean();
        // SAFETY: loom reports any race before this read.
        let emptied = world.record.get().data().emptied.with(|count| unsafe { *count });
        assert_eq!(emptied, 1, "the unit ran empty {emptied} times");
        world.side.chunk.get().free();
    });
}

/// Two threads free the blocks of a record without a holder. A thread that pushes the unit drains
/// the inbox if it can lease the record.
#[test]
fn loom_lease_taken_by_pushers_empties_a_unit_once() {
    explore(|| {
        let world = LeaseWorld::new(2);
        let others = [0, 1].map(|index| {
            let world = world.clone();
            thread::spawn(move || {
                if world.side.remote_free(index) {
                    world.clean();
                }
            })
        });
        for other in others {
            other.join().unwrap();
        }
        world.clean();
        // SAFETY: loom reports any race before this read.
        let emptied = world.record.get().data().emptied.with(|count| unsafe { *count });
        assert_eq!(emptied, 1, "the unit ran empty {emptied} times");
        world.side.chunk.get().free();
    });
}

/// A lease that was bound is released once, and the record is then free.
#[test]
fn loom_lease_that_was_bound_is_released_once() {
    explore(|| {
        let record = ModelArc::new(Record::new(LeasedData::new()));
        let other = record.clone();
        let other = thread::spawn(move || {
            if let Some(lease) = other.get().try_lease() {
                lease.record().data().count(true);
            }
        });
        if let Some(lease) = record.get().try_lease() {
            let bound = lease.bind();
            bound.data().count(true);
            assert!(!bound.is_free() && bound.try_lease().is_none(), "a bound record was leased again");
            // SAFETY: this thread bound the record above, and does not use it after the drop.
            drop(unsafe { bound.bound() });
        }
        other.join().unwrap();
        assert!(record.get().is_free());
    });
}

/// The holder exits while another thread frees the unit's last block. No thread trims the record
/// after that.
#[test]
fn loom_lease_released_beside_a_push_drains_the_inbox() {
    explore(|| {
        let world = LeaseWorld::new(1);
        let lease = world.record.get().try_lease().unwrap();
        let other = world.clone();
        let other = thread::spawn(move || other.remote_free(0));
        world.drain();
        lease.release(|_| world.has_mail(), |_| world.drain());
        other.join().unwrap();
        world.assert_emptied_once();
    });
}

/// Two threads free the blocks of a record without a holder, and both try to drain it.
#[test]
fn loom_lease_released_by_two_pushers_drains_the_inbox() {
    explore(|| {
        let world = LeaseWorld::new(2);
        let others = [0, 1].map(|index| {
            let world = world.clone();
            thread::spawn(move || world.remote_free(index))
        });
        for other in others {
            other.join().unwrap();
        }
        world.assert_emptied_once();
    });
}
