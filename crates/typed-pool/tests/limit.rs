//! Tests that a pool serves requests up to its limit and refuses all others, and that chunk lengths
//! and capacities respect the limit.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_testkit::backing::Counting;
use typed_pool::{Builder, PooledBox, TypedBox, TypedPool, pooled, pooled_allocator};

/// A value of 32 bytes.
type Value = [u64; 4];

/// A backing allocator that counts its blocks and refuses blocks above a maximum size.
struct Pieces {
    most: usize,
    counting: Counting,
}

impl Pieces {
    fn of(most: usize) -> Self {
        Self { most, counting: Counting::new() }
    }
}

// SAFETY: all blocks are blocks of `counting`.
unsafe impl Allocator for Pieces {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() > self.most { Err(AllocError) } else { self.counting.allocate(layout) }
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this method has the same contract.
        unsafe { self.counting.deallocate(block, layout) };
    }
}

/// Allocates values until the pool refuses.
fn filled<A: Allocator>(pool: &TypedPool<[u8; 4096], A>) -> Vec<TypedBox<'_, [u8; 4096], A>> {
    core::iter::from_fn(|| pool.try_alloc([7; 4096]).ok()).collect()
}

#[test]
fn a_shorter_unit_is_taken_if_a_whole_one_has_no_room() {
    let backing = Counting::new();
    let pool = Builder::<[u8; 4096]>::new().limit(200 << 10).build_in(&backing);
    let values = filled(&pool);
    assert!(values.len() >= 45, "{} of about 49", values.len());
    assert!(backing.held().peak <= 200 << 10);
    drop(values);
    // With a fixed chunk length, the pool requests shorter units too.
    let pool = Builder::<[u8; 4096]>::new().chunk_len(40).limit(100 << 10).build_in(&backing);
    assert!(filled(&pool).len() >= 20);
    // Here the backing allocator refuses the requests; the limit does not.
    let pieces = Pieces::of(100 << 10);
    let pool = Builder::<[u8; 4096]>::new().limit(300 << 10).build_in(&pieces);
    assert!(filled(&pool).len() >= 65);
    let nothing = Builder::<[u8; 4096]>::new().limit(4_096).build_in(&backing);
    assert!(filled(&nothing).is_empty());
}

#[test]
fn each_freed_slot_is_reused_at_the_limit() {
    let pool = Builder::<Value>::new().chunk_len(16).limit(8 << 10).build();
    let mut values: Vec<_> = core::iter::from_fn(|| pool.try_alloc([1; 4]).ok()).collect();
    let most = values.len();
    for round in 0..if cfg!(miri) { 15 } else { 3 * most } {
        drop(values.swap_remove(round * 7 % most));
        values.push(pool.try_alloc([2; 4]).expect("the slot that was freed"));
        assert!(pool.try_alloc([3; 4]).is_err());
    }
    assert_eq!(pool.len(), most);
    drop(values);
    pool.trim();
    assert_eq!(pool.stats().bytes_held, 0);
}

#[test]
fn a_capacity_beyond_the_limit_allocates_nothing() {
    let backing = Counting::new();
    let beyond = Builder::<Value>::new().limit(1 << 20).capacity(4 << 20).try_build_in(&backing);
    assert!(beyond.is_err());
    assert_eq!((backing.calls().allocate, backing.held().peak), (0, 0));
    // A value of three bytes counts with its stride, eight bytes.
    let padded = Builder::<[u8; 3]>::new().limit(40_000).capacity(10_000).try_build_in(&backing);
    assert!(padded.is_err());
    assert_eq!(backing.calls().allocate, 0);
    let pool = Builder::<Value>::new().limit(1 << 20).capacity(32_000).try_build_in(&backing).expect("room");
    assert!(pool.capacity() >= 32_000 && backing.held().peak <= 1 << 20);
}

