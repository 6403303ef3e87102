//! Tests of the handles of one ring: their shared state, handles stored in the ring's own memory,
//! and the drop of the last handle.
#![cfg(feature = "std")]

extern crate alloc;

use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::panic::AssertUnwindSafe;
use core::ptr::{self, NonNull};
use std::panic::catch_unwind;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_testkit::backing::Counting;
use ephemera_testkit::child;
use ring_alloc::{Builder, RingAlloc};

/// A backing allocator whose drop frees the blocks that outlive their ring. The global heap would
/// leak those blocks.
#[derive(Debug, Default)]
struct Reclaims {
    blocks: RefCell<alloc::vec::Vec<(NonNull<u8>, Layout)>>,
}

impl Reclaims {
    fn held(&self) -> usize {
        self.blocks.borrow().iter().map(|(_, layout)| layout.size()).sum()
    }
}

// SAFETY: every block comes from the global heap and is recorded until it is freed.
unsafe impl Allocator for Reclaims {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let given = Global.allocate(layout)?;
        self.blocks.borrow_mut().push((given.cast(), layout));
        Ok(given)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        let mut blocks = self.blocks.borrow_mut();
        let place =
            blocks.iter().position(|&there| there == (block, layout)).expect("a block of this allocator");
        blocks.swap_remove(place);
        // SAFETY: the global heap served the caller's block.
        unsafe { Global.deallocate(block, layout) };
    }
}

impl Drop for Reclaims {
    fn drop(&mut self) {
        for (block, layout) in self.blocks.take() {
            // SAFETY: the global heap served the block, which was not freed, and no borrow of the
            // allocator is left.
            unsafe { Global.deallocate(block, layout) };
        }
    }
}

#[test]
fn last_handle_frees_the_ring() {
    let backing = Counting::new();
    let ring = RingAlloc::new_in(&backing);
    let clones: [_; 3] = core::array::from_fn(|_| ring.clone());
    drop(Box::new_in(1_u8, &ring));
    drop(Box::new_in([1_u8; 5_000], &clones[0]));
    drop(ring);
    assert!(backing.held().bytes > 0);
    assert!(clones[0] == clones[2]);
    drop(clones);
    assert_eq!(backing.held().bytes, 0);
}

#[test]
fn clone_from_frees_the_replaced_ring() {
    let (first, second) = (Counting::new(), Counting::new());
    let mut ring = RingAlloc::new_in(&first);
    drop(Box::new_in(1_u8, &ring));
    let other = RingAlloc::new_in(&second);
    ring.clone_from(&other);
    assert!(ring == other);
    assert_eq!(first.held().bytes, 0);
    let same = ring.clone();
    ring.clone_from(&same);
    drop((ring, same, other));
    assert_eq!(second.held().bytes, 0);
}

#[test]
fn blocks_that_outlive_the_ring_stay_valid() {
    let backing = Reclaims::default();
    let ring = RingAlloc::new_in(&backing);
    let dead = Box::new_in([0_u64; 600], ring.clone());
    let small: &mut [u64; 8] = Box::leak(Box::new_in([1; 8], ring.clone()));
    let medium: &mut [u64; 600] = Box::leak(Box::new_in([2; 600], ring.clone()));
    let large: &mut [u64; 20_000] = Box::leak(Box::new_in([3; 20_000], ring.clone()));
    drop(dead);
    // Drop a copy for each of the three handles in the leaked boxes.
    for _ in 0..3 {
        // SAFETY: the copy replaces the handle in a leaked box, which is never used or dropped.
        drop(unsafe { ptr::read(&raw const ring) });
    }
    drop(ring);
    small[7] += medium[599];
    medium[0] += large[19_999];
    large[0] = small[7];
    assert_eq!((small[7], medium[0], large[0]), (3, 5, 3));
    let held = backing.held();
    assert!(
        held > size_of_val(small) + size_of_val(medium) + size_of_val(large),
        "the chunks of the live blocks were freed"
    );
    assert!(held < 2 * (256 << 10) + (200 << 10), "other chunks were leaked: {held} bytes");
}

#[test]
fn box_may_contain_a_handle_of_its_own_allocator() {
    let backing = Counting::new();
    let ring = RingAlloc::new_in(&backing);
    let mut boxed = Box::new_in((ring.clone(), 7), ring);
    boxed.1 += 1;
    assert!(boxed.0 == *Box::allocator(&boxed));
    assert_eq!(*Box::new_in(boxed.1, boxed.0.clone()), 8);
    drop(boxed);
    assert_eq!(backing.held().bytes, 0);
}

#[test]
fn last_handle_may_be_dropped_inside_the_ring() {
    let backing = Reclaims::default();
    let ring = RingAlloc::new_in(&backing);
    let other = Box::new_in([9_u8; 100], ring.clone());
    let (place, handle) = Box::into_raw_with_allocator(Box::new_in(ring.clone(), ring));
    drop((other, handle));
    // SAFETY: the box was taken apart, so nothing else drops its content, which is the last handle.
    // The memory of the box is not freed.
    unsafe { ptr::drop_in_place(place) };
    // The memory that contained the handle is still valid.
    let bytes = place.cast::<u8>();
    // SAFETY: the memory of the block outlives the ring, and its bytes were written.
    assert_eq!(unsafe { bytes.read() }, unsafe { bytes.read() });
    // SAFETY: the memory of the block outlives the ring, and nothing else uses it.
    unsafe { bytes.write_bytes(1, size_of::<usize>()) };
    assert!(backing.held() > 0);
}

