//! Models of the words of a superblock: a span has one owner, and the superblock is unmapped only
//! after the last access to its spans.

use core::ptr;

use loom::thread;

use super::memory::ModelArc;
use super::{explore, explore_within};
use crate::pages::superblock::Superblock;
use crate::witness::Witness;

/// The bits of the two spans of a mapping.
const ALL: u64 = 0b11;

/// A superblock, and the spans of its two mappings. The second mapping replaces the first.
struct Mapped {
    superblock: Superblock,
    spans: [[Witness; 2]; 2],
}

impl Mapped {
    fn new() -> Self {
        let new =
            Self { superblock: Superblock::new(), spans: [(); 2].map(|()| [(); 2].map(|()| Witness::new())) };
        new.superblock.open(mapping(0), ALL);
        new
    }

    /// Takes a span, writes to it, and frees it. Returns whether all spans are free now.
    fn use_one(&self) -> bool {
        let clean = false;
        let Some(taken) = self.superblock.take(clean) else { return false };
        let mapped = self.superblock.base().addr() - 1;
        self.spans[mapped][taken.index as usize].write();
        self.superblock.give(taken.index, true, ALL)
    }

    /// Unmaps the superblock if it is empty, and maps the second mapping in place of the first.
    fn replace(&self) {
        if let Some((base, _)) = self.superblock.close(ALL) {
            let mapped = base.addr() - 1;
            self.spans[mapped].iter().for_each(Witness::end);
            if mapped == 0 {
                self.superblock.open(mapping(1), ALL);
            }
        }
    }
}

/// Returns the base of a mapping, which is a number in place of an address.
fn mapping(number: usize) -> *mut u8 {
    ptr::without_provenance_mut(number + 1)
}

#[test]
fn loom_span_has_one_owner_at_a_time() {
    explore(|| {
        let mapped = ModelArc::new(Mapped::new());
        let other = {
            let mapped = mapped.clone();
            thread::spawn(move || {
                mapped.get().use_one();
                mapped.get().use_one();
            })
        };
        mapped.get().use_one();
        other.join().unwrap();
        assert!(mapped.get().superblock.close(ALL).is_some(), "all spans are free");
    });
}

#[test]
fn loom_superblock_is_unmapped_after_the_last_use_of_its_spans() {
    explore_within(3, || {
        let mapped = ModelArc::new(Mapped::new());
        let other = {
            let mapped = mapped.clone();
            thread::spawn(move || {
                if mapped.get().use_one() {
                    mapped.get().replace();
                }
            })
        };
        mapped.get().use_one();
        mapped.get().replace();
        other.join().unwrap();
        mapped.get().use_one();
    });
}
