//! Tests of the hostile backing allocators.

use core::alloc::Layout;
use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;
use std::panic::catch_unwind;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_testkit::backing::{
    Calls, Counting, Disaligning, FREED, FRESH, FailNth, Hostile, LayoutChecked, Level, Limited, Shared,
    immortal,
};
use ephemera_testkit::violation::Refusing;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a small layout")
}

#[test]
fn counting_counts_calls_bytes_and_blocks() {
    let backing = Counting::new();
    let one = backing.allocate(layout(10, 2)).expect("served").cast::<u8>();
    let two = backing.allocate_zeroed(layout(20, 4)).expect("served").cast::<u8>();
    // SAFETY: the block is live with this layout.
    let one = unsafe { backing.grow(one, layout(10, 2), layout(110, 2)) }.expect("served").cast::<u8>();
    // SAFETY: the block is live with this layout.
    let one =
        unsafe { backing.grow_zeroed(one, layout(110, 2), layout(111, 2)) }.expect("served").cast::<u8>();
    // SAFETY: the block is live with this layout.
    let one = unsafe { backing.shrink(one, layout(111, 2), layout(1, 2)) }.expect("served").cast::<u8>();
    assert_eq!(backing.held(), Level { bytes: 21, peak: 131, blocks: 2, taken: 131 });
    backing.reset_peak();
    assert_eq!(backing.held().peak, 21);
    // SAFETY: the block is live with this layout.
    unsafe { backing.deallocate(one, layout(1, 2)) };
    // SAFETY: the block is live with this layout.
    unsafe { backing.deallocate(two, layout(20, 4)) };
    assert_eq!(backing.held(), Level { bytes: 0, peak: 21, blocks: 0, taken: 131 });
    let one_each = Calls {
        allocate: 1,
        allocate_zeroed: 1,
        deallocate: 2,
        grow: 1,
        grow_zeroed: 1,
        shrink: 1,
        refused: 0,
    };
    assert_eq!(backing.calls(), one_each);
}

#[test]
fn refused_calls_are_counted_and_hold_no_bytes() {
    let backing = Counting::over(FailNth::new());
    backing.inner().refusals().arm(Refusing::From(1));
    assert_eq!(backing.allocate(layout(8, 8)), Err(AllocError));
    assert_eq!(backing.allocate_zeroed(layout(8, 8)), Err(AllocError));
    assert_eq!((backing.calls().refused, backing.held()), (2, Level::default()));
}

#[test]
fn chosen_call_is_refused_once_or_with_all_later_ones() {
    let backing = FailNth::new();
    let served = |backing: &FailNth| Box::try_new_in(1_u64, backing).is_ok();
    let five = |backing: &FailNth| [0; 5].map(|_| served(backing));
    assert_eq!(five(&backing), [true; 5]);
    backing.refusals().arm(Refusing::Once(3));
    assert_eq!(five(&backing), [true, true, false, true, true]);
    assert_eq!((backing.refusals().calls(), backing.refusals().refused()), (5, 1));
    backing.refusals().arm(Refusing::From(2));
    assert_eq!(five(&backing), [true, false, false, false, false]);
    backing.refusals().arm(Refusing::Nothing);
    assert_eq!(five(&backing), [true; 5]);
}

#[test]
fn every_kind_of_allocating_call_can_be_refused() {
    let backing = FailNth::new();
    let small = layout(8, 8);
    let block = backing.allocate(small).expect("served").cast::<u8>();
    backing.refusals().arm(Refusing::From(1));
    // SAFETY: the block is live with this layout, even after a refusal.
    assert!(unsafe { backing.grow(block, small, layout(9, 8)) }.is_err());
    // SAFETY: the refusal left the block live with this layout.
    assert!(unsafe { backing.grow_zeroed(block, small, layout(9, 8)) }.is_err());
    // SAFETY: the refusal left the block live with this layout.
    assert!(unsafe { backing.shrink(block, small, layout(7, 8)) }.is_err());
    assert!(backing.allocate_zeroed(small).is_err());
    assert_eq!(backing.refusals().refused(), 4);
    // SAFETY: the refusal left the block live with this layout.
    unsafe { backing.deallocate(block, small) };
}