#[test]
fn ring_is_usable_after_a_trim() {
    let backing = Counting::new();
    let ring = RingAlloc::new_in(&backing);
    let empty = backing.held().bytes;
    let count = if cfg!(miri) { 200 } else { 500 };
    for round in 0..if cfg!(miri) { 2 } else { 4 } {
        let kept = Box::new_in([round; 30], &ring);
        let blocks: alloc::vec::Vec<_> = (0..count).map(|number| Box::new_in([number; 30], &ring)).collect();
        ring.trim();
        assert!(blocks.iter().enumerate().all(|(number, block)| block[29] == number));
        drop(blocks);
        ring.trim();
        assert_eq!(ring.stats().chunks(), 1, "the chunk of the kept block");
        assert_eq!(kept[29], round);
        drop(kept);
        ring.trim();
        ring.flush();
        assert_eq!(backing.held().bytes, empty);
    }
}

#[test]
fn neighbours_in_one_chunk_are_used_independently() {
    let ring = RingAlloc::new();
    let mut first = Box::new_in(1_u64, ring.clone());
    let mut second = Box::new_in(2_u64, ring.clone());
    let (one, two) = (&mut *first, &mut *second);
    core::mem::swap(one, two);
    *one += 10;
    *two += 20;
    drop(second);
    let third = Box::new_in(3_u64, ring.clone());
    *first += *third;
    assert_eq!((*first, ring.stats().small.chunks), (15, 1));
    drop(first);
    assert_eq!(*third, 3);
}

#[test]
fn leaked_box_can_be_rebuilt_and_freed() {
    let ring = RingAlloc::new();
    let leaked: &mut [u32; 4] = Box::leak(Box::new_in([1, 2, 3, 4], &ring));
    leaked[0] = 9;
    let neighbour = Box::new_in(5_u8, &ring);
    // SAFETY: the pointer was leaked from a box of this ring, and nothing else uses it.
    let back = unsafe { Box::from_raw_in(ptr::from_mut(leaked), &ring) };
    assert_eq!((*back, *neighbour), ([9, 2, 3, 4], 5));
    let (raw, _) = Box::into_raw_with_allocator(back);
    // SAFETY: the pointer comes from the box, and nothing else uses it.
    unsafe { (*raw)[1] = 8 };
    // SAFETY: the pointer comes from a box of this ring.
    drop(unsafe { Box::from_raw_in(raw, &ring) });
    drop(neighbour);
    assert_eq!(ring.stats().blocks_live(), 0);
}

#[test]
fn ring_without_retained_chunks_keeps_only_the_front() {
    let backing = Counting::new();
    let ring = Builder::new().retain(0).build_in(&backing);
    let blocks: alloc::vec::Vec<_> = (0..200_u64).map(|number| Box::new_in([number; 100], &ring)).collect();
    assert!(ring.stats().chunks() > 3);
    drop(blocks);
    assert_eq!((ring.stats().chunks(), ring.stats().small.empty_chunks), (1, 1), "only the front");
}

#[test]
fn panic_in_a_destructor_leaks_nothing() {
    /// A value that owns a block of the ring. The block is freed even if the destructor of the
    /// value panics.
    struct Noisy<'a> {
        number: usize,
        dropped: &'a Cell<usize>,
        bytes: Vec<u8, RingAlloc<&'a Counting>>,
    }

    impl Drop for Noisy<'_> {
        fn drop(&mut self) {
            self.dropped.set(self.dropped.get() + self.bytes.len());
            if self.number == 3 {
                std::panic::resume_unwind(alloc::boxed::Box::new(()));
            }
        }
    }

    let backing = Counting::new();
    let ring = RingAlloc::new_in(&backing);
    let dropped = Cell::new(0);
    let mut elements = Vec::new_in(ring.clone());
    elements.extend((0..9).map(|number| {
        let mut bytes = Vec::new_in(ring.clone());
        bytes.extend_from_slice(&[7; 10]);
        Noisy { number, dropped: &dropped, bytes }
    }));
    let caught = catch_unwind(AssertUnwindSafe(|| drop(elements)));
    assert!(caught.is_err());
    assert_eq!(dropped.get(), 90, "not all elements were dropped");
    assert_eq!(ring.stats().blocks_live(), 0);

    let mut again = Vec::new_in(ring.clone());
    again.extend(0..1_000);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _boxed = Box::new_in(again, ring.clone());
        std::panic::resume_unwind(alloc::boxed::Box::new(()));
    }));
    assert!(caught.is_err());
    drop(ring);
    assert_eq!(backing.held().bytes, 0);
}

#[test]
#[cfg(debug_assertions)]
#[cfg_attr(any(miri, ephemera_poison = "asan"), ignore = "starts a process that leaks blocks on purpose")]
fn live_blocks_of_a_dropped_ring_are_reported() {
    if let Some(part) = child::part() {
        child::end_unless_it_ends(|| {
            let ring = RingAlloc::new();
            for _ in 0..if part == "live" { 2 } else { 0 } {
                ring.allocate(Layout::new::<[u8; 100]>()).expect("the system has memory");
            }
            drop(ring);
        });
    }
    let run = |part| child::run("live_blocks_of_a_dropped_ring_are_reported", part);
    let (live, none) = (run("live"), run("none"));
    assert!(live.succeeded() && live.stderr.contains("2 live blocks (200 bytes)"), "{live:?}");
    assert!(none.succeeded() && !none.stderr.contains("ring-alloc:"), "{none:?}");
}
