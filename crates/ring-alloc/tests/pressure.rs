//! Other threads under pressure: what one thread keeps empty serves another one before a refusal, and statistics that are
//! polled neither keep memory nor refuse a request.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

use alloc::collections::VecDeque;
use core::alloc::Layout;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use allocator_api2::boxed::Box;
use ephemera_testkit::suite::turn;
use ring_alloc::OneRingAlloc;

/// Bytes of a chunk of each class, as `Stats` counts them.
const MEDIUM: usize = (256 << 10) - 16;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

/// Takes the limit off again, also when a test fails.
struct Unlimited;

impl Drop for Unlimited {
    fn drop(&mut self) {
        OneRingAlloc.set_limit(usize::MAX);
    }
}

fn clean() -> usize {
    OneRingAlloc.clean_local();
    OneRingAlloc.clean_global();
    OneRingAlloc.stats().bytes_held
}

#[test]
fn conc_a_refused_thread_gets_what_another_one_keeps_empty() {
    let _turn = turn();
    let _unlimited = Unlimited;
    drop(Box::new_in(1_u8, OneRingAlloc));
    let before = clean();
    OneRingAlloc.set_limit(before + 1_500_000);
    let (burst, freed) = channel();
    let (running, steps) = (AtomicBool::new(true), AtomicUsize::new(0));
    let served = std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let blocks: Vec<_> = (0..20).map(|_| Box::new_in([1_u8; 60_000], OneRingAlloc)).collect();
            drop(blocks);
            burst.send(()).expect("the other end is there");
            // It goes on with small blocks, so that it comes to its slow path.
            let mut window = VecDeque::new();
            while running.load(Ordering::Relaxed) {
                window.push_back(Box::new_in([1_u8; 1_000], OneRingAlloc));
                if window.len() > 100 {
                    window.pop_front();
                }
                steps.fetch_add(1, Ordering::Relaxed);
            }
        });
        freed.recv().expect("the other end is there");
        // After each refusal the other thread allocates enough to take its slow path.
        let served = (0..20).any(|_| {
            let boxes: Result<Vec<_>, _> =
                (0..16).map(|_| Box::try_new_in([1_u8; 60_000], OneRingAlloc)).collect();
            let until = steps.load(Ordering::Relaxed) + 500;
            while boxes.is_err() && steps.load(Ordering::Relaxed) < until {
                std::thread::yield_now();
            }
            boxes.is_ok()
        });
        running.store(false, Ordering::Relaxed);
        // The end of a scope alone does not wait for what a thread does when it exits.
        keeper.join().expect("the thread does not panic");
        served
    });
    assert!(served, "the other thread kept {} bytes", OneRingAlloc.stats().bytes_held);
    assert_eq!(clean(), before);
}

#[test]
fn conc_statistics_in_a_loop_pin_no_empty_chunks() {
    const CHUNKS: usize = if cfg!(miri) { 12 } else { 2_000 };
    let _turn = turn();
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
            // One block of 2 KiB in each chunk stays until the end of the burst.
            let blocks: Vec<_> = (0..CHUNKS * 16).map(|_| Box::new_in([1_u8; 2_000], OneRingAlloc)).collect();
            drop(blocks);
        }
        polling.store(false, Ordering::Relaxed);
        reader.join().expect("the thread does not panic");
    });
    // The four that a thread keeps, the front, and two that a walker may stand on.
    let chunks = OneRingAlloc.stats().chunks();
    assert!(chunks <= 4 + 1 + 2, "{chunks} chunks are held with nothing live");
    clean();
}

#[test]
fn conc_statistics_in_a_loop_refuse_no_request_under_a_limit() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
    let _turn = turn();
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
                // SAFETY: just allocated with this layout.
                block.map(|block| unsafe { OneRingAlloc.deallocate(block.cast(), layout(size)) }).is_err()
            })
            .count();
        polling.store(false, Ordering::Relaxed);
        assert_eq!(refused, 0, "the chunk of the other class was empty each time");
    });
    assert_eq!(clean(), before);
}
