//! Tests of threads that share a limit.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/threads.rs"]
mod support;

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::mpsc::channel;
use std::thread;

use allocator_api2::boxed::Box as Block;
use allocator_api2::vec::Vec as VecIn;
use support::{here_or_miri, joined};
use typed_pool::pooled_allocator;

const LARGE: Layout = Layout::new::<[u8; 60_000]>();

/// A thread keeps the empty units of a burst of blocks of 1,024 bytes, and continues with smaller
/// blocks, for which it has room. After another thread's request is refused, the first thread frees
/// the empty units at its next slow path of any class.
#[test]
fn conc_a_thread_with_small_blocks_frees_empty_units_for_another_thread() {
    pooled_allocator! {
        struct Limited;
    }
    let (medium, small) = (here_or_miri(1_000, 70), here_or_miri(2_500, 1_100));
    let (go, turns) = channel::<()>();
    let (done, ready) = channel::<()>();
    let other = thread::spawn(move || {
        let small = || drop((0..small).map(|_| Block::new_in([1_u8; 32], Limited)).collect::<Vec<_>>());
        small();
        // After each burst, the thread keeps more of its units.
        for _ in 0..here_or_miri(12, 2) {
            drop((0..medium).map(|_| Block::new_in([2_u8; 1_024], Limited)).collect::<Vec<_>>());
        }
        done.send(()).expect("the test waits");
        while turns.recv().is_ok() {
            small();
            done.send(()).expect("the test waits");
        }
    });
    ready.recv().expect("the other thread");
    Limited.set_limit(Limited.stats().bytes_held);
    assert!(Limited.allocate(LARGE).is_err(), "the other thread has taken no slow path since");
    go.send(()).expect("the other thread waits");
    ready.recv().expect("the other thread");
    let block = Limited.allocate(LARGE).expect("the empty units of the other thread").cast();
    // SAFETY: the block was just allocated with this layout.
    unsafe { Limited.deallocate(block, LARGE) };
    drop(go);
    joined(other);
    assert_eq!(Limited.stats().bytes_held, 0);
}

/// A thread keeps an empty front, which the count of spare units does not include, and continues
/// with blocks of another class. Another thread, whose request was refused, asks again and gets the
/// memory of that front.
#[test]
fn conc_a_repeated_refusal_asks_for_an_empty_front() {
    pooled_allocator! {
        struct Limited;
    }
    const WANTED: Layout = Layout::new::<[u64; 64]>();
    // A unit has room for 127 of the small blocks at most, so a thread that allocates `FEW` of them
    // takes its slow path.
    const FEW: usize = 130;
    // Every second slot stays free, so the thread needs no new unit for small blocks.
    const MANY: usize = 2 * 3 * FEW;
    let (go, turns) = channel::<usize>();
    let (done, ready) = channel::<()>();
    let other = thread::spawn(move || {
        let small = |count: usize| (0..count).map(|_| Block::new_in([1_u8; 256], Limited));
        let mut blocks: Vec<_> = small(MANY).collect();
        let mut odd = false;
        blocks.retain(|_| {
            odd = !odd;
            odd
        });
        let mut front = Some(Block::new_in([2_u64; 64], Limited));
        done.send(()).expect("the test waits");
        while let Ok(count) = turns.recv() {
            if count == 0 {
                let again = Block::new_in([3_u64; 64], Limited);
                drop((front.take(), again));
            }
            blocks.extend(small(count));
            done.send(()).expect("the test waits");
        }
    });
    let turn = |count| {
        go.send(count).expect("the other thread waits");
        ready.recv().expect("the other thread");
    };
    ready.recv().expect("the other thread");
    let ask = || {
        let block = Limited.allocate(WANTED);
        // SAFETY: the block was just allocated with this layout.
        block.map(|block| unsafe { Limited.deallocate(block.cast(), WANTED) }).is_ok()
    };
    Limited.set_limit(Limited.stats().bytes_held);
    assert!(!ask(), "no byte is left below the limit");
    // The other thread obeys the first request to trim, and empties its front only after that.
    turn(FEW);
    Limited.set_limit(Limited.stats().bytes_held);
    assert!(!ask(), "no byte is left below the limit");
    turn(FEW);
    turn(0);
    assert!(!ask(), "the other thread has taken no slow path since");
    turn(FEW);
    assert!(ask(), "the other thread keeps an empty front");
    drop(go);
    joined(other);
}