#[test]
#[should_panic(expected = "calls are counted from 1")]
fn arming_call_zero_panics() {
    FailNth::new().refusals().arm(Refusing::Once(0));
}

#[test]
fn blocks_have_exactly_the_requested_alignment() {
    let counting = Counting::new();
    let backing = Disaligning::over(&counting);
    for power in 0..=16 {
        for size in [0, 1, 7, 64, 1000] {
            let layout = layout(size, 1 << power);
            let blocks = [0; 4].map(|_| backing.allocate_zeroed(layout).expect("served"));
            for block in blocks {
                assert_eq!(block.cast::<u8>().addr().get() >> power & 1, 1, "{block:?} for {layout:?}");
                assert_eq!(block.len(), size);
                // SAFETY: the block is live with this layout.
                unsafe { backing.deallocate(block.cast(), layout) };
            }
        }
    }
    assert_eq!(counting.held().blocks, 0);
}

#[test]
fn containers_work_with_minimal_alignment() {
    let backing = Disaligning::new();
    let mut numbers = Vec::new_in(&backing);
    numbers.extend(0..1000_u64);
    numbers.shrink_to_fit();
    assert_eq!(numbers.iter().sum::<u64>(), 499_500);
}

#[test]
fn new_and_freed_memory_is_filled() {
    let layout = layout(40, 8);
    /// Keeps a copy of freed memory.
    struct Keeps(std::sync::Mutex<[u8; 40]>);
    // SAFETY: all blocks come from the global allocator, which meets the contract.
    unsafe impl Allocator for Keeps {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            Global.allocate(layout)
        }
        unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
            // SAFETY: this test frees only one block, which has 40 bytes that `LayoutChecked` has
            // filled.
            *self.0.lock().expect("no thread panics") = unsafe { ptr.cast::<[u8; 40]>().read() };
            // SAFETY: the caller upholds the method's contract, which is the same for `Global`.
            unsafe { Global.deallocate(ptr, layout) };
        }
    }
    let backing = LayoutChecked::over(Keeps(std::sync::Mutex::new([0; 40])));
    let block = backing.allocate(layout).expect("served");
    // SAFETY: the block is live, and all of its bytes are initialised.
    assert_eq!(unsafe { block.cast::<[u8; 40]>().read() }, [FRESH; 40]);
    assert_eq!(backing.outstanding(), [layout]);
    // SAFETY: the block is live with this layout.
    unsafe { backing.deallocate(block.cast(), layout) };
    assert_eq!(*backing.inner().0.lock().expect("no thread panics"), [FREED; 40]);
    backing.assert_no_leaks();
}

#[test]
fn added_part_of_a_grown_block_is_filled() {
    let backing = LayoutChecked::new();
    let block = backing.allocate_zeroed(layout(8, 8)).expect("served");
    // SAFETY: the block is live with this layout.
    let block = unsafe { backing.grow(block.cast(), layout(8, 8), layout(16, 8)) }.expect("served");
    // SAFETY: the block is live, and all of its bytes are initialised.
    let words = unsafe { block.cast::<[[u8; 8]; 2]>().read() };
    assert_eq!(words, [[0; 8], [FRESH; 8]]);
    // SAFETY: the block is live with this layout.
    unsafe { backing.deallocate(block.cast(), layout(16, 8)) };
}

/// Runs `misuse` on a block of 24 bytes aligned to 8, frees the block, and returns the message of
/// the panic.
fn complaint(misuse: impl FnOnce(&LayoutChecked, NonNull<u8>)) -> String {
    let backing = LayoutChecked::new();
    let block = backing.allocate(layout(24, 8)).expect("served").cast::<u8>();
    let caught = catch_unwind(AssertUnwindSafe(|| misuse(&backing, block)));
    let message =
        *caught.expect_err("the misuse is found").downcast::<String>().expect("a formatted message");
    // SAFETY: the misuse never reached the global allocator, so the block is live there.
    unsafe { Global.deallocate(block, layout(24, 8)) };
    message
}

