//! Tests with backing allocators that use the ring above them in the middle of an operation of the
//! ring.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::rc::Rc;
use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ring_alloc::{Builder, RingAlloc};

/// A backing allocator whose outermost calls allocate from the ring above it.
#[derive(Clone, Default)]
struct Reenters(Rc<Below>);

#[derive(Default)]
struct Below {
    ring: RefCell<Option<RingAlloc<Reenters>>>,
    blocks: RefCell<alloc::vec::Vec<(NonNull<u8>, Layout)>>,
    busy: Cell<bool>,
    calls: Cell<usize>,
}

/// The layouts that the backing allocator allocates from the ring: small, medium and large.
const OWN: [Layout; 3] =
    [Layout::new::<[u64; 5]>(), Layout::new::<[u64; 700]>(), Layout::new::<[u64; 9_000]>()];

impl Below {
    fn reenter(&self) {
        let Some(ring) = self.ring.borrow().clone() else { return };
        if self.busy.replace(true) {
            return;
        }
        self.calls.set(self.calls.get() + 1);
        for layout in OWN {
            if let Ok(block) = ring.allocate(layout) {
                self.blocks.borrow_mut().push((block.cast(), layout));
            }
        }
        // Keep some blocks for later calls.
        while self.blocks.borrow().len() > 7 {
            let (block, layout) = self.blocks.borrow_mut().swap_remove(1);
            // SAFETY: this ring served the live block with this layout.
            unsafe { ring.deallocate(block, layout) };
        }
        if self.calls.get() % 3 == 0 {
            ring.flush();
        }
        self.busy.set(false);
    }
}

// SAFETY: every block comes from the global heap, which meets the contract.
unsafe impl Allocator for Reenters {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.reenter();
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.0.reenter();
        // SAFETY: the caller's live block comes from the global heap.
        unsafe { Global.deallocate(block, layout) };
    }
}

#[test]
fn backing_allocator_may_use_the_ring_above_it() {
    for retain in [0, 1, 4] {
        let backing = Reenters::default();
        let ring = Builder::new().retain(retain).build_in(backing.clone());
        let below = &*backing.0;
        *below.ring.borrow_mut() = Some(ring.clone());
        let mut blocks = alloc::vec::Vec::new();
        for number in 0..if cfg!(miri) { 60 } else { 2_000 } {
            let mut bytes = Vec::with_capacity_in([40, 900, 6_000, 80_000][number % 4], ring.clone());
            bytes.resize(30, number as u8);
            blocks.push(bytes);
            if number % 3 == 0 {
                blocks.swap_remove(number / 3 % blocks.len());
            }
            if number % 50 == 49 {
                blocks.truncate(10);
                ring.flush();
            }
        }
        assert!(below.calls.get() > 5, "{} calls from below", below.calls.get());
        assert!(blocks.iter().all(|bytes| bytes.iter().all(|&byte| byte == bytes[0])));
        drop(blocks);
        below.ring.take();
        let own = below.blocks.take();
        assert_eq!(ring.stats().blocks_live(), own.len());
        for (block, layout) in own {
            // SAFETY: this ring served the live block with this layout.
            unsafe { ring.deallocate(block, layout) };
        }
        assert_eq!(ring.stats().blocks_live(), 0);
        ring.flush();
        assert_eq!(ring.stats().chunks(), 0);
        drop(ring);
        assert_eq!(Rc::strong_count(&backing.0), 1);
    }
}

/// A backing allocator whose `allocate` leaves the ring with an empty front, and whose `deallocate`
/// flushes the ring.
#[derive(Clone, Default)]
struct Flushes(Rc<FlushesBelow>);

#[derive(Default)]
struct FlushesBelow {
    ring: RefCell<Option<RingAlloc<Flushes>>>,
    busy: Cell<bool>,
    flushes: Cell<usize>,
}

// SAFETY: every block comes from the global heap, which meets the contract.
unsafe impl Allocator for Flushes {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let ring = self.0.ring.borrow().clone();
        if let Some(ring) = ring.filter(|_| !self.0.busy.replace(true)) {
            drop(Box::new_in([1_u8; 1_000], ring));
            self.0.busy.set(false);
        }
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if let Some(ring) = self.0.ring.borrow().as_ref() {
            self.0.flushes.set(self.0.flushes.get() + 1);
            ring.flush();
        }
        // SAFETY: the caller's live block comes from the global heap.
        unsafe { Global.deallocate(block, layout) };
    }
}

#[test]
fn new_chunk_is_not_freed_before_its_first_block() {
    let backing = Flushes::default();
    let ring = Builder::new().retain(0).build_in(backing.clone());
    *backing.0.ring.borrow_mut() = Some(ring.clone());
    let blocks: alloc::vec::Vec<_> =
        (0..100).map(|number| Box::new_in([number; 125], ring.clone())).collect();
    assert!(backing.0.flushes.get() > 0);
    assert!(blocks.iter().enumerate().all(|(number, block)| block[124] == number));
    assert_eq!((ring.stats().blocks_live(), ring.stats().bytes_live()), (100, 100_000));
    drop(blocks);
    assert_eq!(ring.stats().blocks_live(), 0);
    backing.0.ring.take();
}
