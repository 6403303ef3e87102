//! Blocks that live long among short-lived ones keep sections of chunks, not whole chunks.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

#[path = "support/checked.rs"]
mod checked;

extern crate alloc;

use alloc::collections::VecDeque;

use checked::{Checked, layout};
use ephemera_testkit::SplitMix;
use ring_alloc::{Geometry, RingAlloc};

/// A geometry whose chunks are small and have sections.
#[derive(Debug, Clone, Copy)]
struct Sectioned;

impl Geometry for Sectioned {
    const SMALL_MAX: usize = 200;
    const SMALL_ALIGN: usize = 16;
    const SMALL_CHUNK: usize = 4 << 10;
    const MEDIUM_MAX: usize = 1 << 10;
    const MEDIUM_ALIGN: usize = 64;
    const MEDIUM_CHUNK: usize = 8 << 10;
    const RETAIN: usize = 1;
}

type Ring = RingAlloc<allocator_api2::alloc::Global, Sectioned>;

fn ring() -> Ring {
    RingAlloc::builder().geometry::<Sectioned>().build()
}

/// The number of short-lived blocks for each survivor.
const APART: usize = 25;
/// Enough survivors for the first census in chunks of 4 KiB, and as many more.
const SURVIVORS: usize = if cfg!(miri) { 70 } else { 200 };

/// Leaves `SURVIVORS` blocks live, with many freed ones between them.
fn scatter(live: &mut Checked<'_, Ring>) {
    let mut rng = SplitMix::new(11);
    for _ in 0..SURVIVORS {
        let kept = live.oracle.blocks().len();
        for _ in 0..APART {
            live.allocate(layout(150 + rng.below(51), 8)).expect("memory");
        }
        for _ in 1..APART {
            live.free(kept);
        }
    }
}

/// Returns the live bytes that the ring reports, and those of the oracle.
fn live_bytes(ring: &Ring, live: &Checked<'_, Ring>) -> (usize, usize) {
    let sizes = live.oracle.blocks().iter().map(|block| block.layout().size());
    (ring.stats().bytes_live, sizes.sum())
}

#[test]
fn survivors_pin_sections_and_not_chunks() {
    let ring = ring();
    let mut live = Checked::new(&ring);
    scatter(&mut live);
    let stats = ring.stats();
    assert_eq!(stats.blocks_live(), SURVIVORS);
    // Without sections, each survivor has a chunk of its own.
    assert!(stats.chunks() < SURVIVORS * 2 / 3, "{stats:?}");
}

#[test]
fn one_survivor_in_a_hundred_holds_at_most_six_times_the_live_bytes() {
    /// The size of the window, and the number of windows that a survivor stays longer.
    const WINDOW: usize = if cfg!(miri) { 1 } else { 1_024 };
    const LONGER: usize = 100;
    let ring = RingAlloc::new();
    let mut rng = SplitMix::new(6);
    let (mut window, mut late) = (VecDeque::new(), VecDeque::new());
    for i in 0..WINDOW * (LONGER + 20) {
        let layout = layout(64 + rng.below(961), 8);
        window.push_back((ring.allocate(layout).expect("memory"), layout));
        let oldest = if window.len() > WINDOW { window.pop_front() } else { None };
        let leaves = if i % 100 == 0 {
            late.extend(oldest);
            if late.len() > WINDOW { late.pop_front() } else { None }
        } else {
            oldest
        };
        if let Some((block, layout)) = leaves {
            // SAFETY: the ring served the block with this layout, and it is on no list any more.
            unsafe { ring.deallocate(block.cast(), layout) };
        }
    }
    let stats = ring.stats();
    assert!(cfg!(miri) || stats.bytes_held <= 6 * stats.bytes_live, "{stats:?}");
    for (block, layout) in window.into_iter().chain(late) {
        // SAFETY: the ring served the block with this layout, and the lists end here.
        unsafe { ring.deallocate(block.cast(), layout) };
    }
    assert!(ring.stats().chunks() <= 8, "{:?}", ring.stats());
}

#[test]
fn blocks_in_sections_keep_their_bytes_and_are_counted() {
    let ring = ring();
    let mut live = Checked::new(&ring);
    scatter(&mut live);
    let mut rng = SplitMix::new(5);
    for _ in 0..if cfg!(miri) { 60 } else { 20_000 } {
        let len = live.oracle.blocks().len();
        let size = if rng.below(8) == 0 { 1 + rng.below(1_024) } else { 1 + rng.below(200) };
        match rng.below(8) {
            0..=2 => {
                live.allocate(layout(size, 8 << rng.below(2))).expect("memory");
            }
            3 => {
                live.resize(rng.below(len), layout(size, 8), rng.below(2) == 0).expect("memory");
            }
            // The top block, then any block.
            4 => live.free(len - 1),
            _ if len > SURVIVORS / 2 => live.free(rng.below(len)),
            _ => (),
        }
        if rng.below(64) == 0 {
            ring.trim();
        }
        if !cfg!(miri) || rng.below(8) == 0 {
            let (counted, exact) = live_bytes(&ring, &live);
            assert_eq!(counted, exact);
        }
    }
    drop(live);
    assert_eq!(ring.stats().bytes_live, 0);
    ring.trim();
    assert_eq!(ring.stats().chunks(), 0);
}

#[test]
fn ring_has_whole_chunks_again_after_its_survivors_are_gone() {
    let ring = ring();
    let mut live = Checked::new(&ring);
    scatter(&mut live);
    drop(live);
    // One front, one empty chunk, and one split chunk.
    assert!(ring.stats().chunks() <= 3, "{:?}", ring.stats());
    let mut live = Checked::new(&ring);
    for _ in 0..200 {
        live.allocate(layout(200, 8)).expect("memory");
    }
    // A section of 512 bytes has room for one such block, a chunk for 19.
    assert!(ring.stats().chunks() <= 14, "{:?}", ring.stats());
}

#[test]
fn refused_chunk_is_replaced_by_an_empty_section() {
    let ring: Ring = RingAlloc::builder().geometry::<Sectioned>().limit(1 << 20).build();
    let mut live = Checked::new(&ring);
    scatter(&mut live);
    while live.allocate(layout(200, 8)).is_ok() {}
    live.free(SURVIVORS / 2);
    while live.oracle.blocks().len() > SURVIVORS * 2 {
        live.free(SURVIVORS);
    }
    assert!(live.allocate(layout(200, 8)).is_ok());
}
