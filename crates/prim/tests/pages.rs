//! Tests of pages from the operating system: the allocator suite, and the bounds of the cache.
#![cfg(all(feature = "std", not(miri)))]

#[path = "support/owned.rs"]
mod owned;

use core::alloc::Layout;
use std::thread;

use ephemera_prim::pages::{self, Pages};
use ephemera_testkit::SplitMix;
use ephemera_testkit::allocator_suite;
use ephemera_testkit::job::{JobResult, ThreadJob};
use ephemera_testkit::subject::Subject;
use ephemera_testkit::suite::take_turn;
use owned::{Owned, layout};

/// Makes [`Pages`] the subject of the allocator suite.
struct Source;

impl Subject for Source {
    type Alloc<'s> = Pages;
    const HAND_OVER: bool = true;
    const GLOBAL_STATE: bool = true;

    fn fresh(&self) -> Pages {
        Pages
    }

    fn sizes(&self) -> &[usize] {
        &[1, 4 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20]
    }

    fn trim(&self, _: &Pages) {
        pages::purge();
    }

    fn run_job(&self, source: &Pages, job: ThreadJob) -> JobResult {
        job.run_elsewhere(source)
    }

    fn finish(&self, _: Pages) -> usize {
        pages::purge();
        pages::usage().bytes_cached
    }
}

allocator_suite!(pages_of_the_system, Source);

const SPAN: Layout = match Layout::from_size_align(32 << 10, 32 << 10) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};

/// Allocates this number of spans.
fn spans(number: usize) -> Vec<Owned> {
    (0..number).map(|_| Owned::new(SPAN).expect("memory")).collect()
}

/// Returns the resident bytes of the process. AddressSanitizer's shadow of freed mappings stays
/// resident, so under that tool the result is the number of bytes whose pages may be resident.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    if cfg!(ephemera_poison = "asan") {
        return pages::usage().bytes_live + pages::usage().bytes_cached;
    }
    ephemera_testkit::bursts::resident()
}

/// The maximum number of bytes that stay resident for other reasons, such as the test harness and
/// tables.
#[cfg(target_os = "linux")]
const SLACK: usize = 2 << 20;

#[test]
#[cfg(target_os = "linux")]
fn resident_memory_falls_to_the_bound_while_a_burst_is_freed() {
    take_turn();
    for size in [32 << 10, 256 << 10, 1 << 20, 5 << 20] {
        // The purge also forgets the rise of the bound, so the bound has its minimum.
        pages::purge();
        let before = (resident(), pages::usage());
        let blocks: Vec<_> =
            (0..(128 << 20) / size).map(|_| Owned::new(layout(size, 8)).expect("memory")).collect();
        blocks.iter().for_each(|block| block.fill(1));
        assert!(resident() > before.0 + (100 << 20));
        drop(blocks);
        let after = (resident(), pages::usage());
        assert!(after.0 < before.0 + pages::CACHE + SLACK, "{size}: {before:?}, then {after:?}");
        assert!(
            after.1.bytes_cached <= pages::CACHE && after.1.bytes_live == before.1.bytes_live,
            "{after:?}"
        );
        assert!(
            after.1.bytes_mapped <= before.1.bytes_mapped + 2 * pages::CACHE + SLACK,
            "superblocks stay: {before:?}, then {after:?}"
        );
        pages::purge();
        assert_eq!(pages::usage().bytes_cached, 0);
        assert!(resident() < before.0 + SLACK);
    }
}

#[test]
fn shed_purges_about_as_many_cached_bytes_as_requested() {
    take_turn();
    pages::purge();
    let burst = || drop(spans(1_500));
    (0..6).for_each(|_| burst());
    let (cached, wanted) = (pages::usage().bytes_cached, 4 << 20);
    assert!(cached > 3 * wanted, "{cached}");
    pages::shed(wanted);
    let left = pages::usage().bytes_cached;
    assert!(left <= cached - wanted && left >= cached - 2 * wanted, "{left} of {cached}");
    pages::shed(usize::MAX);
    assert_eq!(pages::usage().bytes_cached, 0);
}

#[test]
fn pages_that_were_needed_again_stay_cached_until_they_are_unused() {
    take_turn();
    pages::purge();
    let burst = || drop(spans(1_500));
    burst();
    assert!(pages::usage().bytes_cached <= pages::CACHE);
    (0..4).for_each(|_| burst());
    let swinging = pages::usage().bytes_cached;
    let learned = pages::CACHE_LEARNED;
    assert!(swinging > learned / 2 && swinging <= pages::CACHE + learned, "{swinging}");
    for _ in 0..2_000 * 64 {
        drop(Owned::new(layout(64 << 10, 8)));
    }
    assert!(pages::usage().bytes_cached < pages::CACHE, "{:?}", pages::usage());
}

#[test]
fn permanent_blocks_are_aligned_even_if_they_are_empty() {
    take_turn();
    for align in [1, 64, 32 << 10, 1 << 20] {
        for size in [0, 1, 100, 70_000] {
            let block = pages::permanent(layout(size, align)).expect("memory");
            assert!(block.addr().get() % align == 0, "{size} bytes, aligned to {align}");
        }
    }
}