#[test]
fn conc_a_thread_with_large_blocks_frees_empty_units_for_another_thread() {
    pooled_allocator! {
        struct Limited;
    }
    let (go, turns) = channel::<()>();
    let (done, ready) = channel::<()>();
    let other = thread::spawn(move || {
        drop((0..70).map(|_| Block::new_in([2_u8; 1_024], Limited)).collect::<Vec<_>>());
        done.send(()).expect("the test waits");
        turns.recv().expect("the test asks");
        drop(Block::new_in([3_u8; 40_000], Limited));
        done.send(()).expect("the test waits");
        turns.recv().expect("the test asks");
    });
    ready.recv().expect("the other thread");
    Limited.set_limit(Limited.stats().bytes_held + 40_000);
    assert!(Limited.allocate(LARGE).is_err());
    go.send(()).expect("the other thread waits");
    ready.recv().expect("the other thread");
    let block = Limited.allocate(LARGE).expect("the empty units of the other thread").cast();
    // SAFETY: the block was just allocated with this layout.
    unsafe { Limited.deallocate(block, LARGE) };
    go.send(()).expect("the other thread waits");
    joined(other);
}

#[test]
fn the_limit_refuses_no_shrink() {
    pooled_allocator! {
        struct Limited;
    }
    let mut bytes = VecIn::with_capacity_in(70_000, Limited);
    bytes.push(7_u8);
    Limited.set_limit(70_000);
    let boxed = bytes.into_boxed_slice();
    assert_eq!((&*boxed, Limited.stats().live()), (&[7_u8][..], 1));
    assert!(Limited.stats().bytes_held < 70_000, "the old block is freed");
    drop(boxed);
    Limited.trim();
    assert_eq!(Limited.stats().bytes_held, 0);
}

/// Shrinks blocks while the limit leaves no byte of room: between classes, from blocks of pages,
/// and to other alignments.
#[test]
fn a_shrink_at_the_limit_exceeds_it_by_a_short_unit_at_most() {
    pooled_allocator! {
        struct Limited;
    }
    let layout = |size, align| Layout::from_size_align(size, align).expect("a layout");
    let moves = [
        (layout(70_000, 1), layout(1, 1)),
        (layout(70_000, 8), layout(20_000, 8)),
        (layout(20_000, 8), layout(5_000, 8)),
        (layout(2_000, 8), layout(1_024, 8)),
        (layout(1_000, 8), layout(900, 8)),
        (layout(1_000, 8), layout(8, 8)),
        (layout(1_000, 8), layout(64, 4_096)),
        (layout(3_000, 1), layout(3_000, 2_048)),
        (layout(500, 1), layout(500, 512)),
        (layout(4_000, 4_096), layout(40, 8)),
        (layout(100, 8), layout(0, 1)),
    ];
    for (old, new) in moves {
        Limited.set_limit(usize::MAX);
        let block: NonNull<u8> = Limited.allocate(old).expect("no limit").cast();
        // SAFETY: the bytes are within the block.
        unsafe { block.write_bytes(0xA5, old.size()) };
        let limit = Limited.stats().bytes_held;
        Limited.set_limit(limit);
        // SAFETY: the block is live and of the old layout, and the new one is no larger.
        let moved: NonNull<u8> = unsafe { Limited.shrink(block, old, new) }.expect("memory").cast();
        for at in 0..new.size() {
            // SAFETY: the bytes are within the block.
            let byte = unsafe { moved.add(at) };
            // SAFETY: the old block's bytes up to the new size were written before.
            assert_eq!(unsafe { byte.read() }, 0xA5, "{old:?} to {new:?}");
        }
        assert!(moved.addr().get() % new.align() == 0);
        // A short unit has at most 9 KiB, unless one slot needs more.
        let beyond = (new.size() + new.size() / 4).max(9 << 10);
        assert!(Limited.stats().bytes_held <= limit + beyond, "{old:?} to {new:?}: {:?}", Limited.stats());
        assert!(Limited.allocate(layout(limit + 1, 1)).is_err(), "the limit refuses other requests");
        // SAFETY: the block is live and has the new layout.
        unsafe { Limited.deallocate(moved, new) };
        Limited.trim();
    }
    Limited.set_limit(0);
    assert!(Limited.allocate(layout(8, 8)).is_err());
}

