//! Models of owner words: an observer of a published value sees the owner's earlier writes.

use loom::cell::UnsafeCell;
use loom::thread;

use super::explore;
use super::memory::ModelArc;
use crate::word::{OwnerPtr, OwnerU64};

struct ModelWords {
    bits: OwnerU64,
    pointer: OwnerPtr<ModelWords>,
    slots: [UnsafeCell<u32>; 2],
}

impl ModelWords {
    fn write(&self, index: usize) {
        // SAFETY: loom reports any race before this write.
        self.slots[index].with_mut(|slot| unsafe { *slot += 1 });
    }
}

/// The owner frees each slot by a store that publishes the slot's bit. A thread that observes a bit
/// may use the slot.
#[test]
fn loom_word_bits_publish_the_end_of_use() {
    explore(|| {
        let words = ModelArc::new(ModelWords {
            bits: OwnerU64::new(0),
            pointer: OwnerPtr::null(),
            slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let owner = words.clone();
        let owner = thread::spawn(move || {
            for (index, bits) in [(0, 0b01), (1, 0b11)] {
                owner.get().write(index);
                owner.get().bits.publish(bits);
            }
        });
        let freed = words.get().bits.observe();
        for index in (0..2).filter(|index| freed & 1 << index != 0) {
            words.get().write(index);
        }
        owner.join().unwrap();
        assert_eq!(words.get().bits.get(), 3);
    });
}

/// A thread that follows a pointer sees the target as the owner wrote it before publishing the
/// pointer.
#[test]
fn loom_word_pointers_publish_their_targets() {
    explore(|| {
        let words = ModelArc::new(ModelWords {
            bits: OwnerU64::new(0),
            pointer: OwnerPtr::null(),
            slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let owner = words.clone();
        let owner = thread::spawn(move || {
            owner.get().write(0);
            owner.get().pointer.publish(owner.pointer().as_ptr());
        });
        let seen = words.get().pointer.observe();
        if !seen.is_null() {
            words.get().write(0);
        }
        owner.join().unwrap();
    });
}
