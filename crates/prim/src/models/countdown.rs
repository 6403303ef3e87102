//! Models of countdowns: on a record without a holder, the free of the last live block frees the
//! unit.

use loom::cell::UnsafeCell;
use loom::thread;

use super::explore_within;
use super::foreign::{Chunk, Side};
use super::memory::ModelArc;
use crate::foreign::COMPLETE;
use crate::record::Record;

/// A record with one unit, which counts down while no thread holds the record.
#[derive(Clone)]
struct CountdownWorld {
    record: ModelArc<Record<()>>,
    side: Side,
    /// The number of times that the unit has become empty. Only the holder writes it.
    emptied: ModelArc<UnsafeCell<u32>>,
}

impl CountdownWorld {
    fn new(live: u64) -> Self {
        Self {
            record: ModelArc::new(Record::new(())),
            side: Side::new(live),
            emptied: ModelArc::new(UnsafeCell::new(0)),
        }
    }

    fn chunk(&self) -> &Chunk {
        self.side.chunk.get()
    }

    fn has_mail(&self) -> bool {
        !self.side.inbox.get().is_empty()
    }

    /// Books the remote frees in the inbox. Then frees the unit if it is empty, and starts its
    /// countdown otherwise.
    fn drain(&self) {
        // SAFETY: the caller holds the lease.
        for (_, given) in unsafe { self.side.inbox.get().take() } {
            let count = if given == COMPLETE { self.chunk().live() } else { given };
            if self.chunk().book(count) {
                // SAFETY: loom reports any race before this write.
                self.emptied.get().with_mut(|emptied| unsafe { *emptied += 1 });
                self.chunk().free();
            } else {
                self.chunk().foreign().start_countdown(COMPLETE - self.chunk().live());
            }
        }
    }

    fn remote_free(&self, index: usize) {
        if self.side.remote_free(index) && self.record.get().is_free() {
            self.record.get().look_after(|()| self.has_mail(), |_| self.drain());
        }
    }

    fn assert_emptied_once(&self) {
        // SAFETY: loom reports any race before this read.
        let emptied = self.emptied.get().with(|emptied| unsafe { *emptied });
        assert_eq!(emptied, 1, "the unit ran empty {emptied} times");
    }
}

/// Three threads free the three blocks of an exited thread. No thread trims the record after that.
#[test]
fn loom_countdown_is_completed_once() {
    explore_within(3, || {
        let world = CountdownWorld::new(3);
        let others = [0, 1].map(|index| {
            let world = world.clone();
            thread::spawn(move || world.remote_free(index))
        });
        world.remote_free(2);
        for other in others {
            other.join().unwrap();
        }
        world.assert_emptied_once();
    });
}

/// A new holder stops the countdown while another thread makes the free that may complete it. If
/// one block was freed during the countdown, the holder reuses this block.
#[test]
fn loom_countdown_is_stopped_beside_its_last_free() {
    explore_within(3, || {
        let world = CountdownWorld::new(3);
        world.remote_free(0);
        let other = world.clone();
        let other = thread::spawn(move || {
            other.remote_free(1);
            other.remote_free(2);
        });
        if let Some(lease) = world.record.get().try_lease() {
            if let Some(word) = world.chunk().foreign().stop_countdown(COMPLETE) {
                let freed = world.chunk().live() - (COMPLETE - word);
                assert!(freed < 2, "a countdown that was complete was stopped");
                if freed == 1 {
                    world.chunk().use_block(1);
                    world.chunk().book(1);
                }
            }
            world.drain();
            lease.release(|()| world.has_mail(), |_| world.drain());
        }
        other.join().unwrap();
        world.assert_emptied_once();
    });
}
