//! Tests of the freed large blocks that a thread keeps for itself until it trims or ends. After
//! that, the process keeps them.
#![cfg(all(feature = "std", any(target_os = "linux", target_os = "macos"), not(miri)))]

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::mpsc::channel;
use std::thread;

use allocator_api2::boxed::Box;
use ephemera_testkit::suite::take_turn;
use typed_pool::{pages, pooled_allocator};

pooled_allocator! {
    /// The allocator of these tests.
    struct Large;
}

const LAYOUT: Layout = Layout::new::<[u8; 100_000]>();
const SPAN: usize = 128 << 10;

fn allocate() -> NonNull<u8> {
    let block = Large.allocate(LAYOUT).expect("memory").cast::<u8>();
    // SAFETY: the block has at least one byte.
    unsafe { block.write(1) };
    block
}

fn free(block: NonNull<u8>) {
    // SAFETY: the callers pass a live block of this layout.
    unsafe { Large.deallocate(block, LAYOUT) };
}

/// Allocates a block and frees it, then calls `end`. Returns the address of the block.
fn freed_once(end: impl FnOnce()) -> usize {
    let block = allocate();
    free(block);
    assert_eq!(allocate(), block, "the thread keeps the block");
    free(block);
    end();
    block.addr().get()
}

/// Trims this thread, then allocates a block and frees it. Returns the block's address.
fn from_the_process() -> usize {
    Large.trim();
    let block = allocate();
    let address = block.addr().get();
    free(block);
    address
}

#[test]
fn the_process_gets_the_blocks_that_an_ended_thread_kept() {
    take_turn();
    // This call binds a record to this thread, so the thread does not take over the record of the
    // ended thread.
    assert_ne!(from_the_process(), 0);
    pages::purge();
    let freed = thread::spawn(|| freed_once(|| ())).join().expect("no panic");
    assert_eq!(from_the_process(), freed);
    assert_eq!(Large.stats().bytes_held, 0);
}

#[test]
fn the_process_gets_the_blocks_of_a_thread_that_trims() {
    take_turn();
    pages::purge();
    let freed = freed_once(|| Large.trim());
    let other = thread::spawn(from_the_process).join().expect("no panic");
    assert_eq!(other, freed);
}

/// The thread obeys the request at a visit to its slow path in another family. A large block counts
/// as a visit.
#[test]
fn the_process_gets_the_blocks_of_a_thread_that_obeys_a_trim_in_another_family() {
    take_turn();
    pooled_allocator! {
        struct Other;
    }
    // More than a round of visits to the slow path.
    const VISITS: usize = 100;
    pages::purge();
    let (keeps, kept) = channel();
    let (asks, asked) = channel::<()>();
    let (end, ended) = channel::<()>();
    let other = thread::spawn(move || {
        keeps.send(freed_once(|| ())).expect("the test waits");
        asked.recv().expect("the test asks");
        // These blocks need longer spans. They stay live, so that their spans do not displace the
        // span that this thread keeps.
        let blocks: Vec<_> = (0..VISITS).map(|_| Box::<[u8; 200_000], _>::new_uninit_in(Other)).collect();
        keeps.send(0).expect("the test waits");
        let _ = ended.recv();
        drop(blocks);
    });
    let freed = kept.recv().expect("the other thread");
    Large.trim_all();
    asks.send(()).expect("the other thread waits");
    assert_eq!(kept.recv(), Ok(0));
    assert_eq!(from_the_process(), freed);
    drop(end);
    other.join().expect("no panic");
}

#[test]
fn a_block_that_outgrew_its_class_grows_in_place_if_its_thread_kept_a_longer_span() {
    take_turn();
    free(allocate());
    let of = |size| Layout::from_size_align(size, 8).expect("a layout");
    let grow = |block: NonNull<u8>, old: Layout, new| {
        // SAFETY: the block is live with layout `old`, and `new` is not smaller.
        let grown = unsafe { Large.grow(block, old, new) }.expect("memory").cast::<u8>();
        // SAFETY: the grown block has at least the bytes of the old one, which are initialised.
        let kept = unsafe { core::slice::from_raw_parts(grown.as_ptr(), 20_000) };
        assert!(kept.iter().all(|byte| *byte == 7));
        grown
    };
    // Each block grows into the longer span that it gets, so any number of blocks get a longer
    // span, one after another.
    for _ in 0..20 {
        let small = Large.allocate(of(20_000)).expect("memory").cast::<u8>();
        // SAFETY: the block has this number of bytes.
        unsafe { small.write_bytes(7, 20_000) };
        let grown = grow(small, of(20_000), of(40_000));
        assert_eq!(grow(grown, of(40_000), LAYOUT), grown);
        free(grown);
    }
}

#[test]
fn a_block_that_grows_out_of_its_span_leaves_it_to_its_thread() {
    take_turn();
    pages::purge();
    let block = allocate();
    let longer = Layout::new::<[u8; 200_000]>();
    // SAFETY: the block is live and of this layout, and the new layout is the larger one.
    let grown = unsafe { Large.grow(block, LAYOUT, longer) }.expect("memory").cast::<u8>();
    // SAFETY: the first byte was written before the block grew.
    assert_eq!(unsafe { grown.read() }, 1);
    assert_eq!(allocate(), block);
    free(block);
    // SAFETY: the block is live and of the longer layout.
    unsafe { Large.deallocate(grown, longer) };
    let used = pages::usage();
    assert!(used.bytes_cached >= SPAN, "{used:?}");
    assert_eq!((Large.stats().large_blocks, Large.stats().bytes_held), (0, 0));
}

#[test]
#[cfg(unix)]
fn a_forked_child_reaches_the_blocks_that_other_threads_kept() {
    take_turn();
    pages::purge();
    let (keeps, kept) = channel();
    let (end, ended) = channel::<()>();
    let other = thread::spawn(move || {
        let block = freed_once(|| ());
        keeps.send(block).expect("the other end is open");
        let _ = ended.recv();
    });
    assert_ne!(kept.recv().expect("no panic"), 0);
    assert!(ephemera_testkit::fork::holds_in_a_child(|| {
        pages::purge();
        pages::usage().bytes_cached == 0
    }));
    drop(end);
    other.join().expect("no panic");
}
