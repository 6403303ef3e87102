//! Tests spans of 32 KiB where a page has 64 KiB. The test sets this page size for the whole
//! process, so the test is in its own program.
#![cfg(all(feature = "std", unix, not(any(miri, ephemera_loom))))]

use core::alloc::Layout;
use core::ptr::NonNull;

use ephemera_prim::pages::{self, Pages};
use ephemera_prim::traits::Allocator;

const SPAN: Layout = match Layout::from_size_align(32 << 10, 32 << 10) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};

fn span() -> NonNull<u8> {
    let span = Pages.allocate(SPAN).expect("memory").cast::<u8>();
    // SAFETY: the span is live and has this number of bytes.
    unsafe { span.write_bytes(7, SPAN.size()) };
    span
}

fn free(span: NonNull<u8>) {
    // SAFETY: the caller passes a live span of this layout.
    unsafe { Pages.deallocate(span, SPAN) };
}

/// The operating system purges whole pages, so the purge of one span would clear its neighbour.
#[test]
fn spans_smaller_than_a_page_leave_with_their_superblock_only() {
    pages::pretend_page_size(64 << 10);
    pages::set_cache(0);
    let mut spans: Vec<_> = (0..200).map(|_| span()).collect();
    let mapped = pages::usage().bytes_mapped;
    spans.drain(..100).for_each(free);
    // The bound on cached bytes is an eighth of the bytes in use, about 13 spans.
    let usage = pages::usage();
    assert!(usage.bytes_cached >= 30 * SPAN.size(), "no span is purged alone: {usage:?}");
    for live in &spans {
        // SAFETY: the span is live, and all of its bytes were written.
        let bytes = unsafe { NonNull::slice_from_raw_parts(*live, SPAN.size()).as_ref() };
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
    // With this bound, the superblocks stay mapped when their last span is freed.
    pages::set_cache(64 << 20);
    spans.into_iter().for_each(free);
    assert!(pages::usage().bytes_cached >= 64 * SPAN.size(), "{:?}", pages::usage());
    pages::shed(usize::MAX);
    let usage = pages::usage();
    assert_eq!(usage.bytes_cached, 0, "{usage:?}");
    assert!(usage.bytes_mapped < mapped, "superblocks leave: {usage:?}, and {mapped} before");
}
