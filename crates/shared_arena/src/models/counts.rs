//! Models of the counts of shared handles. The value is dropped once, after its last use. The slot
//! is freed once, after the drop of the value.

use core::mem::replace;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::counts::Count;

/// A slot with a value that several handles share. The `Arc` around the slot only keeps the memory
/// until the model ends.
struct SharedCounts {
    count: Count,
    value: UnsafeCell<ModelValue>,
    slot: UnsafeCell<bool>,
}

#[derive(PartialEq, Debug)]
enum ModelValue {
    Alive(u32),
    Gone,
}

impl SharedCounts {
    fn new() -> Arc<Self> {
        let count = Count::new();
        count.start();
        Arc::new(Self { count, value: UnsafeCell::new(ModelValue::Alive(7)), slot: UnsafeCell::new(true) })
    }

    fn read(&self) {
        self.value.with(|value| {
            // SAFETY: loom reports a race before this read.
            assert!(unsafe { &*value } != &ModelValue::Gone, "the value was read after its drop");
        });
    }

    fn write(&self) {
        self.value.with_mut(|value| {
            // SAFETY: loom reports a race before this access.
            let ModelValue::Alive(number) = (unsafe { &mut *value }) else {
                panic!("the value was written after its drop")
            };
            *number += 1;
        });
    }

    fn drop_value(&self) {
        self.value.with_mut(|value| {
            // SAFETY: loom reports a race before this access.
            assert!(
                replace(unsafe { &mut *value }, ModelValue::Gone) != ModelValue::Gone,
                "the value was dropped twice"
            );
        });
    }

    /// Acts like the drop of an `ArenaArc`.
    fn drop_strong(&self) {
        self.read();
        if self.count.drop_strong() {
            self.drop_value();
            self.drop_weak();
        }
    }

    /// Acts like the drop of a `Weak`.
    fn drop_weak(&self) {
        if self.count.drop_weak() {
            // Another thread can reuse the slot from here on.
            self.value.with_mut(|value| {
                // SAFETY: loom reports a race before this access.
                assert!(unsafe { &*value } == &ModelValue::Gone, "the slot was freed with a value in it");
            });
            self.slot.with_mut(|slot| {
                // SAFETY: loom reports a race before this access.
                assert!(replace(unsafe { &mut *slot }, false), "the slot was freed twice");
            });
        }
    }

    fn ended(&self) {
        // SAFETY: loom reports a race before this read.
        assert!(!self.slot.with(|slot| unsafe { *slot }), "the slot was lost");
    }
}

#[test]
fn loom_the_last_strong_handle_drops_the_value() {
    check(3, || {
        let shared = SharedCounts::new();
        shared.count.clone_strong();
        shared.count.clone_strong();
        let others = [0, 1].map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.drop_strong())
        });
        shared.drop_strong();
        for other in others {
            other.join().unwrap();
        }
        shared.ended();
    });
}

#[test]
fn loom_no_upgrade_succeeds_after_the_drop_of_the_value() {
    check(3, || {
        let shared = SharedCounts::new();
        shared.count.clone_weak();
        let there = Arc::clone(&shared);
        let other = thread::spawn(move || {
            if there.count.upgrade() {
                there.drop_strong();
            }
            there.drop_weak();
        });
        shared.drop_strong();
        other.join().unwrap();
        shared.ended();
    });
}

#[test]
fn loom_the_last_weak_handle_frees_the_slot() {
    check(3, || {
        let shared = SharedCounts::new();
        shared.count.clone_weak();
        shared.count.clone_weak();
        let others = [0, 1].map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.drop_weak())
        });
        shared.drop_strong();
        for other in others {
            other.join().unwrap();
        }
        shared.ended();
    });
}

#[test]
fn loom_the_only_handle_writes_after_the_others_read() {
    check(3, || {
        let shared = SharedCounts::new();
        shared.count.clone_strong();
        shared.count.clone_weak();
        let there = Arc::clone(&shared);
        let strong = thread::spawn(move || there.drop_strong());
        let there = Arc::clone(&shared);
        let weak = thread::spawn(move || {
            if there.count.upgrade() {
                there.drop_strong();
            }
            there.drop_weak();
        });
        if shared.count.is_unique() {
            shared.write();
        }
        if shared.count.take_unique() {
            shared.drop_value();
            shared.drop_weak();
        } else {
            shared.drop_strong();
        }
        strong.join().unwrap();
        weak.join().unwrap();
        shared.ended();
    });
}
