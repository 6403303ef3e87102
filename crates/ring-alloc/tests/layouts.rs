//! Tests that ordinary layouts are served, that absurd ones are refused, and that a resize leaves
//! the block in place if it can.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

#[path = "support/checked.rs"]
mod checked;

use core::alloc::Layout;

use allocator_api2::alloc::{AllocError, Allocator};
use checked::{Checked, layout};
use ephemera_testkit::backing::{Calls, Counting, Hostile};
use ephemera_testkit::suite::take_turn;
use ring_alloc::{OneRingAlloc, RingAlloc};

/// Calls `test` with a ring over a hostile allocator, and with `OneRingAlloc`. The ring must return
/// all of its memory to the hostile allocator, and `OneRingAlloc` must hold as much as before.
fn with_both(test: impl Fn(&dyn Allocator)) {
    let backing = Hostile::new();
    let ring = RingAlloc::new_in(&backing);
    test(&ring);
    drop(ring);
    assert_eq!(backing.outstanding(), []);

    take_turn();
    let before = clean();
    test(&OneRingAlloc);
    assert_eq!(clean(), before);
}

fn clean() -> usize {
    OneRingAlloc.clean_local();
    OneRingAlloc.clean_global();
    OneRingAlloc.stats().bytes_held
}

/// Returns sizes around the class edges and around 256 KiB, and every size below 5,000. Under Miri,
/// returns fewer sizes.
fn sizes() -> impl Iterator<Item = usize> {
    let step = if cfg!(miri) { 1_201 } else { 1 };
    let edges = [2 << 10, 64 << 10, 256 << 10].into_iter().flat_map(|edge| edge - 2..edge + 3);
    (0..5_000).step_by(step).chain(edges)
}

#[test]
fn blocks_of_16_bytes_are_16_bytes_apart() -> Result<(), AllocError> {
    let backing = Counting::new();
    let ring = RingAlloc::new_in(&backing);
    let mut blocks = Checked::new(&ring);
    for align in [1, 2, 4, 8, 16] {
        let first = blocks.allocate(layout(16, align))?;
        let second = blocks.allocate(layout(16, align))?;
        let third = blocks.allocate(layout(16, align))?;
        assert_eq!((second - first, third - second), (16, 16), "aligned to {align}");
    }
    Ok(())
}

#[test]
fn every_size_and_alignment_is_served() {
    with_both(|ring| {
        let mut blocks = Checked::new(&ring);
        for size in sizes() {
            for align in (0..=16).step_by(if cfg!(miri) { 8 } else { 1 }).map(|power| 1 << power) {
                blocks.allocate(layout(size, align)).expect("an ordinary layout is served");
            }
            if blocks.oracle.len() > 60 {
                while !blocks.oracle.is_empty() {
                    blocks.free(blocks.oracle.len() / 2);
                }
            }
        }
    });
}

#[test]
fn large_alignments_are_served_or_refused() {
    with_both(|ring| {
        for align in [1 << 20, 1 << 29] {
            for size in [0, 1, 8, 4_096, 100_000] {
                let mut blocks = Checked::new(&ring);
                // `Checked` verifies the block, or that a refusal leaves all blocks unchanged.
                let first = blocks.allocate(layout(size, align));
                assert!(first.is_ok() || align == 1 << 29, "{size} bytes aligned to {align}");
                blocks.allocate(layout(8, 8)).expect("an ordinary layout is served");
            }
        }
    });
}

