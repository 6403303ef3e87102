//! Tests of pages that the operating system refuses to purge, because the program has locked them
//! in memory.
// AddressSanitizer ignores memory locks.
#![cfg(not(ephemera_poison = "asan"))]
#![cfg(all(feature = "std", target_os = "linux", target_has_atomic = "64", not(miri)))]

use core::alloc::Layout;
use core::ptr::NonNull;
use std::io::Error;

use ephemera_prim::pages::{self, Pages};
use ephemera_prim::traits::Allocator;
use ephemera_testkit::suite::take_turn;

const SPAN: usize = 32 << 10;

fn layout() -> Layout {
    Layout::from_size_align(SPAN, SPAN).expect("a layout")
}

/// Allocates a span and writes to all of it.
fn written() -> NonNull<u8> {
    let block = Pages.allocate(layout()).expect("memory").cast::<u8>();
    // SAFETY: the block has this number of bytes.
    unsafe { block.write_bytes(1, SPAN) };
    block
}

fn free(block: NonNull<u8>) {
    // SAFETY: the block is live and has this layout.
    unsafe { Pages.deallocate(block, layout()) };
}

/// Locks the first page of a block, and returns whether the system allows that.
fn lock(block: NonNull<u8>) -> bool {
    // SAFETY: the page is mapped, and the call does not change its content.
    unsafe { libc::mlock(block.as_ptr().cast(), 1) == 0 }
}

#[test]
fn a_refused_purge_does_not_change_errno() {
    take_turn();
    pages::purge();
    let (kept, block) = (written(), written());
    if lock(block) {
        pages::set_cache(0);
        // SAFETY: -1 is not an open file, so the call fails without effect.
        assert_eq!(unsafe { libc::close(-1) }, -1);
        free(block);
        assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::EBADF));
        assert!(pages::usage().bytes_cached >= SPAN, "the system refuses to purge a locked page");
        pages::set_cache(pages::CACHE);
    }
    free(kept);
}

#[test]
fn a_purge_unmaps_all_empty_superblocks_although_each_has_a_locked_page() {
    take_turn();
    pages::purge();
    let before = pages::usage();
    // The blocks fill four superblocks.
    let Some(blocks) = with_locked(256, |at| at % 64 == 63) else { return };
    pages::set_cache(256 * SPAN);
    blocks.into_iter().for_each(free);
    let freed = pages::usage();
    assert!(freed.bytes_cached > before.bytes_cached + SPAN * 128, "the spans are cached: {freed:?}");
    pages::purge();
    let after = pages::usage();
    pages::set_cache(pages::CACHE);
    // Tables may need new mappings, which are far smaller than a superblock.
    assert!(after.bytes_mapped < before.bytes_mapped + SPAN * 64, "{before:?}, then {after:?}");
    assert!(after.bytes_cached < SPAN * 64, "{after:?}");
}

/// Allocates `number` spans, and locks the first page of each one whose index `is_locked` accepts.
/// If the system refuses a lock, prints a message, frees the spans and returns `None`.
fn with_locked(number: usize, is_locked: impl Fn(usize) -> bool) -> Option<Vec<NonNull<u8>>> {
    let blocks: Vec<_> = (0..number).map(|_| written()).collect();
    let locked = blocks.iter().enumerate().all(|(at, block)| !is_locked(at) || lock(*block));
    if locked {
        return Some(blocks);
    }
    println!("skipped: the system does not let the test lock pages");
    blocks.into_iter().for_each(free);
    None
}

#[test]
fn locked_spans_do_not_keep_others_from_being_purged_over_time() {
    take_turn();
    pages::purge();
    // Each of two superblocks has two locked spans, and a used span that keeps the superblock
    // mapped.
    let Some(mut blocks) = with_locked(128, |at| matches!(at % 64, 0 | 7)) else { return };
    let used = [blocks.remove(127), blocks.remove(63)];
    blocks.into_iter().for_each(free);
    let before = pages::usage();
    assert!(before.bytes_cached >= 100 * SPAN, "{before:?}");
    other_blocks(64 * 400);
    let after = pages::usage();
    used.into_iter().for_each(free);
    // Only the locked spans and the block of the loop may be cached.
    assert!(after.bytes_cached <= 4 * SPAN + (512 << 10), "{before:?}, then {after:?}");
}

/// Allocates and frees a block of another span length `times` times.
fn other_blocks(times: usize) {
    let longer = Layout::new::<[u8; 400_000]>();
    for _ in 0..times {
        let block = Pages.allocate(longer).expect("memory").cast();
        // SAFETY: the block is live and has this layout.
        unsafe { Pages.deallocate(block, longer) };
    }
}

#[test]
fn locked_spans_do_not_end_the_purges_of_a_free() {
    const LARGE: Layout = match Layout::from_size_align(512 << 20, 8) {
        Ok(layout) => layout,
        Err(_) => panic!("a layout"),
    };
    take_turn();
    pages::purge();
    let large = Pages.allocate(LARGE).expect("memory").cast::<u8>();
    // Each of 16 superblocks has a locked span, and a used span that keeps it mapped.
    let Some(blocks) = with_locked(16 * 64, |at| at % 64 == 20) else { return };
    let mut used = Vec::new();
    for (at, block) in blocks.into_iter().enumerate() {
        if at % 64 == 0 { used.push(block) } else { free(block) }
    }
    assert!(pages::usage().bytes_cached > 5 * pages::CACHE, "{:?}", pages::usage());
    // SAFETY: the block is live and has this layout.
    unsafe { Pages.deallocate(large, LARGE) };
    let cached = pages::usage().bytes_cached;
    used.into_iter().for_each(free);
    pages::purge();
    assert!(cached <= pages::CACHE, "{cached}");
}

#[test]
fn locked_spans_do_not_keep_others_from_leaving_a_full_cache() {
    take_turn();
    pages::purge();
    let Some(mut blocks) = with_locked(64, |at| matches!(at, 0 | 7)) else { return };
    let used = blocks.remove(63);
    blocks.into_iter().for_each(free);
    let before = pages::usage();
    assert!(before.bytes_cached >= 60 * SPAN, "{before:?}");
    pages::set_cache(0);
    // Each free purges up to two spans in addition to its own.
    other_blocks(60);
    let after = pages::usage();
    pages::set_cache(pages::CACHE);
    free(used);
    assert!(after.bytes_cached <= 2 * SPAN, "{before:?}, then {after:?}");
}

#[test]
fn a_purge_passes_over_locked_spans() {
    take_turn();
    pages::purge();
    let Some(mut blocks) = with_locked(64, |at| matches!(at, 0 | 7)) else { return };
    let used = blocks.remove(63);
    blocks.into_iter().for_each(free);
    pages::purge();
    let after = pages::usage();
    free(used);
    assert!(after.bytes_cached <= 2 * SPAN, "{after:?}");
}
