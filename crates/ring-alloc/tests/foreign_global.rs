//! Tests that `OneRingAlloc`, and a `RingAlloc` without a backing allocator, take no chunk or large
//! block from the global allocator, and free all memory that they take from the operating system.
//! Tests that a ring over the global allocator frees all chunks to it. The global allocator counts
//! its memory here.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

use core::hint::black_box;
use std::sync::mpsc::channel;
use std::thread;

use allocator_api2::alloc::Global;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_prim::pages;
use ephemera_testkit::backing::CountingGlobal;
use ring_alloc::{OneRingAlloc, RingAlloc};
use tiny::Tiny;

#[path = "support/tiny.rs"]
mod tiny;

/// The global allocator, which counts its memory. It counts blocks that are aligned to at least 32
/// KiB, such as chunks, separately.
#[global_allocator]
static GLOBAL: CountingGlobal = CountingGlobal::new(32 << 10);

/// A value aligned to 32 KiB. Each block of such values is large, and [`GLOBAL`] would count it.
#[repr(align(32768))]
struct Page([u8; 32 << 10]);

const BLOCKS: usize = if cfg!(miri) { 60 } else { 20_000 };

/// This is the only test of the program, because the counts cover the whole program.
#[test]
fn threads_and_rings_leave_no_chunk() {
    assert_eq!(GLOBAL.aligned().blocks, 0);
    let before = pages::usage().bytes_live;
    let (to, from) = channel::<Box<[usize; 16], OneRingAlloc>>();
    let threads: [_; 3] = core::array::from_fn(|thread| {
        let to = to.clone();
        thread::spawn(move || {
            let mut large = Vec::with_capacity_in(2 + thread, OneRingAlloc);
            large.push(Page([1; 32 << 10]));
            assert_eq!((large[0].0[0], GLOBAL.aligned().blocks), (1, 0));
            for number in 0..BLOCKS {
                let block = Box::new_in([number; 16], OneRingAlloc);
                if number % 2 == 0 {
                    to.send(block).expect("the other end is open");
                }
            }
        })
    });
    drop(to);
    let kept: alloc::vec::Vec<_> = from.iter().filter(|block| block[0] % 10 == 0).collect();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    assert_eq!(GLOBAL.aligned().blocks, 0);
    if cfg!(all(target_os = "linux", not(miri))) {
        // A span is as long as the alignment of its chunk, so it is not shorter than the chunk.
        assert!(pages::usage().bytes_live - before >= OneRingAlloc.stats().bytes_held);
    }
    assert_eq!(OneRingAlloc.stats().blocks_live(), kept.len());
    drop(kept);
    OneRingAlloc.clean_local();
    OneRingAlloc.clean_global();
    assert_eq!((pages::usage().bytes_live, OneRingAlloc.stats().bytes_held), (before, 0));

    use_and_drop(RingAlloc::new(), |ring| {
        assert_eq!(GLOBAL.aligned().blocks, 0);
        if cfg!(all(target_os = "linux", not(miri))) {
            let stats = ring.stats();
            let held = stats.small.bytes_held + stats.large.bytes_held;
            assert!(stats.large.blocks_live == 1 && pages::usage().bytes_live - before >= held);
        }
    });
    assert_eq!(pages::usage().bytes_live, before);
    let little = RingAlloc::builder().geometry::<Tiny>().build();
    let block = Box::new_in([7_u8; 32], little.clone());
    assert_eq!((little.stats().small.chunks, pages::usage().bytes_live), (1, before));
    drop(block);
    for over_global in [RingAlloc::new_in(Global), RingAlloc::default()] {
        use_and_drop(over_global, |_| {
            assert!(GLOBAL.aligned().blocks > 0);
            assert_eq!(pages::usage().bytes_live, before);
        });
        assert_eq!(GLOBAL.aligned().blocks, 0);
    }
}

/// Allocates chunks and a large block from `ring`, calls `check`, frees the memory and drops the
/// ring.
fn use_and_drop(ring: RingAlloc, check: impl FnOnce(&RingAlloc)) {
    let blocks: alloc::vec::Vec<_> = (0..BLOCKS).map(|number| Box::new_in(number, ring.clone())).collect();
    let mut large = Vec::with_capacity_in(2, ring.clone());
    large.push(Page([1; 32 << 10]));
    check(&ring);
    drop(black_box((blocks, large)));
}