#[test]
fn absurd_sizes_are_refused() {
    let backing = Hostile::new();
    let ring = RingAlloc::new_in(&backing);
    let mut blocks = Checked::new(&ring);
    blocks.allocate(layout(40, 8)).expect("an ordinary layout is served");
    blocks.allocate(layout(400_000, 8)).expect("an ordinary layout is served");
    let held = backing.held().bytes;
    for align in [1, 8, 4096, 1 << 20, 1 << 29] {
        let most = isize::MAX as usize - (align - 1);
        let sizes = [most, most - 1, most / 2, most / 4];
        // A 32-bit target cannot serve half of its address space, but it may serve a quarter.
        for &size in &sizes[..if usize::BITS == 64 { 4 } else { 2 }] {
            let absurd = layout(size, align);
            assert_eq!(blocks.allocate(absurd), Err(AllocError), "{absurd:?}");
            assert!(ring.allocate_zeroed(absurd).is_err(), "{absurd:?}");
            for index in 0..2 {
                assert_eq!(blocks.resize(index, absurd, false), Err(AllocError), "{absurd:?}");
                assert_eq!(blocks.resize(index, absurd, true), Err(AllocError), "{absurd:?}");
            }
            assert_eq!(ring.stats().bytes_held, backing.held().bytes);
        }
    }
    assert!(backing.held().bytes <= held, "a refusal took memory");
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program over a size that no machine has")]
fn absurd_sizes_are_refused_by_one_ring_alloc() {
    take_turn();
    let before = OneRingAlloc.stats().bytes_held;
    for size in [isize::MAX as usize, isize::MAX as usize / 2] {
        assert!(OneRingAlloc.allocate(layout(size, 1)).is_err());
        assert!(OneRingAlloc.allocate_zeroed(layout(size, 1)).is_err());
    }
    assert_eq!(OneRingAlloc.stats().bytes_held, before);
}

#[test]
fn size_of_zero_takes_no_memory() {
    let backing = Counting::new();
    let ring = RingAlloc::new_in(&backing);
    let (calls, stats) = (backing.calls(), ring.stats());
    for align in (0..30).map(|power| 1 << power) {
        let mut blocks = Checked::new(&ring);
        assert!(blocks.allocate(layout(0, align)).expect("served").is_multiple_of(align));
        blocks.allocate(layout(0, align)).expect("served");
        blocks.resize(0, layout(0, 1), true).expect("a block of size zero is resized to size zero");
        let zeroed = ring.allocate_zeroed(layout(0, align)).expect("served");
        // SAFETY: the ring has just served the block for this layout.
        unsafe { ring.deallocate(zeroed.cast(), layout(0, align)) };
    }
    assert_eq!((backing.calls(), ring.stats()), (calls, stats));
}

#[test]
fn blocks_grow_from_size_zero_and_shrink_to_it() {
    with_both(|ring| {
        for size in [1, 16, 2_048, 2_049, 65_536, 65_537, 300_000] {
            let mut blocks = Checked::new(&ring);
            blocks.allocate(layout(0, 1)).expect("served");
            blocks.resize(0, layout(size, 8), size % 2 == 0).expect("served");
            blocks.resize(0, layout(0, 16), false).expect("size zero is always served");
            blocks.resize(0, layout(size, 1), size % 2 != 0).expect("served");
        }
    });
}

#[test]
fn block_shrunk_to_size_zero_is_freed() {
    let backing = Counting::new();
    let ring = RingAlloc::new_in(&backing);
    for size in [24, 5_000, 100_000] {
        let mut blocks = Checked::new(&ring);
        blocks.allocate(layout(size, 8)).expect("served");
        assert_eq!(ring.stats().blocks_live(), 1);
        blocks.resize(0, layout(0, 8), false).expect("served");
        assert_eq!((ring.stats().blocks_live(), ring.stats().bytes_live()), (0, 0), "{size} bytes");
    }
}

#[test]
fn every_resize_keeps_the_old_bytes_and_zeroes_the_new_ones() {
    // The oracle checks that the bytes from the old layout's size on are zero, in memory that
    // contained garbage before.
    let sizes = [0, 1, 7, 8, 9, 100, 2_047, 2_048, 2_049, 9_000, 65_536, 65_537, 200_000];
    let some = if cfg!(miri) { 4 } else { 1 };
    let kinds = [(false, false), (true, true), (true, false), (false, true)];
    with_both(|ring| {
        let mut blocks = Checked::new(&ring);
        let mut turns = 0;
        for from in sizes.into_iter().step_by(some) {
            for to in sizes.into_iter().rev().step_by(some) {
                for (number, (zeroed, covered)) in kinds.into_iter().enumerate() {
                    // Under Miri, each pair of sizes is tried with only one kind of resize, and the
                    // next pair with another kind.
                    turns += usize::from(number == 0);
                    if cfg!(miri) && turns % kinds.len() != number {
                        continue;
                    }
                    blocks.allocate(layout(from, 8)).expect("served");
                    if covered {
                        blocks.allocate(layout(from.max(1), 8)).expect("served");
                    }
                    blocks.resize(0, layout(to, 8), zeroed).expect("served");
                    blocks.resize(0, layout(from, 8), zeroed).expect("served");
                    while !blocks.oracle.is_empty() {
                        blocks.free(0);
                    }
                }
            }
        }
    });
}

#[test]
fn resizes_may_change_the_alignment() {
    let aligns: Vec<usize> =
        (0..=16).step_by(if cfg!(miri) { 8 } else { 1 }).map(|power| 1 << power).collect();
    with_both(|ring| {
        for &from in &aligns {
            for &to in &aligns {
                let mut blocks = Checked::new(&ring);
                // Without this block, the next one could be aligned to more than its layout
                // requests.
                blocks.allocate(layout(8, 8)).expect("served");
                blocks.allocate(layout(120, from)).expect("served");
                blocks.resize(1, layout(120, to), false).expect("served");
                blocks.resize(1, layout(3_000, from), true).expect("served");
                blocks.resize(1, layout(2_000, to), false).expect("served");
                blocks.resize(1, layout(100_000, from), false).expect("served");
                blocks.resize(1, layout(90_000, to), false).expect("served");
                blocks.resize(1, layout(5, from), false).expect("served");
            }
        }
    });
}

#[test]
fn top_block_is_resized_in_place() {
    with_both(|ring| {
        for (size, most) in [(64, 2_048), (3_000, 65_536)] {
            let mut blocks = Checked::new(&ring);
            blocks.allocate(layout(size, 8)).expect("served");
            let start = blocks.allocate(layout(size, 8)).expect("served");
            for to in [size + 1, size + 8, size + 100, most, most / 2, most / 2 + 1] {
                assert_eq!(blocks.resize(1, layout(to, 8), to % 2 == 0), Ok(start), "to {to}");
            }
            // After this shrink, the next block uses the room that the shrunk block gave up.
            assert_eq!(blocks.resize(1, layout(size, 8), false), Ok(start));
            assert_eq!(blocks.allocate(layout(size, 8)), Ok(start + size));
        }
    });
}

#[test]
fn room_of_a_freed_top_block_is_reused() {
    with_both(|ring| {
        for size in [64, 3_000] {
            let mut blocks = Checked::new(&ring);
            blocks.allocate(layout(size, 8)).expect("served");
            let top = blocks.allocate(layout(size, 8)).expect("served");
            blocks.free(1);
            assert_eq!(blocks.allocate(layout(size - 8, 8)), Ok(top));
        }
    });
}

#[test]
fn chunk_starts_over_after_its_last_block_is_freed() {
    with_both(|ring| {
        for size in [64, 3_000] {
            let mut blocks = Checked::new(&ring);
            let first = blocks.allocate(layout(size, 8)).expect("served");
            for _ in 0..7 {
                blocks.allocate(layout(size, 8)).expect("served");
            }
            // In this order, the frees do not move the cursor back step by step.
            for index in [3, 0, 5, 1, 1, 0, 1, 0] {
                blocks.free(index);
            }
            assert_eq!(blocks.allocate(layout(size, 8)), Ok(first));
        }
    });
}

#[test]
fn block_below_the_top_shrinks_in_place_and_moves_to_grow() {
    with_both(|ring| {
        for size in [64, 3_000] {
            let mut blocks = Checked::new(&ring);
            let start = blocks.allocate(layout(size, 8)).expect("served");
            let cover = blocks.allocate(layout(size, 8)).expect("served");
            assert_eq!(blocks.resize(0, layout(size - 8, 8), false), Ok(start));
            assert_ne!(blocks.resize(0, layout(size, 8), false), Ok(start));
            assert_eq!(blocks.oracle.blocks()[1].address(), cover);
        }
    });
}

#[test]
fn top_block_moves_to_change_its_class_or_alignment() {
    with_both(|ring| {
        let mut blocks = Checked::new(&ring);
        let start = blocks.allocate(layout(2_000, 8)).expect("served");
        assert_ne!(blocks.resize(0, layout(2_049, 8), false), Ok(start), "another class");
        blocks.free(0);
        // Of two neighbours 8 bytes apart, one is not aligned to 16.
        blocks.allocate(layout(8, 8)).expect("served");
        blocks.allocate(layout(8, 8)).expect("served");
        if blocks.oracle.blocks()[1].address().is_multiple_of(16) {
            blocks.allocate(layout(8, 8)).expect("served");
        }
        let top = blocks.oracle.len() - 1;
        let start = blocks.oracle.blocks()[top].address();
        assert_ne!(blocks.resize(top, layout(8, 16), false), Ok(start), "another alignment");
    });
}

#[test]
fn large_blocks_are_resized_by_the_backing_allocator() {
    let large = |size| layout(size, 64);
    let backing = Counting::new();
    let ring = RingAlloc::new_in(&backing);
    let mut blocks = Checked::new(&ring);
    let before = backing.calls();
    blocks.allocate(large(100_000)).expect("served");
    blocks.resize(0, large(200_000), false).expect("served");
    blocks.resize(0, large(300_000), true).expect("served");
    blocks.resize(0, large(70_000), false).expect("served");
    blocks.resize(0, Layout::from_size_align(70_000, 8_192).expect("a layout"), false).expect("served");
    let zeroed = ring.allocate_zeroed(large(80_000)).expect("served");
    // SAFETY: the ring has just served the block for this layout.
    unsafe { ring.deallocate(zeroed.cast(), large(80_000)) };
    let after = backing.calls();
    let expected = Calls {
        allocate: before.allocate + 1,
        allocate_zeroed: before.allocate_zeroed + 1,
        grow: before.grow + 2,
        grow_zeroed: before.grow_zeroed + 1,
        shrink: before.shrink + 1,
        deallocate: before.deallocate + 1,
        refused: 0,
    };
    assert_eq!(after, expected);
    assert_eq!(ring.stats().large.bytes_live, 70_000);
}