#[test]
fn a_free_that_lowers_the_bound_returns_the_excess() {
    take_turn();
    let frees: [fn(Owned); 2] = [drop, |large| drop(large.shrunk(layout(2 << 20, 8)))];
    for free in frees {
        pages::purge();
        let large = Owned::new(layout(1 << 30, 8)).expect("memory");
        drop(spans(3_000));
        assert!(pages::usage().bytes_cached > 64 << 20, "an eighth of a gigabyte may stay");
        free(large);
        assert!(pages::usage().bytes_cached <= pages::CACHE, "{:?}", pages::usage());
    }
}

#[test]
fn a_free_that_lowers_a_risen_bound_returns_the_excess() {
    take_turn();
    pages::purge();
    let burst = || drop(spans(3_000));
    (0..3).for_each(|_| burst());
    assert!(pages::usage().bytes_cached > 30 << 20, "the bound has risen: {:?}", pages::usage());
    let large = Owned::new(layout(512 << 20, 8)).expect("memory");
    burst();
    assert!(pages::usage().bytes_cached > 80 << 20, "{:?}", pages::usage());
    drop(large);
    let cached = pages::usage().bytes_cached;
    pages::purge();
    assert!(cached <= pages::CACHE, "{cached}");
}

#[test]
fn a_lower_bound_also_limits_its_rise() {
    take_turn();
    pages::purge();
    let burst = || drop(spans(1_500));
    (0..3).for_each(|_| burst());
    assert!(pages::usage().bytes_cached > 2 * pages::CACHE, "the bound has risen");
    pages::set_cache(0);
    burst();
    let cached = pages::usage().bytes_cached;
    pages::set_cache(pages::CACHE);
    assert!(cached < pages::CACHE, "{cached}");
}

#[test]
fn growth_of_a_mapping_raises_the_bound_by_its_new_bytes_only() {
    take_turn();
    pages::purge();
    // All allocations come before the bound rises, because they would raise it too.
    let gone = Owned::new(layout(64 << 20, 8)).expect("memory");
    let burst = spans(3_000);
    let mut block = Owned::new(layout(2 << 20, 8)).expect("memory");
    drop(gone);
    for power in 22..26 {
        block = block.grown_zeroed(layout(1 << power, 8));
    }
    let grown = 30 << 20;
    drop(burst);
    drop(block);
    let cached = pages::usage().bytes_cached;
    pages::purge();
    assert!(cached <= pages::CACHE + grown, "{cached}");
}

#[test]
fn a_bound_that_the_program_set_rises_by_at_most_four_times_itself() {
    const LEAST: usize = 1 << 20;
    take_turn();
    pages::purge();
    pages::set_cache(LEAST);
    // 250 spans are less than eight times `LEAST`, so the bytes in use do not raise the bound.
    let burst = || drop(spans(250));
    (0..6).for_each(|_| burst());
    let cached = pages::usage().bytes_cached;
    pages::set_cache(pages::CACHE);
    pages::purge();
    assert!(cached > 2 * LEAST && cached <= 5 * LEAST, "{cached}");
}

#[test]
fn cached_spans_leave_while_other_blocks_come_and_go() {
    take_turn();
    pages::purge();
    drop(spans(100));
    let cached = pages::usage().bytes_cached;
    assert!(cached > 30 * SPAN.size(), "the last superblock stays: {cached}");
    // Each round is two events, an allocation and a free. A look after every 64th event purges at
    // most one span.
    for _ in 0..100 * 64 {
        drop(Owned::new(layout(64 << 10, 8)));
    }
    assert!(pages::usage().bytes_cached <= 4 * SPAN.size(), "{:?}", pages::usage());
}

#[test]
fn conc_each_span_has_one_owner() {
    const ROUNDS: usize = 3_000;
    take_turn();
    let threads = (0..4_u8).map(|thread| {
        thread::spawn(move || {
            let mut held = Vec::new();
            let mut random = SplitMix::new(u64::from(thread));
            for _ in 0..ROUNDS {
                if held.len() < 40 && random.below(2) == 0 {
                    let size = (32 << 10) << random.below(7);
                    let block = Owned::new(layout(size, 8)).expect("memory");
                    // SAFETY: the block is live and has at least one byte.
                    unsafe { block.0.write(thread) };
                    held.push(block);
                } else if !held.is_empty() {
                    let block = held.swap_remove(random.below(held.len()));
                    // SAFETY: this thread wrote the first byte.
                    assert_eq!(unsafe { block.0.read() }, thread);
                }
                if random.below(512) == 0 {
                    pages::purge();
                }
            }
            drop(held);
        })
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    pages::purge();
    assert_eq!(pages::usage().bytes_cached, 0);
}

#[test]
#[cfg(unix)]
fn a_forked_child_allocates_while_threads_of_the_parent_do() {
    use core::sync::atomic::{AtomicBool, Ordering};
    take_turn();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop((Owned::new(SPAN), Owned::new(layout(2 << 20, 8))));
                }
            });
        }
        for _ in 0..12 {
            let held = Owned::new(SPAN);
            assert!(ephemera_testkit::fork::holds_in_a_child(|| {
                drop(held);
                let blocks = spans(70);
                blocks.iter().for_each(|block| block.fill(5));
                blocks.iter().all(|block| block.holds(5))
            }));
        }
        stop.store(true, Ordering::Relaxed);
    });
}
