//! Leases: one holder at a time, each sees what the one before it wrote, and nothing in an inbox is lost between them.

use loom::cell::UnsafeCell;
use loom::thread;

use super::explore;
use super::foreign::{Chunk, Side};
use super::memory::Kept;
use crate::foreign::Inbox;
use crate::record::Record;

/// What hangs on the record of these models.
struct Shard {
    /// Written by the holder alone.
    drained: UnsafeCell<u32>,
}

impl Shard {
    fn new() -> Self {
        Self { drained: UnsafeCell::new(0) }
    }

    fn count(&self, drained: bool) {
        self.drained.with_mut(|count| {
            // SAFETY: loom reports the race before this write.
            unsafe { *count += u32::from(drained) };
        });
    }
}

/// A record with one unit.
#[derive(Clone)]
struct World {
    record: Kept<Record<Shard>>,
    side: Side,
}

impl World {
    fn new(live: u64) -> Self {
        let side = Side { chunk: Kept::new(Chunk::new(live)), inbox: Kept::new(Inbox::new()) };
        Self { record: Kept::new(Record::new(Shard::new())), side }
    }

    /// Whether the inbox holds the unit.
    fn has_mail(&self) -> bool {
        !self.side.inbox.get().is_empty()
    }

    /// Books the remote frees in the inbox. The caller holds the lease.
    fn drain(&self) {
        self.record.get().shard().count(self.side.settle());
    }

    /// Frees a block as a thread that does not hold the record.
    fn remote_free(&self, index: usize) {
        if self.side.foreign_free(index) && self.record.get().is_free() {
            self.record.get().look_after(|_| self.has_mail(), |_| self.drain());
        }
    }

    /// The unit was drained once, and without another look: nobody cleans up behind the threads of the model.
    fn is_drained(&self) {
        // SAFETY: loom reports the race before this read.
        let drained = self.record.get().shard().drained.with(|count| unsafe { *count });
        assert_eq!(drained, 1, "the unit was drained {drained} times");
        assert!(self.record.get().is_free(), "a lease was not given up");
        self.side.chunk.get().free();
    }

    /// What a thread does with a record that it can lease: books what waits.
    fn clean(&self) {
        if let Some(lease) = self.record.get().try_lease() {
            lease.record().shard().count(self.side.settle());
        }
    }
}

/// The holder frees its block and exits, another thread gives back, a third takes the record over.
#[test]
fn loom_lease_passes_on_what_the_last_holder_left() {
    explore(|| {
        let world = World::new(2);
        let lease = world.record.get().try_lease().unwrap();
        let (foreign, next) = (world.clone(), world.clone());
        let foreign = thread::spawn(move || foreign.side.foreign_free(0));
        let next = thread::spawn(move || next.clean());
        lease.record().shard().count(world.side.home_free(1));
        lease.record().shard().count(world.side.settle());
        drop(lease);
        foreign.join().unwrap();
        next.join().unwrap();
        world.clean();
        // SAFETY: loom reports the race before this read.
        let drained = world.record.get().shard().drained.with(|count| unsafe { *count });
        assert_eq!(drained, 1, "the unit was drained {drained} times");
        world.side.chunk.get().free();
    });
}

/// Two threads that push to a free record, and look after it themselves where they can.
#[test]
fn loom_lease_by_those_who_push() {
    explore(|| {
        let world = World::new(2);
        let others = [0, 1].map(|index| {
            let world = world.clone();
            thread::spawn(move || {
                if world.side.foreign_free(index) {
                    world.clean();
                }
            })
        });
        for other in others {
            other.join().unwrap();
        }
        world.clean();
        // SAFETY: loom reports the race before this read.
        let drained = world.record.get().shard().drained.with(|count| unsafe { *count });
        assert_eq!(drained, 1, "the unit was drained {drained} times");
        world.side.chunk.get().free();
    });
}

/// Bound with the thread and taken up again, a lease is given up once, and its record is free then.
#[test]
fn loom_lease_bound_and_taken_up_again() {
    explore(|| {
        let record = Kept::new(Record::new(Shard::new()));
        let other = record.clone();
        let other = thread::spawn(move || {
            if let Some(lease) = other.get().try_lease() {
                lease.record().shard().count(true);
            }
        });
        if let Some(lease) = record.get().try_lease() {
            let bound = lease.bind();
            bound.shard().count(true);
            assert!(!bound.is_free() && bound.try_lease().is_none(), "a bound record was leased again");
            // SAFETY: bound just above, by this thread.
            drop(unsafe { bound.bound() });
        }
        other.join().unwrap();
        assert!(record.get().is_free());
    });
}

/// The holder exits while the last block of the unit is freed elsewhere. Nobody looks at the record after that.
#[test]
fn loom_lease_released_beside_a_push_leaves_nothing() {
    explore(|| {
        let world = World::new(1);
        let lease = world.record.get().try_lease().unwrap();
        let other = world.clone();
        let other = thread::spawn(move || other.remote_free(0));
        world.drain();
        lease.release(|_| world.has_mail(), |_| world.drain());
        other.join().unwrap();
        world.is_drained();
    });
}

/// Two threads free the blocks of a record that nobody holds, and both look after it.
#[test]
fn loom_lease_released_by_two_that_push_leaves_nothing() {
    explore(|| {
        let world = World::new(2);
        let others = [0, 1].map(|index| {
            let world = world.clone();
            thread::spawn(move || world.remote_free(index))
        });
        for other in others {
            other.join().unwrap();
        }
        world.is_drained();
    });
}
