//! Tests of a thread's own cache of spans: which spans it keeps, and when they leave it.
#![cfg(all(feature = "std", not(miri), any(target_os = "linux", target_os = "macos")))]

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::mpsc::channel;
use std::thread;

use ephemera_prim::pages::{self, CachedPages, Pages, SpanCache};
use ephemera_prim::traits::Allocator;
use ephemera_testkit::suite::take_turn;

/// A layout that takes a span of 64 KiB. A thread keeps at most four of these spans.
const SPAN: Layout = match Layout::from_size_align(60_000, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};
const SPAN_LEN: usize = 64 << 10;

/// The largest number of bytes that a thread keeps.
const KEPT: usize = 768 << 10;

/// Returns an allocator with a new cache that belongs to the calling thread, and the cache.
fn with_cache() -> (CachedPages, &'static SpanCache) {
    let cache: &'static SpanCache = Box::leak(Box::new(SpanCache::new()));
    // SAFETY: each test uses its cache on one thread.
    (unsafe { CachedPages::new(Some(cache)) }, cache)
}

fn written(source: impl Allocator, layout: Layout) -> NonNull<u8> {
    let block = source.allocate(layout).expect("memory").cast::<u8>();
    // SAFETY: the block has this number of bytes.
    unsafe { block.write_bytes(7, layout.size()) };
    block
}

fn free(source: impl Allocator, block: NonNull<u8>, layout: Layout) {
    // SAFETY: callers pass a live block with its layout.
    unsafe { source.deallocate(block, layout) };
}

/// Makes 32 allocations and 32 frees of blocks that threads do not keep in their own caches.
fn sixty_four_events() {
    let longer = Layout::new::<[u8; 400_000]>();
    for _ in 0..32 {
        free(Pages, Pages.allocate(longer).expect("memory").cast(), longer);
    }
}

#[test]
fn a_freed_block_is_the_next_block_of_its_thread_and_counts_as_cached() {
    take_turn();
    pages::purge();
    let before = pages::usage();
    let (own, cache) = with_cache();
    let block = written(own, SPAN);
    free(own, block, SPAN);
    let kept = pages::usage();
    assert_eq!((kept.bytes_live, kept.bytes_cached), (before.bytes_live, before.bytes_cached + SPAN_LEN));
    let other = Pages.allocate(SPAN).expect("memory").cast();
    assert_ne!(other, block, "the block is in the thread's own cache");
    assert_eq!(own.allocate(SPAN).expect("memory").cast(), block);
    free(own, block, SPAN);
    cache.clear();
    assert_eq!(Pages.allocate(SPAN).expect("memory").cast(), block, "the process has the block");
    free(Pages, block, SPAN);
    free(Pages, other, SPAN);
}

#[test]
fn a_block_that_grows_takes_a_kept_span_of_twice_the_length() {
    take_turn();
    let (own, cache) = with_cache();
    free(own, written(own, of(200_000)), of(200_000));
    let small = written(own, SPAN);
    let grow = |block, old, new| {
        // SAFETY: the block is live with layout `old`, and `new` is not smaller.
        unsafe { own.grow(block, old, new) }.expect("memory").cast::<u8>()
    };
    let grown = grow(small, SPAN, of(100_000));
    assert_eq!(pages::span_len(grown), Some(256 << 10));
    assert_eq!(grow(grown, of(100_000), of(200_000)), grown);
    free(own, grown, of(200_000));
    let other = own.allocate(of(100_000)).expect("memory").cast::<u8>();
    assert_eq!(pages::span_len(other), Some(128 << 10), "a block that did not grow gets no room");
    free(own, other, of(100_000));
    // A block of a length that threads do not keep does not get room, although the next length is
    // kept.
    free(own, written(own, SPAN), SPAN);
    let short = grow(own.allocate(of(0)).expect("no memory is needed").cast(), of(0), of(4_096));
    assert_eq!(pages::span_len(short), Some(32 << 10));
    free(own, short, of(4_096));
    cache.clear();
}

