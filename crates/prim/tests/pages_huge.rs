//! Tests that Linux may not replace purged pages by a huge page, which would make them resident
//! again.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]

use core::alloc::Layout;
use core::ptr::NonNull;
use std::fs;
use std::path::Path;

use ephemera_prim::pages::{self, Pages};
use ephemera_prim::traits::Allocator;
use ephemera_testkit::suite::take_turn;

const SPAN: usize = 32 << 10;

const LAYOUT: Layout = match Layout::from_size_align(SPAN, SPAN) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};

/// The number of spans of this length in a superblock.
const SPANS: usize = 64;

/// A span, which is freed when the value is dropped.
struct OwnedSpan(NonNull<u8>);

impl OwnedSpan {
    /// Returns the address of the middle of the span.
    fn middle(&self) -> NonNull<u8> {
        // SAFETY: the span has more bytes.
        unsafe { self.0.add(SPAN / 2) }
    }
}

impl Drop for OwnedSpan {
    fn drop(&mut self) {
        // SAFETY: the span is live and has this layout.
        unsafe { Pages.deallocate(self.0, LAYOUT) };
    }
}

/// Returns whether the kernel may use huge pages for the mapping that contains a span, according
/// to the flags of the mapping: `nh` excludes huge pages. Returns `None` if the kernel was built
/// without huge pages.
fn may_be_huge(span: &OwnedSpan) -> Option<bool> {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return None;
    }
    let maps = fs::read_to_string("/proc/self/smaps").expect("the system has this file");
    let mut is_inside = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let hex = |text| usize::from_str_radix(text, 16).ok();
        if let Some((Some(start), Some(end))) = range.map(|(start, end)| (hex(start), hex(end))) {
            is_inside = (start..end).contains(&span.0.addr().get());
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_inside) {
            return Some(!flags.split(' ').any(|flag| flag == "nh"));
        }
    }
    panic!("no mapping contains the span");
}

/// Fills three superblocks.
fn three_superblocks() -> Vec<OwnedSpan> {
    pages::purge();
    let span = |_| OwnedSpan(Pages.allocate(LAYOUT).expect("memory").cast());
    let spans: Vec<_> = (0..3 * SPANS).map(span).collect();
    for superblock in spans.chunks(SPANS) {
        let number = |span: &OwnedSpan| span.0.addr().get() / (SPANS * SPAN);
        assert!(superblock.iter().all(|span| number(span) == number(&superblock[0])));
    }
    spans
}

/// Frees a span and purges it.
fn free_and_purge(span: OwnedSpan) {
    drop(span);
    pages::purge();
}

/// Checks that `purge` excludes huge pages for the superblock of its span, and only for this one.
/// `purge` purges memory of the span, and returns the span if it is still live.
fn check_purge(purge: impl FnOnce(OwnedSpan) -> Option<OwnedSpan>) {
    take_turn();
    let mut spans = three_superblocks();
    let span = spans.swap_remove(SPANS + 1);
    let Some(before) = may_be_huge(&spans[SPANS]) else { return };
    assert!(before, "huge pages are excluded before any purge");
    let _span = purge(span);
    assert_eq!(may_be_huge(&spans[SPANS]), Some(false));
    assert_eq!(may_be_huge(&spans[2 * SPANS]), Some(true), "another superblock");
}

#[test]
fn superblock_with_a_purged_span_gets_no_huge_pages() {
    check_purge(|span| {
        free_and_purge(span);
        None
    });
}

#[test]
fn superblock_with_a_purged_tail_of_a_block_gets_no_huge_pages() {
    check_purge(|span| {
        // SAFETY: the bytes are the last ones of a live block, and nothing needs their content.
        unsafe { pages::purge_tail(span.middle(), SPAN / 2) };
        Some(span)
    });
}

#[test]
fn first_superblock_of_a_span_length_gets_no_huge_pages() {
    take_turn();
    let spans = three_superblocks();
    let first = may_be_huge(&spans[0]);
    assert!(matches!(first, None | Some(false)), "a small process would hold a huge page for each length");
}

#[test]
fn superblock_of_a_program_that_asked_for_huge_pages_keeps_them() {
    take_turn();
    pages::set_huge_pages(true);
    let mut spans = three_superblocks();
    free_and_purge(spans.swap_remove(1));
    pages::set_huge_pages(false);
    assert!(matches!(may_be_huge(&spans[0]), None | Some(true)));
}
