//! Tests the counting global allocator, as the global allocator of a test program.

use ephemera_testkit::backing::CountingGlobal;

#[global_allocator]
static GLOBAL: CountingGlobal = CountingGlobal::new(4096);

/// Stands in for a chunk. The test harness never allocates a block with this alignment.
#[repr(align(4096))]
struct Page([u8; 4096]);

/// This is the only test of the program, because the counts cover the whole program.
#[test]
fn aligned_requests_are_counted_separately() {
    let before = GLOBAL.aligned();
    assert_eq!((before.bytes, before.blocks), (0, 0));

    let small = vec![0_u8; 10_000];
    let page = Box::new(Page([1; 4096]));
    let mut pages: Vec<Page> = Vec::with_capacity(2);
    pages.push(Page([2; 4096]));
    pages.reserve_exact(3);
    assert_eq!(page.0[0] + pages[0].0[4095] + small[0], 3);

    let now = GLOBAL.aligned();
    assert_eq!((now.bytes, now.blocks, now.taken), (5 * 4096, 2, 5 * 4096));
    assert!(GLOBAL.held().bytes >= now.bytes + small.len());
    drop((small, page, pages));
    let after = GLOBAL.aligned();
    assert_eq!((after.bytes, after.blocks, after.peak), (0, 0, 5 * 4096));
    GLOBAL.reset_peaks();
    assert_eq!(GLOBAL.aligned().peak, 0);
}