/// Returns the layout of a block of this many bytes.
fn of(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

/// Twenty times, keeps a span of 256 KiB and then grows a block to 100,000 bytes. Returns the grown
/// blocks.
fn grown_blocks(own: CachedPages) -> Vec<NonNull<u8>> {
    let grown = |_| {
        free(own, written(own, of(200_000)), of(200_000));
        let small = written(own, SPAN);
        // SAFETY: the block is live with this layout, and the new layout is the larger one.
        unsafe { own.grow(small, SPAN, of(100_000)) }.expect("memory").cast::<u8>()
    };
    (0..20).map(grown).collect()
}

/// Returns the number of blocks in spans of 256 KiB.
fn roomy(blocks: &[NonNull<u8>]) -> usize {
    blocks.iter().filter(|block| pages::span_len(**block) == Some(256 << 10)).count()
}

#[test]
fn few_blocks_have_room_that_they_do_not_use() {
    take_turn();
    let (own, cache) = with_cache();
    let blocks = grown_blocks(own);
    assert_eq!(roomy(&blocks), 4);
    // Each block that uses its room, or that is freed with its room, allows another block to have
    // room.
    // SAFETY: the block is live with this layout, and the new layout is the larger one.
    let used = unsafe { own.grow(blocks[0], of(100_000), of(200_000)) }.expect("memory").cast::<u8>();
    // SAFETY: the block is live with this layout, and the new layout is the larger one.
    let zeroed = unsafe { own.grow_zeroed(blocks[1], of(100_000), of(200_000)) }.expect("memory");
    assert_eq!([used, zeroed.cast()], blocks[..2]);
    // SAFETY: the grown block has this number of bytes, and all of them are initialised.
    assert!(unsafe { &zeroed.as_ref()[100_000..] }.iter().all(|byte| *byte == 0));
    free(own, blocks[2], of(100_000));
    // A growth that does not use the room does not allow another block to have room.
    // SAFETY: the block is live with this layout, and the new layout is the larger one.
    let longer = unsafe { own.grow(blocks[3], of(100_000), of(110_000)) }.expect("memory");
    let others = grown_blocks(own);
    assert_eq!(roomy(&others), 3);
    blocks[..2].iter().for_each(|block| free(own, *block, of(200_000)));
    free(own, longer.cast(), of(110_000));
    blocks[4..].iter().chain(&others).for_each(|block| free(own, *block, of(100_000)));
    cache.clear();
}

#[test]
fn frees_of_blocks_of_other_threads_do_not_let_more_blocks_have_room() {
    take_turn();
    let ((one, first), (other, second)) = (with_cache(), with_cache());
    let blocks = grown_blocks(one);
    blocks.iter().for_each(|block| free(other, *block, of(100_000)));
    let blocks = grown_blocks(other);
    assert_eq!(roomy(&blocks), 4);
    blocks.iter().for_each(|block| free(other, *block, of(100_000)));
    [first, second].iter().for_each(|cache| cache.clear());
}

#[test]
fn a_thread_keeps_a_bounded_number_of_bytes() {
    take_turn();
    pages::purge();
    pages::set_cache(KEPT);
    let (own, _) = with_cache();
    for size in [60_000, 100_000, 200_000, 400_000, 1 << 20] {
        let layout = Layout::from_size_align(size, 8).expect("a layout");
        let blocks: Vec<_> = (0..20).map(|_| written(own, layout)).collect();
        blocks.into_iter().for_each(|block| free(own, block, layout));
    }
    let cached = pages::usage().bytes_cached;
    pages::set_cache(pages::CACHE);
    // The sum of the bound on the process's cache and the maximum of this thread's own cache.
    assert!(cached <= KEPT + KEPT, "{cached}");
}

#[test]
fn threads_keep_nothing_if_the_process_may_cache_less_than_one_thread_keeps() {
    take_turn();
    pages::purge();
    pages::set_cache(KEPT - 1);
    let (own, _) = with_cache();
    // This block keeps the superblock mapped.
    let other = Pages.allocate(SPAN).expect("memory").cast::<u8>();
    let freed = written(own, SPAN);
    free(own, freed, SPAN);
    let block = Pages.allocate(SPAN).expect("memory").cast::<u8>();
    free(Pages, block, SPAN);
    free(Pages, other, SPAN);
    pages::set_cache(pages::CACHE);
    assert_eq!(block, freed, "the process had the block");
}

#[test]
fn spans_that_a_sleeping_thread_kept_leave_while_others_allocate() {
    take_turn();
    pages::purge();
    let before = pages::usage();
    let (sleeps, is_asleep) = channel();
    let (wake, awake) = channel::<()>();
    let sleeper = thread::spawn(move || {
        let (own, _) = with_cache();
        let blocks: Vec<_> = (0..4).map(|_| written(own, SPAN)).collect();
        blocks.into_iter().for_each(|block| free(own, block, SPAN));
        sleeps.send(()).expect("the other end is open");
        let _ = awake.recv();
    });
    is_asleep.recv().expect("the thread does not panic");
    assert!(pages::usage().bytes_cached >= before.bytes_cached + 4 * SPAN_LEN);
    // A look visits one cache, and takes one of its spans of 64 KiB if the owner has not used these
    // spans since the previous look at the cache. The looks visit all caches in turn, including
    // caches that other tests left. A taken span stays in the process's cache for at least 16
    // looks.
    for _ in 0..256 {
        sixty_four_events();
    }
    let after = pages::usage();
    drop(wake);
    sleeper.join().expect("no panic");
    // Only the loop's own block may be cached in addition.
    assert!(after.bytes_cached <= before.bytes_cached + (512 << 10), "{before:?}, then {after:?}");
    let dirty = after.bytes_cached - before.bytes_cached;
    assert!(dirty % (512 << 10) == 0, "spans of 64 KiB stay: {before:?}, then {after:?}");
}

#[test]
fn a_thread_that_uses_its_own_spans_lets_the_others_leave() {
    take_turn();
    pages::purge();
    let (own, _) = with_cache();
    let longer = Layout::new::<[u8; 200_000]>();
    free(own, written(own, longer), longer);
    let kept = pages::usage().bytes_cached;
    assert!(kept >= 256 << 10);
    for _ in 0..64 * 64 {
        free(own, own.allocate(SPAN).expect("memory").cast(), SPAN);
    }
    assert!(pages::usage().bytes_cached <= SPAN_LEN, "{kept}, then {:?}", pages::usage());
}

#[test]
fn a_purge_takes_the_spans_of_all_threads() {
    take_turn();
    pages::purge();
    let (own, _) = with_cache();
    free(own, written(own, SPAN), SPAN);
    assert!(pages::usage().bytes_cached >= SPAN_LEN);
    thread::spawn(pages::purge).join().expect("no panic");
    assert_eq!(pages::usage().bytes_cached, 0);
}

#[test]
fn conc_a_kept_span_has_one_owner_beside_purges() {
    take_turn();
    let threads = [1_u8, 2, 3].map(|thread| {
        thread::spawn(move || {
            let (own, cache) = with_cache();
            for round in 0..5_000 {
                let blocks = [(); 3].map(|()| own.allocate(SPAN).expect("memory").cast::<u8>());
                for block in blocks {
                    // SAFETY: the block is live and has at least one byte.
                    unsafe { block.write(thread) };
                }
                if round % 97 == 0 {
                    pages::purge();
                }
                for block in blocks {
                    // SAFETY: this thread wrote the first byte.
                    assert_eq!(unsafe { block.read() }, thread);
                    free(own, block, SPAN);
                }
            }
            cache.clear();
        })
    });
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    pages::purge();
    assert_eq!(pages::usage().bytes_cached, 0);
}

/// Returns the number of minor page faults of this process, that is, of faults without input or
/// output.
#[cfg(all(target_os = "linux", not(ephemera_poison = "asan")))]
fn faults() -> libc::c_long {
    // SAFETY: the structure has only numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is valid for the system's writes.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) }, 0);
    usage.ru_minflt
}

#[test]
// Under AddressSanitizer, the pages of the shadow fault too.
#[cfg(all(target_os = "linux", not(ephemera_poison = "asan")))]
fn memory_that_is_used_all_the_time_keeps_its_pages() {
    take_turn();
    for size in [100_000, 1 << 20, 3 << 20] {
        pages::purge();
        let layout = Layout::from_size_align(size, 8).expect("a layout");
        free(Pages, written(Pages, layout), layout);
        let before = faults();
        // Every 64th of these 1,200 operations causes a look.
        for _ in 0..600 {
            free(Pages, written(Pages, layout), layout);
        }
        let during = faults() - before;
        // Each page may fault once, and so may the pages of the test harness.
        assert!(during < size as libc::c_long / 4_096 + 64, "{size}: {during} page faults");
    }
}