#[test]
fn a_capacity_needs_no_block_larger_than_a_unit() {
    // The capacity is 128 MiB. Miri uses three units.
    let slots = if cfg!(miri) { 3_000 } else { 4 << 20 };
    let pieces = Pieces::of(32 << 10);
    let pool = Builder::<Value>::new().capacity(slots).try_build_in(&pieces).expect("units of 32 KiB");
    assert!(pool.capacity() >= slots);
    drop(pool);
    assert_eq!(pieces.counting.held().bytes, 0);
}

#[test]
fn a_capacity_is_kept_until_a_trim() {
    // A unit has 63 slots.
    let (slots, taken) = if cfg!(miri) { (7 * 63, 380) } else { (10 * 63, 500) };
    let pool = TypedPool::<[u64; 128]>::with_capacity(slots);
    for _ in 0..if cfg!(miri) { 1 } else { 2 } {
        drop((0..taken).map(|number| pool.alloc([number; 128])).collect::<Vec<_>>());
        assert!(pool.capacity() >= slots, "{:?}", pool.stats());
    }
    pool.trim();
    assert_eq!(pool.capacity(), 0);
}

#[test]
fn try_build_allocates_the_capacity_or_fails() {
    let pool = TypedPool::<Value>::builder().capacity(100).try_build().expect("memory");
    assert!(pool.capacity() >= 100);
    assert!(TypedPool::<Value>::builder().limit(1_000).capacity(100).try_build().is_err());
    let values = [1, 2, 3].map(|number| pool.alloc([number; 4]));
    assert_eq!((pool.stats().slots_live, pool.stats().bytes_live), (3, 3 * 32));
    drop(values);
    assert_eq!(pool.stats().bytes_live, 0);
}

#[test]
fn values_without_units_have_no_capacity() {
    let backing = Counting::new();
    let pool = Builder::<[u8; 40_000]>::new().limit(0).capacity(100).try_build_in(&backing);
    let pool = pool.expect("the capacity needs no memory");
    assert_eq!((pool.capacity(), backing.calls().allocate), (0, 0));
    assert!(pool.allocate().is_err());
}

#[test]
fn a_chunk_has_at_most_64_units() {
    let backing = Counting::new();
    let pool = Builder::<u64>::new().chunk_len(usize::MAX).limit(1 << 30).build_in(&backing);
    drop(pool.alloc(1));
    assert_eq!(pool.stats().units, 64);
    assert!(backing.held().peak <= 64 * (32 << 10));
}

#[test]
fn a_chunk_length_of_zero_means_one_slot() {
    struct Single(u32);
    pooled!(Single, chunk_len = 0);
    let pool = TypedPool::<u32>::with_chunk_len(0);
    let (here, there) = (pool.alloc(1), PooledBox::new(Single(1)));
    assert_eq!((*here, there.0), (1, 1));
    assert_eq!((pool.stats().slots, PooledBox::<Single>::stats().slots), (1, 1));
    // Without a chunk length, units grow.
    struct Grows(u32);
    pooled!(Grows);
    assert_eq!(PooledBox::new(Grows(2)).0, 2);
    assert_eq!(PooledBox::<Grows>::stats().slots, 64);
}

#[test]
fn small_units_of_an_allocator_with_classes_are_short_only_under_a_limit() {
    pooled_allocator! {
        struct Limitable;
    }
    let slots_of_the_first_unit = |size| {
        let layout = Layout::from_size_align(size, 1).expect("a layout");
        let block = Limitable.allocate(layout).expect("room for a block").cast();
        let slots = Limitable.stats().slots;
        // SAFETY: the block was just allocated with this layout.
        unsafe { Limitable.deallocate(block, layout) };
        Limitable.trim();
        slots
    };
    assert!(slots_of_the_first_unit(32) > 900);
    assert_eq!(slots_of_the_first_unit(2_560), 64, "a whole unit has 256 KiB");
    Limitable.set_limit(1 << 20);
    assert_eq!(slots_of_the_first_unit(32), 64);
}
