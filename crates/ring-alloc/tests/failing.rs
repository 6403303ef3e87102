//! Tests with backing allocators that refuse calls, or that unwind from `deallocate`. After
//! refusals, requests may fail, but blocks stay unchanged, and all memory is freed in the end.
//! After an unwinding `deallocate`, live blocks stay valid.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/checked.rs"]
mod checked;
#[path = "support/tiny.rs"]
mod tiny;

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use allocator_api2::alloc::{AllocError, Allocator, Global};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use checked::{Checked, layout};
use ephemera_testkit::backing::Hostile;
use ephemera_testkit::violation::Refusing;
use ring_alloc::{Builder, Geometry, RingAlloc, Standard};
use tiny::Tiny;

/// Allocates, resizes and frees blocks of every class, and returns how many requests failed.
fn script<G: Geometry>(backing: &Hostile) -> usize {
    let Ok(ring) = Builder::new().geometry::<G>().try_build_in(backing) else { return 1 };
    let (small, medium, large) = (G::SMALL_MAX, G::MEDIUM_MAX, G::MEDIUM_MAX * 3);
    let mut failed = 0;
    let mut blocks = Checked::new(&ring);
    let rounds = if cfg!(miri) { 2 } else { 5 };
    for round in 0..rounds {
        for size in [small, medium, large, small / 2, medium / 2, 8] {
            failed += usize::from(blocks.allocate(layout(size, 8)).is_err());
        }
        for (pick, size) in
            [(0, large), (1, small), (2, medium), (0, large + 64), (1, 0), (3, large - 64), (1, 16)]
        {
            if pick < blocks.oracle.len() {
                failed += usize::from(blocks.resize(pick, layout(size, 16), size % 3 == 0).is_err());
            }
        }
        if round % 2 == 0 {
            while blocks.oracle.len() > 2 {
                blocks.free(1);
            }
            ring.flush();
        }
        let stats = ring.stats();
        assert_eq!(stats.bytes_held, backing.held().bytes);
        assert_eq!((stats.blocks_live(), stats.bytes_live()), live(&blocks));
    }
    failed
}

/// Returns the numbers of live blocks and of their bytes. Does not count blocks of size zero.
fn live<A: allocator_api2::alloc::Allocator>(blocks: &Checked<'_, A>) -> (usize, usize) {
    let some = blocks.oracle.blocks().iter().filter(|block| block.layout().size() != 0);
    (some.count(), blocks.oracle.bytes())
}

fn fails_everywhere<G: Geometry>() {
    let clean = Hostile::new();
    assert_eq!(script::<G>(&clean), 0);
    let calls = clean.refusals().calls();
    assert!(calls > 8, "{calls} calls");
    let step = if cfg!(miri) { 17 } else { 1 };
    for call in (1..=calls).step_by(step) {
        // After a single refusal, the ring trims and tries again, so the request may succeed.
        let backing = Hostile::new();
        backing.refusals().arm(Refusing::Once(call));
        script::<G>(&backing);
        assert_eq!(backing.refusals().refused(), 1);
        assert_eq!(backing.outstanding(), [], "call {call} refused");

        let backing = Hostile::new();
        backing.refusals().arm(Refusing::From(call));
        assert!(script::<G>(&backing) > 0, "calls from {call} on refused");
        assert_eq!(backing.outstanding(), [], "calls from {call} on refused");
    }
}

#[test]
fn refusal_of_any_call_is_handled_in_tiny_chunks() {
    fails_everywhere::<Tiny>();
}

#[test]
fn refusal_of_any_call_is_handled_in_standard_chunks() {
    fails_everywhere::<Standard>();
}

#[test]
fn refused_state_is_an_error() {
    let backing = Hostile::new();
    backing.refusals().arm(Refusing::Once(1));
    assert!(RingAlloc::try_new_in(&backing).is_err());
    assert_eq!((backing.refusals().calls(), backing.held().blocks), (1, 0));
    let ring = RingAlloc::try_new_in(&backing).expect("the second call is served");
    assert_eq!(*Box::new_in(5_u8, &ring), 5);
}

#[test]
fn refused_growth_is_an_error_and_leaves_the_collection_unchanged() {
    let backing = Hostile::new();
    let ring = RingAlloc::new_in(&backing);
    let mut bytes: Vec<u8, _> = Vec::new_in(ring.clone());
    bytes.extend(0..=255);
    backing.refusals().arm(Refusing::From(1));
    for more in [40 << 10, 100 << 10, 1 << 20] {
        assert!(bytes.try_reserve_exact(more).is_err());
    }
    assert!(bytes.iter().copied().eq(0..=255));
    backing.refusals().arm(Refusing::Nothing);
    bytes.try_reserve_exact(1 << 20).expect("served again");
    assert!(bytes.iter().copied().eq(0..=255));
    drop((bytes, ring));
    assert_eq!(backing.outstanding(), []);
}

#[test]
fn kept_chunks_are_freed_before_a_large_block_is_refused() {
    // The backing allocator has room for three chunks, or for the large block without any chunk.
    let backing = ephemera_testkit::backing::Limited::over(Hostile::new(), 120 << 10);
    let ring = RingAlloc::new_in(&backing);
    let blocks: alloc::vec::Vec<_> = (0..90).map(|_| Box::new_in([1_u8; 1000], &ring)).collect();
    assert!(ring.allocate(layout(90 << 10, 8)).is_err());
    drop(blocks);
    assert!(backing.held() > 90 << 10, "no chunks were kept");
    let mut large: Vec<u8, _> = Vec::new_in(&ring);
    large.try_reserve_exact(90 << 10).expect("kept chunks are freed before a refusal");
}

/// A backing allocator that unwinds from every `deallocate`, against the contract, and records its
/// own drop.
struct Unwinds(&'static AtomicBool);

// SAFETY: every method forwards to the global heap, which all values share.
unsafe impl Allocator for Unwinds {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the global heap served the caller's block.
        unsafe { Global.deallocate(block, layout) };
        std::panic::resume_unwind(alloc::boxed::Box::new("from deallocate"));
    }
}

impl Drop for Unwinds {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn backing_allocator_that_unwinds_from_deallocate_keeps_live_blocks() {
    static DROPPED: AtomicBool = AtomicBool::new(false);
    let ring = RingAlloc::new_in(Unwinds(&DROPPED));
    let block = ring.allocate(layout(100, 8)).expect("the global heap serves it").cast::<u8>();
    let caught = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| drop(ring)));
    assert!(caught.is_err(), "freeing the state does not unwind");
    assert!(!DROPPED.load(Ordering::Relaxed), "the backing allocator was dropped with a live block");
    // SAFETY: the block was not freed, and the ring leaked the block's chunk, so the memory is
    // valid.
    unsafe { block.write_bytes(7, 100) };
    // The ring leaked the chunk and the backing allocator. Leak checkers must not report the chunk.
    ephemera_testkit::backing::immortal(AtomicPtr::new(block.as_ptr()));
}
