//! Arenas end in a child of a fork, whatever the other threads of its parent were doing to theirs.
#![cfg(all(feature = "std", target_has_atomic = "64", unix, not(miri)))]

#[path = "support/heap.rs"]
mod heap;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use ephemera_testkit::fork::holds_in_a_child;
use heap::Heap;
use shared_arena::SharedArena;

#[global_allocator]
static HEAP: Heap = Heap::new();

/// 64 KiB a group.
type Kilobyte = [u8; 1024];

/// One arena with one value, which goes after the arena.
fn end_one() {
    let arena = SharedArena::<Kilobyte>::new();
    let value = arena.alloc([1; 1024]);
    drop(arena);
    drop(value);
}

/// Ends many arenas, and returns whether their memory went back.
fn ends_leave_nothing() -> bool {
    let (groups, bytes) = (HEAP.groups(), HEAP.held());
    (0..300).for_each(|_| end_one());
    // What other threads of the parent had is there before and after. One group more is this thread's own.
    HEAP.groups() <= groups + (256 << 10) && HEAP.held() <= bytes + (512 << 10)
}

#[test]
fn arenas_end_in_a_child_whose_parent_had_threads_in_every_state_of_theirs() {
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
    assert_eq!(failed, 0, "children kept the memory of arenas");
}

#[test]
fn arenas_end_in_a_child_whose_parent_had_a_thread_that_frees_a_group() {
    static STANDS: AtomicUsize = AtomicUsize::new(0);
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    fn stand() {
        STANDS.fetch_add(1, SeqCst);
        while !GOES_ON.load(SeqCst) {
            thread::yield_now();
        }
    }
    let held = thread::scope(|scope| {
        scope.spawn(|| {
            HEAP.at_the_next_group(stand);
            end_one();
        });
        while STANDS.load(SeqCst) == 0 {
            thread::yield_now();
        }
        let held = holds_in_a_child(ends_leave_nothing);
        GOES_ON.store(true, SeqCst);
        held
    });
    assert!(held, "the child kept the memory of arenas");
}