#[test]
fn wrong_layout_or_unknown_block_panics() {
    // SAFETY: `LayoutChecked` panics because of the wrong layout before it uses the block.
    let message = complaint(|backing, block| unsafe { backing.deallocate(block, layout(25, 8)) });
    assert!(message.contains("deallocate of") && message.contains("size: 25"), "{message}");
    assert!(message.contains("was allocated with") && message.contains("size: 24"), "{message}");

    let message = complaint(|backing, block| {
        // SAFETY: `LayoutChecked` panics because of the wrong layout before it uses the block.
        _ = unsafe { backing.grow(block, layout(24, 4), layout(48, 4)) };
    });
    assert!(message.contains("grow of") && message.contains("was allocated with"), "{message}");

    let message = complaint(|backing, block| {
        // SAFETY: `LayoutChecked` panics because of the wrong layout before it uses the block.
        _ = unsafe { backing.grow_zeroed(block, layout(8, 8), layout(9, 8)) };
    });
    assert!(message.contains("grow_zeroed of"), "{message}");

    let message = complaint(|backing, block| {
        // SAFETY: `LayoutChecked` panics because of the wrong layout before it uses the block.
        _ = unsafe { backing.shrink(block, layout(16, 8), layout(8, 8)) };
    });
    assert!(message.contains("shrink of"), "{message}");

    let message = complaint(|backing, block| {
        // SAFETY: the block has 24 bytes, so the address is inside it.
        let inside = unsafe { block.add(8) };
        // SAFETY: `LayoutChecked` panics because of the unknown address before it uses the block.
        unsafe { backing.deallocate(inside, layout(16, 8)) };
    });
    assert!(message.contains("no such block is live"), "{message}");
}

#[test]
fn assert_no_leaks_lists_live_blocks() {
    let backing = LayoutChecked::new();
    let block = backing.allocate(layout(3, 1)).expect("served").cast::<u8>();
    assert_eq!(backing.outstanding(), [layout(3, 1)]);
    let caught = catch_unwind(AssertUnwindSafe(|| backing.assert_no_leaks()));
    let message =
        *caught.expect_err("there is a live block").downcast::<String>().expect("a formatted message");
    assert!(message.contains("1 blocks were not freed") && message.contains("size: 3"), "{message}");
    // SAFETY: the block is live with this layout.
    unsafe { backing.deallocate(block, layout(3, 1)) };
}

#[test]
fn limit_on_held_bytes_is_enforced() {
    let backing = Limited::over(Global, 100);
    let layout = layout(60, 4);
    let block = backing.allocate(layout).expect("served").cast::<u8>();
    assert!(backing.allocate(layout).is_err());
    assert_eq!(backing.held(), 60);
    // SAFETY: the block is live with this layout.
    unsafe { backing.deallocate(block, layout) };
    assert_eq!(backing.held(), 0);
    let block = backing.allocate(layout).expect("served").cast::<u8>();
    // SAFETY: the block is live with this layout.
    unsafe { backing.deallocate(block, layout) };
}

#[test]
fn hostile_allocator_works_from_several_threads() {
    let backing = immortal(Hostile::new());
    let rounds = if cfg!(miri) { 5 } else { 500 };
    let work =
        move || (0..rounds).for_each(|round| drop(Vec::<u32, _>::with_capacity_in(round % 7, backing)));
    let threads = [std::thread::spawn(work), std::thread::spawn(work)];
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    assert_eq!((backing.held().bytes, backing.held().blocks), (0, 0));
    assert!(backing.held().taken > 0 && backing.outstanding().is_empty());
}

#[test]
fn clones_of_a_shared_allocator_share_state() {
    let backing = Shared::new(Counting::new());
    let number = Box::new_in(7_u32, backing.clone());
    assert_eq!((*number, backing.held().bytes), (7, 4));
    drop(number);
    assert_eq!(backing.held().blocks, 0);
}
