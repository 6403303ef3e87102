//! Models of the registry: no record has two holders, and readers see added records complete.

use loom::cell::UnsafeCell;
use loom::thread;

use super::memory::ModelArc;
use super::{explore, explore_within};
use crate::record::{FIRST, Record, Registry};

/// The data of a record, which counts the record's holders. Only the holder writes it.
struct CheckedData {
    holders: UnsafeCell<u32>,
}

impl CheckedData {
    fn new() -> Self {
        Self { holders: UnsafeCell::new(0) }
    }

    fn hold(&self) {
        // SAFETY: loom reports any race before this write.
        self.holders.with_mut(|holders| unsafe { *holders += 1 });
    }

    fn leave(&self) {
        self.holders.with_mut(|holders| {
            // SAFETY: loom reports any race before this access.
            let holders = unsafe { &mut *holders };
            assert_eq!(core::mem::replace(holders, 0), 1, "a record had two holders");
        });
    }
}

fn registry() -> ModelArc<Registry<CheckedData>> {
    ModelArc::new(Registry::new(core::array::from_fn(|_| Record::new(CheckedData::new())), CheckedData::new))
}

/// Leases any record briefly, and returns the record's address.
fn visit(registry: &Registry<CheckedData>) -> usize {
    let lease = registry.lease_any().unwrap();
    lease.record().data().hold();
    thread::yield_now();
    lease.record().data().leave();
    core::ptr::from_ref(lease.record()).addr()
}

/// Three threads lease two static records: one thread may need to add a record, and no two threads
/// share a record.
#[test]
fn loom_registry_leases_a_record_to_one_thread() {
    explore_within(4, || {
        let registry = registry();
        let others = [0, 1].map(|_| {
            let registry = registry.clone();
            thread::spawn(move || visit(registry.get()))
        });
        visit(registry.get());
        for other in others {
            other.join().unwrap();
        }
        assert!(registry.get().later_records() <= 3 - FIRST);
        assert!(registry.get().records().all(Record::is_free));
    });
}

/// Two threads add records while a third thread visits all records and leases each record that it
/// can.
#[test]
fn loom_registry_shows_added_records_complete() {
    explore(|| {
        let registry = registry();
        let held: [_; FIRST] = core::array::from_fn(|_| registry.get().lease_free().unwrap());
        let others = [0, 1].map(|_| {
            let registry = registry.clone();
            thread::spawn(move || visit(registry.get()))
        });
        for record in registry.get().records().skip(FIRST) {
            if let Some(lease) = record.try_lease() {
                lease.record().data().hold();
                lease.record().data().leave();
            }
        }
        for other in others {
            other.join().unwrap();
        }
        let later = registry.get().later_records();
        assert!((1..=2).contains(&later), "{later} records were added for two threads");
        drop(held);
        assert!(registry.get().records().all(Record::is_free));
    });
}

/// A thread that has no lease and reads an added record, for example for statistics, sees the
/// complete data.
#[test]
fn loom_registry_lets_statistics_read_added_records() {
    explore(|| {
        let registry = registry();
        let held: [_; FIRST] = core::array::from_fn(|_| registry.get().lease_free().unwrap());
        let reader = registry.clone();
        let reader = thread::spawn(move || {
            let data = reader.get().records().map(Record::data);
            // SAFETY: loom reports any race before this read; no holder writes the data.
            data.map(|data| data.holders.with(|count| unsafe { *count })).sum::<u32>()
        });
        drop(registry.get().lease_any().unwrap());
        assert_eq!(reader.join().unwrap(), 0);
        drop(held);
        assert_eq!(registry.get().later_records(), 1);
    });
}