/// Allocates 200 blocks, and returns the first that `wanted` accepts, and the others.
fn one_of_200<E: core::fmt::Debug>(
    allocate: impl Fn() -> Result<NonNull<[u8]>, E>,
    wanted: impl Fn(&NonNull<u8>) -> bool,
) -> (NonNull<u8>, Vec<NonNull<u8>>) {
    let mut blocks: Vec<_> = (0..200).map(|_| allocate().expect("no limit").cast()).collect();
    let at = blocks.iter().position(wanted).expect("one of the blocks is wanted");
    (blocks.swap_remove(at), blocks)
}

/// A larger alignment may put a layout of the same size into a class with longer slots.
#[test]
fn a_block_shrunk_at_the_limit_to_a_larger_alignment_can_grow_within_its_class() {
    pooled_allocator! {
        struct Limited;
    }
    let layout = |size, align| Layout::from_size_align(size, align).expect("a layout");
    for (old, new, grown) in [
        (layout(72, 8), layout(72, 64), layout(128, 64)),
        (layout(2_100, 8), layout(2_100, 4_096), layout(4_096, 4_096)),
    ] {
        Limited.set_limit(usize::MAX);
        // `grown.size()` is the alignment of the slots of the new class.
        let aligned = |block: &NonNull<u8>| block.addr().get() % grown.size() == 0;
        let (block, blocks) = one_of_200(|| Limited.allocate(old), aligned);
        // SAFETY: the bytes are within the block.
        blocks.iter().for_each(|block| unsafe { block.write_bytes(0x11, old.size()) });
        Limited.set_limit(Limited.stats().bytes_held);
        // SAFETY: the block is live and of the old layout, and the new one is no larger.
        let block = unsafe { Limited.shrink(block, old, new) }.expect("memory").cast();
        // SAFETY: the block is live and has the new layout, which is not larger than `grown`.
        let block: NonNull<u8> = match unsafe { Limited.grow(block, new, grown) } {
            Ok(block) => block.cast(),
            Err(_) => {
                Limited.set_limit(usize::MAX);
                // SAFETY: the block is unchanged after the refused growth.
                unsafe { Limited.grow(block, new, grown) }.expect("no limit").cast()
            }
        };
        // SAFETY: the bytes are within the block.
        unsafe { block.write_bytes(0x22, grown.size()) };
        for other in blocks {
            // SAFETY: the block is live, and its bytes were written before.
            assert_eq!(unsafe { other.cast::<[u8; 72]>().read() }, [0x11; 72], "{old:?} to {grown:?}");
            // SAFETY: the block is live and has this layout.
            unsafe { Limited.deallocate(other, old) };
        }
        // SAFETY: the block is live and has the grown layout.
        unsafe { Limited.deallocate(block, grown) };
    }
}

/// Every slot of a class has the largest alignment of the layouts of that class, so a resize within
/// the class never moves the block.
#[test]
fn a_block_shrunk_at_the_limit_can_get_a_larger_alignment_within_its_class() {
    pooled_allocator! {
        struct Limited;
    }
    let layout = |size, align| Layout::from_size_align(size, align).expect("a layout");
    for (old, new, aligned) in [
        (layout(160, 8), layout(120, 8), layout(100, 128)),
        (layout(3_500, 8), layout(2_000, 8), layout(62, 2_048)),
    ] {
        Limited.set_limit(usize::MAX);
        let is_aligned = |block: &NonNull<u8>| block.addr().get() % aligned.align() == 0;
        let (block, blocks) = one_of_200(|| Limited.allocate(old), |block| !is_aligned(block));
        Limited.set_limit(Limited.stats().bytes_held);
        // SAFETY: the block is live and of the old layout, and the new one is smaller.
        let block = unsafe { Limited.shrink(block, old, new) }.expect("memory").cast::<u8>();
        // SAFETY: the block is live and of the layout `new`, and `aligned` is smaller.
        let block = unsafe { Limited.shrink(block, new, aligned) }.expect("memory").cast::<u8>();
        assert!(is_aligned(&block), "{block:?} for {aligned:?}");
        // SAFETY: the block is live and has this layout.
        unsafe { Limited.deallocate(block, aligned) };
        // SAFETY: the blocks are live and have this layout.
        blocks.into_iter().for_each(|block| unsafe { Limited.deallocate(block, old) });
    }
}
