//! Tests that a thread's requests can use the room that empty chunks of other threads take up, and
//! that polling the statistics neither keeps memory nor causes refusals.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/process.rs"]
mod process;

use alloc::collections::VecDeque;
use core::alloc::Layout;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec as VecIn;
use ephemera_testkit::suite::take_turn;
use process::{Unlimited, clean};
use ring_alloc::OneRingAlloc;

/// The size of a medium chunk, as `Stats` counts it.
const MEDIUM: usize = (256 << 10) - 16;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

#[test]
fn conc_empty_chunks_of_another_thread_serve_a_refused_request() {
    take_turn();
    let _unlimited = Unlimited;
    drop(Box::new_in(1_u8, OneRingAlloc));
    let before = clean();
    OneRingAlloc.set_limit(before + 1_500_000);
    let (burst, freed) = channel();
    let (running, steps) = (AtomicBool::new(true), AtomicUsize::new(0));
    let served = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let blocks: Vec<_> = (0..20).map(|_| Box::new_in([1_u8; 60_000], OneRingAlloc)).collect();
            drop(blocks);
            burst.send(()).expect("the other end is open");
            // Continue with small blocks, so that this thread takes its slow path.
            let mut window = VecDeque::new();
            while running.load(Ordering::Relaxed) {
                window.push_back(Box::new_in([1_u8; 1_000], OneRingAlloc));
                if window.len() > 100 {
                    window.pop_front();
                }
                steps.fetch_add(1, Ordering::Relaxed);
            }
        });
        freed.recv().expect("the other end is open");
        // After each refusal, wait until the other thread has allocated enough to take its slow
        // path.
        let served = (0..20).any(|_| {
            let block = || {
                let mut bytes = VecIn::<u8, _>::new_in(OneRingAlloc);
                bytes.try_reserve_exact(60_000).map(|()| bytes)
            };
            let boxes: Result<Vec<_>, _> = (0..16).map(|_| block()).collect();
            let until = steps.load(Ordering::Relaxed) + 500;
            while boxes.is_err() && steps.load(Ordering::Relaxed) < until {
                std::thread::yield_now();
            }
            boxes.is_ok()
        });
        running.store(false, Ordering::Relaxed);
        // Join the thread, because `thread::scope` does not wait for the thread's exit guard.
        other.join().expect("the thread does not panic");
        served
    });
    assert!(served, "the other thread kept {} bytes", OneRingAlloc.stats().bytes_held);
    assert_eq!(clean(), before);
}

#[test]
fn conc_trim_all_frees_chunks_here_at_once_and_elsewhere_in_the_next_slow_path() {
    take_turn();
    clean();
    let burst = || drop(core::array::from_fn::<_, 8, _>(|_| Box::new_in([1_u8; 60_000], OneRingAlloc)));
    let chunks = || OneRingAlloc.stats().medium.chunks;
    let (ready, done) = channel();
    let (go, wait) = channel();
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            burst();
            ready.send(()).expect("the other end is open");
            wait.recv().expect("the other end is open");
            // This thread does not have a small chunk yet, so the allocation takes the slow path.
            drop(Box::new_in(1_u8, OneRingAlloc));
            ready.send(()).expect("the other end is open");
            wait.recv().expect("the other end is open");
        });
        done.recv().expect("the other end is open");
        let elsewhere = chunks();
        burst();
        assert!(elsewhere > 0 && chunks() > elsewhere, "no chunks were kept");
        OneRingAlloc.trim_all();
        assert_eq!(chunks(), elsewhere, "the chunks of this thread");
        go.send(()).expect("the other end is open");
        done.recv().expect("the other end is open");
        assert_eq!(chunks(), 0, "the chunks of the other thread");
        go.send(()).expect("the other end is open");
        other.join().expect("the thread does not panic");
    });
}

#[test]
fn conc_polling_statistics_pins_no_empty_chunks() {
    const CHUNKS: usize = if cfg!(miri) { 12 } else { 2_000 };
    take_turn();
    drop(Box::new_in(1_u8, OneRingAlloc));
    clean();
    let polling = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while polling.load(Ordering::Relaxed) {
                assert_eq!(OneRingAlloc.stats().unread_heaps, 0);
            }
        });
        for _ in 0..3 {
            // All blocks stay live until the end of the burst. A chunk holds 16 of them.
            let blocks: Vec<_> = (0..CHUNKS * 16).map(|_| Box::new_in([1_u8; 2_000], OneRingAlloc)).collect();
            drop(blocks);
        }
        polling.store(false, Ordering::Relaxed);
        reader.join().expect("the thread does not panic");
    });
    // A thread keeps four empty chunks and its front. A walker that moves on during the last frees
    // may have protected a few more.
    let chunks = OneRingAlloc.stats().chunks();
    assert!(chunks <= 4 + 1 + 5, "{chunks} chunks are held with nothing live");
    clean();
}

#[test]
fn conc_polling_statistics_refuses_no_request_under_a_limit() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
    take_turn();
    let _unlimited = Unlimited;
    drop(Box::new_in(1_u8, OneRingAlloc));
    let before = clean();
    OneRingAlloc.set_limit(before + MEDIUM);
    let polling = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while polling.load(Ordering::Relaxed) {
                let _ = OneRingAlloc.stats();
            }
        });
        let refused = (0..ROUNDS)
            .filter(|round| {
                let size = if round % 2 == 0 { 1_000 } else { 50_000 };
                let block = OneRingAlloc.allocate(layout(size));
                // SAFETY: `OneRingAlloc` has just served the block with this layout.
                block.map(|block| unsafe { OneRingAlloc.deallocate(block.cast(), layout(size)) }).is_err()
            })
            .count();
        polling.store(false, Ordering::Relaxed);
        assert_eq!(refused, 0, "an empty chunk of the other class was not freed in time");
    });
    assert_eq!(clean(), before);
}
