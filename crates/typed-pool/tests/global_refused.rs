//! The operating system refuses each of its calls in turn to a program whose global allocator is
//! `PooledAllocator`.
#![cfg(all(feature = "std", unix, target_has_atomic = "64", not(miri)))]

use core::alloc::{GlobalAlloc, Layout};
use std::thread;

use ephemera_prim::pages;
use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// The blocks of one run: their addresses and layouts. A fixed array, because the run must not
/// allocate by itself.
struct Run {
    blocks: [(*mut u8, Layout); 64],
    refused: usize,
}

const SIZES: [usize; 8] = [24, 700, 2_000, 20_000, 50_000, 400_000, 1_500_000, 9_000_000];

impl Run {
    fn new() -> Self {
        Self { blocks: [(core::ptr::null_mut(), Layout::new::<u8>()); 64], refused: 0 }
    }

    /// Allocates blocks, grows half of them, checks them, and frees them.
    fn run(&mut self) {
        for (number, place) in self.blocks.iter_mut().enumerate() {
            let layout = Layout::from_size_align(SIZES[number % 8] + number, 8).expect("a layout");
            // SAFETY: the layout is not of size zero.
            *place = (unsafe { HEAP.alloc(layout) }, layout);
            if place.0.is_null() {
                self.refused += 1;
                continue;
            }
            // SAFETY: the block has this number of bytes.
            unsafe { place.0.write_bytes(number as u8, 24) };
        }
        for (number, (block, layout)) in self.blocks.iter_mut().enumerate() {
            if block.is_null() || number % 2 == 0 {
                continue;
            }
            // SAFETY: the block is live and has this layout.
            let grown = unsafe { HEAP.realloc(*block, *layout, layout.size() * 2) };
            if grown.is_null() {
                self.refused += 1;
                continue;
            }
            *block = grown;
            *layout = Layout::from_size_align(layout.size() * 2, 8).expect("a layout");
        }
        for (number, (block, layout)) in self.blocks.iter().enumerate() {
            if block.is_null() {
                continue;
            }
            for at in [0, 23] {
                // SAFETY: every block has more bytes.
                let byte = unsafe { block.add(at) };
                // SAFETY: the byte was written above.
                assert_eq!(unsafe { byte.read() }, number as u8, "a refused request changed a block");
            }
            // SAFETY: the block is live and has this layout.
            unsafe { HEAP.dealloc(*block, *layout) };
        }
    }
}

#[test]
fn each_refused_call_yields_null_and_nothing_is_lost() {
    // A new thread starts without units.
    let mut calls = 0;
    let (mut idle, mut refused) = (None, 0);
    for number in 1.. {
        let (over, run) = thread::spawn(move || {
            let mut run = Run::new();
            HEAP.trim_all();
            pages::purge();
            pages::refuse_call(number);
            run.run();
            let over = pages::refuse_call(0) != 0;
            let mut again = Run::new();
            again.run();
            assert_eq!(again.refused, 0, "the calls after call {number} succeed");
            (over, run.refused)
        })
        .join()
        .expect("no panic");
        HEAP.trim_all();
        pages::purge();
        refused += run;
        let used = pages::usage().used;
        // The first run makes permanent tables, and the harness allocates.
        let idle = *idle.get_or_insert(used);
        assert!(used <= idle + (1 << 20), "call {number}: {idle}, then {used}");
        calls = number;
        if over {
            break;
        }
    }
    assert!(calls > 15, "{calls} calls");
    let _ = refused;
    let all = thread::spawn(|| {
        let mut run = Run::new();
        HEAP.trim_all();
        pages::purge();
        pages::refuse_call(usize::MAX);
        run.run();
        pages::refuse_call(0);
        run.refused
    });
    assert!(all.join().expect("no panic") > 10, "all calls were refused");
    let mut run = Run::new();
    run.run();
    assert_eq!(run.refused, 0);
}
