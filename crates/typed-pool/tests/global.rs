//! Tests of `PooledAllocator` as the global allocator of this program: before `main`, in
//! destructors, in forked children, and with every size and alignment.
//!
//! Miri does not run this program. The compiler treats each block of a global allocator as a new
//! object, but Miri does so only for its own allocator. If a function gets a block as a `Box` and
//! frees it, Miri reports a reuse of the slot while that function still runs.
#![cfg(all(feature = "std", target_has_atomic = "64", not(miri)))]

extern crate alloc;

use alloc::collections::BTreeMap;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// The number of words that each check allocates.
const WORDS: usize = 100;

/// Allocates blocks of many sizes, and returns whether their content is right.
fn blocks_are_right(seed: usize) -> bool {
    let words: BTreeMap<usize, String> = (0..WORDS).map(|word| (word * seed, word.to_string())).collect();
    let bytes = vec![seed as u8; 50_000];
    let strings: Vec<_> = words.values().map(|word| word.repeat(50)).collect();
    let last = WORDS - 1;
    words[&(last * seed)] == last.to_string()
        && bytes.iter().all(|byte| *byte == seed as u8)
        && strings[0].len() == 50
}

/// The length of the string that the program allocated before `main`.
#[cfg(target_os = "linux")]
static BEFORE_MAIN: AtomicUsize = AtomicUsize::new(0);

#[cfg(target_os = "linux")]
extern "C" fn before_main() {
    if blocks_are_right(3) {
        BEFORE_MAIN.store("before main".to_owned().repeat(1_000).len(), Ordering::Relaxed);
    }
}

#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section has pointers to functions that the C library calls before `main`.
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = before_main;

#[test]
#[cfg(target_os = "linux")]
fn functions_before_main_allocate() {
    assert_eq!(BEFORE_MAIN.load(Ordering::Relaxed), 11_000);
}

#[test]
fn conc_destructors_of_thread_locals_allocate_and_free() {
    static RIGHT: AtomicUsize = AtomicUsize::new(0);
    /// Frees its blocks, and allocates again, when its thread ends.
    struct Late(Vec<String>);
    impl Drop for Late {
        fn drop(&mut self) {
            let kept = self.0.iter().all(|word| word.starts_with("late"));
            self.0.clear();
            RIGHT.fetch_add(usize::from(kept && blocks_are_right(5)), Ordering::Relaxed);
        }
    }
    thread_local! {
        static FIRST: RefCell<Late> = const { RefCell::new(Late(Vec::new())) };
        static SECOND: RefCell<Late> = RefCell::new(Late(vec!["late".repeat(700)]));
    }
    const ROUNDS: usize = 50;
    for _ in 0..ROUNDS {
        thread::spawn(|| {
            // The destructors of these thread-locals run in the reverse order of first use. The
            // allocator's exit hook may run between them.
            FIRST.with(|late| {
                late.borrow_mut().0.extend((0..50).map(|number| format!("late {number}")));
            });
            SECOND.with(|late| late.borrow_mut().0.push("late".to_owned()));
        })
        .join()
        .expect("no panic");
    }
    assert_eq!(RIGHT.load(Ordering::Relaxed), 2 * ROUNDS);
}

