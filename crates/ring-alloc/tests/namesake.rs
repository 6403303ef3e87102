//! Tests with programs in the style of ring-alloc 0.2, which use only the API of that version.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

use core::alloc::Layout;
use core::cmp::Ordering;
use core::hash::{Hash, Hasher};
use core::ptr::NonNull;
use std::collections::hash_map::DefaultHasher;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_testkit::backing::Counting;
use ephemera_testkit::suite::take_turn;
use ring_alloc::{OneRingAlloc, RingAlloc};

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// An example of library code that is generic over the allocator.
fn squares<A: Allocator + Clone>(alloc: A, upto: u64) -> Vec<Box<u64, A>, A> {
    let mut squares = Vec::new_in(alloc.clone());
    for number in 0..upto {
        squares.push(Box::new_in(number * number, alloc.clone()));
    }
    squares
}

fn sum<A: Allocator>(boxes: &[Box<u64, A>]) -> u64 {
    boxes.iter().map(|boxed| **boxed).sum()
}

/// A struct that relies on the default type parameter and does not name an allocator.
struct Parser {
    ring: RingAlloc,
}

impl Parser {
    fn words(&self, text: &str) -> Vec<Vec<u8, RingAlloc>, RingAlloc> {
        let mut words = Vec::new_in(self.ring.clone());
        for word in text.split(' ') {
            let mut bytes = Vec::new_in(self.ring.clone());
            bytes.extend_from_slice(word.as_bytes());
            words.push(bytes);
        }
        words
    }
}

#[test]
fn handle_is_one_pointer_wide() {
    assert_eq!(size_of::<RingAlloc>(), size_of::<usize>());
    assert_eq!(size_of::<Option<RingAlloc>>(), size_of::<usize>());
    assert_eq!(size_of::<RingAlloc<&'static Counting>>(), size_of::<usize>());
    assert_eq!(size_of::<OneRingAlloc>(), 0);
    assert_eq!(size_of::<Box<u8, OneRingAlloc>>(), size_of::<usize>());
}

#[test]
fn rings_over_each_source_serve_collections() {
    for ring in [RingAlloc::new(), RingAlloc::new_in(Global), RingAlloc::default()] {
        let ring: RingAlloc = ring;
        assert_eq!(sum(&squares(ring.clone(), 100)), 328_350);
        ring.flush();
    }
    let system = RingAlloc::<std::alloc::System>::default();
    assert_eq!(sum(&squares(system, 100)), 328_350);
    let parser = Parser { ring: RingAlloc::default() };
    let words = parser.words("memory that is soon freed again");
    assert_eq!(words.len(), 6);
    assert_eq!(&words[3][..], b"soon");
    drop(words);
    parser.ring.flush();
}

#[test]
fn ring_over_another_allocator_frees_all_of_its_memory() -> Result<(), AllocError> {
    let backing = Counting::new();
    let ring = RingAlloc::new_in(&backing);
    let other: RingAlloc<&Counting<Global>> = RingAlloc::try_new_in(&backing)?;
    assert_eq!(sum(&squares(ring.clone(), 10)), 285);
    assert_eq!(sum(&squares(other.clone(), 10)), 285);
    assert!(backing.held().bytes > 0);
    drop((ring, other));
    assert_eq!(backing.held().bytes, 0);
    Ok(())
}

#[test]
fn blocks_are_allocated_and_freed_by_hand() -> Result<(), AllocError> {
    let ring = RingAlloc::new();
    let layout = Layout::new::<[u32; 4]>();
    let block: NonNull<[u8]> = ring.allocate(layout)?;
    assert_eq!(block.len(), layout.size());
    let numbers = block.cast::<[u32; 4]>();
    // SAFETY: the block is new and has this type's layout.
    unsafe { numbers.write([1, 2, 3, 4]) };
    // SAFETY: the block is live, and the line above has written it.
    assert_eq!(unsafe { numbers.read() }, [1, 2, 3, 4]);
    // SAFETY: this ring served the live block with this layout.
    unsafe { ring.deallocate(block.cast(), layout) };

    let block = OneRingAlloc.allocate(layout)?;
    // SAFETY: this allocator served the live block with this layout.
    unsafe { OneRingAlloc.deallocate(block.cast(), layout) };
    Ok(())
}

#[test]
fn handles_are_equal_if_they_share_a_ring() {
    let (ring, other) = (RingAlloc::new(), RingAlloc::new());
    let clone = ring.clone();
    assert!(ring == clone && ring != other);
    assert_eq!(hash(&ring), hash(&clone));
    assert_ne!(hash(&ring), hash(&other));
}

#[test]
fn clone_frees_a_block_of_the_original() -> Result<(), AllocError> {
    let ring = RingAlloc::new();
    let layout = Layout::new::<u64>();
    let block = ring.allocate(layout)?;
    let clone = ring.clone();
    drop(ring);
    // SAFETY: this ring served the live block with this layout.
    unsafe { clone.deallocate(block.cast(), layout) };
    Ok(())
}

#[test]
fn one_ring_alloc_implements_the_usual_traits() {
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct Holder {
        ring: OneRingAlloc,
    }

    let copy = OneRingAlloc;
    let (one, two) = (copy, copy);
    assert_eq!(one, two);
    assert!(one >= two);
    assert_eq!(one.cmp(&two), Ordering::Equal);
    assert_eq!(one.partial_cmp(&two), Some(Ordering::Equal));
    assert_eq!(hash(&one), hash(&two));
    assert_eq!(format!("{one:?}"), "OneRingAlloc");
    assert_eq!(Holder::default(), Holder { ring: OneRingAlloc });
}

#[test]
fn conc_one_ring_alloc_frees_blocks_of_other_threads() {
    take_turn();
    let here = squares(OneRingAlloc, 50);
    let thread = std::thread::spawn(move || {
        let there = squares(OneRingAlloc, 60);
        assert_eq!(sum(&here), 40_425);
        drop(here);
        OneRingAlloc.clean_local();
        there
    });
    let there = thread.join().expect("the thread does not panic");
    assert_eq!(sum(&there), 70_210);
    drop(there);
    OneRingAlloc.clean_local();
    OneRingAlloc.clean_global();
}
