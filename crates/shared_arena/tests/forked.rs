//! Tests arenas that are dropped in a forked child. At the fork, other threads of the parent can be
//! in the middle of any operation.
#![cfg(all(feature = "std", target_has_atomic = "64", unix, not(miri)))]

#[path = "support/heap.rs"]
mod heap;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use ephemera_testkit::fork::holds_in_a_child;
use heap::{GROUP, Heap};
use shared_arena::SharedArena;

#[global_allocator]
static HEAP: Heap = Heap::new();

/// A value of a kilobyte. The first group of an arena for these values has 64 KiB.
type Kilobyte = [u8; 1024];

/// Drops an arena, and then its only value.
fn end_one() {
    let arena = SharedArena::<Kilobyte>::new();
    let value = arena.alloc([1; 1024]);
    drop(arena);
    drop(value);
}

/// Creates and drops many arenas, and returns whether their memory was freed.
fn ends_leave_nothing() -> bool {
    let (groups, bytes) = (HEAP.groups(), HEAP.held());
    (0..300).for_each(|_| end_one());
    // Both figures include the memory of the parent's other threads. The bounds leave room for the
    // memory that this thread keeps.
    HEAP.groups() <= groups + (256 << 10) && HEAP.held() <= bytes + (512 << 10)
}

#[test]
fn arenas_are_freed_in_the_child_of_a_busy_parent() {
    let stop = AtomicBool::new(false);
    let failed = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    end_one();
                }
            });
        }
        let failed = (0..16).filter(|_| !holds_in_a_child(ends_leave_nothing)).count();
        stop.store(true, SeqCst);
        failed
    });
    assert_eq!(failed, 0, "children kept memory of dropped arenas");
}

#[test]
fn arenas_are_freed_in_a_child_forked_during_the_free_of_a_group() {
    static STOPPED: AtomicUsize = AtomicUsize::new(0);
    static RELEASED: AtomicBool = AtomicBool::new(false);
    fn stop() {
        STOPPED.fetch_add(1, SeqCst);
        while !RELEASED.load(SeqCst) {
            thread::yield_now();
        }
    }
    let held = thread::scope(|scope| {
        scope.spawn(|| {
            HEAP.at_the_next_free(GROUP.., stop);
            end_one();
        });
        while STOPPED.load(SeqCst) == 0 {
            thread::yield_now();
        }
        let held = holds_in_a_child(ends_leave_nothing);
        RELEASED.store(true, SeqCst);
        held
    });
    assert!(held, "the child kept memory of dropped arenas");
}