#[test]
fn conc_blocks_outlive_their_threads_and_are_freed_by_others() {
    let (to, from) = channel::<Vec<String>>();
    let threads: Vec<_> = (0..100)
        .map(|number| {
            let to = to.clone();
            thread::spawn(move || {
                to.send((0..60).map(|size| number.to_string().repeat(size * 11)).collect())
                    .expect("received");
                assert!(blocks_are_right(number + 1));
            })
        })
        .collect();
    drop(to);
    for words in from {
        assert!(words.iter().enumerate().all(|(size, word)| word.len() % (size * 11).max(1) == 0));
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

#[test]
#[cfg(unix)]
fn forked_children_allocate_and_free_while_threads_of_the_parent_do() {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..3 {
            scope.spawn({
                let stop = &stop;
                move || {
                    while !stop.load(Ordering::Relaxed) {
                        assert!(blocks_are_right(seed));
                    }
                }
            });
        }
        for _ in 0..30 {
            let foreign =
                thread::spawn(|| vec!["of another thread".to_owned(); 100]).join().expect("no panic");
            let own = vec!["of this thread".to_owned(); 100];
            assert!(ephemera_testkit::fork::holds_in_a_child(|| {
                let right =
                    own.iter().all(|word| word.ends_with("thread")) && foreign[99].starts_with("of a");
                drop((own, foreign));
                let spawned = thread::spawn(|| blocks_are_right(9)).join();
                right && blocks_are_right(7) && spawned.unwrap_or(false)
            }));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn blocks_of_every_alignment_hold_their_bytes() {
    for power in 0..31 {
        for size in [1, 8, 1_000, 1_025, 5_000, 32 << 10, (32 << 10) + 1, 1 << 20, 3 << 20] {
            let layout = Layout::from_size_align(size, 1 << power).expect("a layout");
            // SAFETY: the layout is not of size zero.
            let block = unsafe { HEAP.alloc_zeroed(layout) };
            assert!(!block.is_null() && block.addr() % layout.align() == 0, "{layout:?}");
            let ends = [0, size / 2, size - 1].map(|at| {
                // SAFETY: the offset is in the block.
                unsafe { block.add(at) }
            });
            // SAFETY: the bytes are in the block, which is initialised.
            assert!(ends.iter().all(|byte| unsafe { byte.read() } == 0), "{layout:?}");
            // SAFETY: the bytes are in the block.
            ends.iter().for_each(|byte| unsafe { byte.write(0xAA) });
            // SAFETY: the block is live and has this layout.
            unsafe { HEAP.dealloc(block, layout) };
        }
    }
}

#[test]
fn layouts_beyond_all_memory_are_refused_and_later_ones_served() {
    let absurd = Layout::from_size_align(isize::MAX as usize - (1 << 20), 1 << 20).expect("a layout");
    // SAFETY: the layout is not of size zero.
    assert!(unsafe { HEAP.alloc(absurd) }.is_null());
    let mut vec = vec![1_u8; 100_000];
    assert!(vec.try_reserve(isize::MAX as usize - 200_000).is_err());
    assert!(vec.iter().all(|byte| *byte == 1) && blocks_are_right(2));
}

/// The sizes at which the allocator changes from one path to another.
const BORDERS: &[usize] =
    &[1, 8, 64, 80, 512, 1_024, 1_280, 4_096, 20_480, 28_672, 32_768, 65_536, 262_144, 1_048_576, 2_097_152];

/// Reallocates a block across all borders, and checks that it keeps its bytes.
#[test]
fn reallocation_over_all_borders_keeps_the_bytes() {
    let mut random = ephemera_testkit::SplitMix::new(1);
    let top = BORDERS.len();
    for align in [1, 16, 64, 4_096, 8_192] {
        let mut size = 1;
        let layout = |size| Layout::from_size_align(size, align).expect("a layout");
        // SAFETY: the layout is not of size zero.
        let mut block = unsafe { HEAP.alloc(layout(size)) };
        // SAFETY: the block has a byte.
        unsafe { block.write(0) };
        for round in 0..300 {
            let new = (BORDERS[random.below(top)] + random.below(3)).max(2) - 1;
            // SAFETY: the block is live and has this layout, and the new size is not zero.
            block = unsafe { HEAP.realloc(block, layout(size), new) };
            assert!(!block.is_null() && block.addr() % align == 0);
            let kept = size.min(new);
            for at in [0, kept / 3, kept / 2, kept - 1] {
                // SAFETY: the offset is in the block.
                let byte = unsafe { block.add(at) };
                // SAFETY: these bytes were written in the last round.
                assert_eq!(unsafe { byte.read() }, (at % 251) as u8, "round {round}, {size} to {new}");
            }
            size = new;
            for at in 0..size {
                // SAFETY: the offset is in the block.
                let byte = unsafe { block.add(at) };
                // SAFETY: the byte is in the block.
                unsafe { byte.write((at % 251) as u8) };
            }
        }
        // SAFETY: the block is live and has this layout.
        unsafe { HEAP.dealloc(block, layout(size)) };
    }
}
