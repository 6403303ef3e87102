//! Tests that play programs over an allocator that checks every call, and over an allocator that
//! refuses.

mod support;

use core::alloc::{GlobalAlloc, Layout};
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::alloc::System;
use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ephemera_trace::Trace;
use ephemera_trace::replay::{Action, Lane, Player, ReplayProgram};

use self::support::TestDir;

/// The live blocks of [`Strict`] by address, and the numbers of its calls.
#[derive(Default)]
struct Ledger {
    live: HashMap<usize, Layout>,
    bytes: usize,
    peak: usize,
    allocs: u64,
    frees: u64,
    resizes: u64,
}

/// An allocator that panics if a freed or resized block is not live or has another layout, before
/// it touches any memory.
#[derive(Default)]
struct Strict(Mutex<Ledger>);

impl Strict {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A failed assertion panics while its thread holds the lock. The map is still intact.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, block: *mut u8, layout: Layout) -> *mut u8 {
        let mut ledger = self.ledger();
        ledger.live.insert(block.addr(), layout);
        ledger.bytes += layout.size();
        ledger.peak = ledger.peak.max(ledger.bytes);
        block
    }

    fn remove(&self, block: *mut u8, layout: Layout) {
        let mut ledger = self.ledger();
        let known = ledger.live.remove(&block.addr());
        assert_eq!(known, Some(layout), "the block at {block:?} is freed and was not live with this layout");
        ledger.bytes -= layout.size();
    }
}

// SAFETY: the system's allocator serves every call. A call that breaks its contract panics first.
unsafe impl GlobalAlloc for Strict {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.ledger().allocs += 1;
        // SAFETY: the caller passes a layout of a size above zero.
        self.add(unsafe { System.alloc(layout) }, layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.ledger().frees += 1;
        self.remove(block, layout);
        // SAFETY: `remove` found the block live with this layout, and no other call finds it again.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, old: Layout, size: usize) -> *mut u8 {
        self.ledger().resizes += 1;
        let new = Layout::from_size_align(size, old.align()).expect("the caller's size fits");
        self.remove(block, old);
        // SAFETY: `remove` found the block live with this layout. The new layout is valid.
        self.add(unsafe { System.realloc(block, old, size) }, new)
    }
}

/// The number of allocations that [`Refusing`] still serves.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// An allocator that serves [`LEFT`] allocations and refuses all others.
struct Refusing;

// SAFETY: the system's allocator serves every call that is not refused with null.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut left = LEFT.load(Relaxed);
        loop {
            let Some(rest) = left.checked_sub(1) else { return core::ptr::null_mut() };
            match LEFT.compare_exchange_weak(left, rest, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(now) => left = now,
            }
        }
        // SAFETY: the caller passes a layout of a size above zero.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller passes a live block with its layout.
        unsafe { System.dealloc(block, layout) }
    }
}

fn program(dir: &TestDir) -> ReplayProgram {
    let trace = Trace::open(&dir.four_threads()).expect("the test wrote it");
    ReplayProgram::of(&trace).expect("the trace is whole")
}

#[test]
fn conc_a_replay_makes_every_recorded_call() {
    let program = program(&TestDir::new("counted"));
    assert_eq!(program.lanes().len(), 4);
    let ops = || program.lanes().iter().flat_map(Lane::ops);
    let count = |action: Action| ops().filter(|op| op.action == action).count() as u64;
    let mut player = Player::new(Strict::default(), &program, true);
    for _ in 0..3 {
        *player.allocator().ledger() = Ledger::default();
        player.play();
        let ledger = player.allocator().ledger();
        assert_eq!(ledger.allocs, count(Action::Alloc) + count(Action::Zeroed));
        assert_eq!(ledger.resizes, count(Action::Resize));
        assert_eq!(ledger.frees, count(Action::Free) + program.left().len() as u64);
        assert_eq!(ledger.bytes, 0, "every block is freed at the end");
        // The lanes stay within two epochs of the recorded order.
        let (peak, recorded) = (ledger.peak as u64, program.peak_live);
        assert!(peak >= recorded / 2, "{peak} of {recorded}");
    }
    assert!(count(Action::Resize) > 1000 && count(Action::Zeroed) > 1000 && program.left().len() > 300);
}

#[test]
fn conc_a_refused_block_ends_all_lanes() {
    let program = program(&TestDir::new("refused"));
    let mut player = Player::new(Refusing, &program, false);
    for allocations in [0, 1, 100, 5_000] {
        LEFT.store(allocations, Relaxed);
        catch_unwind(AssertUnwindSafe(|| player.play())).expect_err("a block was refused");
    }
    LEFT.store(u64::MAX, Relaxed);
    player.play();
}
