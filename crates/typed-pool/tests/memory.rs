//! Tests of the memory that pools hold under several loads, such as spikes, long-lived values and
//! random replacement. The tests take turns, because the system reports resident memory for the
//! whole process.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/threads.rs"]
mod support;

use alloc::vec::Vec;
use std::sync::mpsc::sync_channel;
use std::thread;

use allocator_api2::alloc::Allocator;
use ephemera_testkit::suite::take_turn;
use support::{here_or_miri, joined};
use typed_pool::{PooledBox, pooled, pooled_allocator};

/// Returns the resident bytes of the process, if the system reports them and no sanitizer keeps
/// freed memory.
fn resident() -> Option<usize> {
    if cfg!(any(not(target_os = "linux"), miri, ephemera_poison = "asan")) {
        return None;
    }
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    pages.split_whitespace().nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

#[test]
fn a_producer_and_a_consumer_hold_bounded_memory() {
    /// The number of batches of 100 values.
    const BATCHES: u64 = if cfg!(miri) { 20 } else { 30_000 };

    take_turn();
    struct Value([u64; 4]);
    pooled!(Value);
    let (to, from) = sync_channel::<Vec<PooledBox<Value>>>(4);
    let before = resident();
    let maker = thread::spawn(move || {
        for batch in 0..BATCHES {
            let values = (0..100).map(|number| PooledBox::new(Value([batch, number, 1, 2]))).collect();
            to.send(values).expect("the other thread receives");
        }
    });
    let mut dropped = 0_u64;
    for (batch, values) in from.iter().enumerate() {
        assert!(values.iter().all(|value| value.0[0] == batch as u64));
        dropped += values.len() as u64;
        if batch % 1_000 == 0 {
            let stats = PooledBox::<Value>::stats();
            // Up to 2 MiB of units rest, because another thread empties them.
            assert!(stats.bytes_held < 3 << 20, "{stats:?}");
        }
    }
    joined(maker);
    assert_eq!(dropped, 100 * BATCHES);
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!(after.saturating_sub(before) < 8 << 20, "grew from {before} to {after}");
    }
    PooledBox::<Value>::trim_all();
    assert_eq!(PooledBox::<Value>::stats().bytes_held, 0);
}

#[test]
fn the_memory_of_a_spike_is_freed() {
    take_turn();
    pooled_allocator! {
        struct Nodes;
    }
    let spike: Vec<_> = (0..here_or_miri(200_000, 300))
        .map(|number| allocator_api2::boxed::Box::new_in([number; 4], Nodes))
        .collect();
    let peak = Nodes.stats();
    assert_eq!(peak.slots_live, spike.len());
    assert!(peak.bytes_held < spike.len() * 34 + (40 << 10), "{peak:?}");
    drop(spike);
    let rest = Nodes.stats();
    assert!(rest.slots_live == 0 && rest.bytes_held < 192 << 10, "{rest:?}");
    Nodes.trim();
    assert_eq!(Nodes.stats().bytes_held, 0);
}

#[test]
fn long_lived_values_keep_only_their_units() {
    take_turn();
    struct Value([usize; 4]);
    pooled!(Value, chunk_len = 64);
    let mut all: Vec<_> =
        (0..here_or_miri(6_400, 640)).map(|number| PooledBox::new(Value([number; 4]))).collect();
    // One value in a thousand stays, or one in a hundred under Miri.
    let mut number = 0;
    all.retain(|_| {
        number += 1;
        number % here_or_miri(1_000, 100) == 0
    });
    let stats = PooledBox::<Value>::stats();
    assert_eq!(stats.slots_live, 6);
    assert!(stats.units <= 6 + 4 + 1, "{stats:?}");
    // Later values fill the slots around the values that stay.
    let units = stats.units;
    let more: Vec<_> = (0..here_or_miri(600, 400)).map(|number| PooledBox::new(Value([number; 4]))).collect();
    assert_eq!(PooledBox::<Value>::stats().units, units);
    assert!(more.iter().enumerate().all(|(number, value)| value.0[3] == number));
}

/// A large pool touches only the memory that it uses, and the page with each unit's header. The
/// pool of this test has room for a million values and allocates a few.
#[test]
#[cfg_attr(miri, ignore = "Miri does not report resident memory")]
fn unused_capacity_is_hardly_touched() {
    use core::alloc::Layout;

    take_turn();
    let before = resident();
    let pool = typed_pool::TypedPool::<[u64; 4]>::with_capacity(1_000_000);
    let values: Vec<_> = (0..100).map(|number| pool.alloc([number; 4])).collect();
    let after = resident();
    let stats = pool.stats();
    assert!(stats.bytes_held > 32_000_000);
    // The test measures how many bytes untouched blocks of the same size make resident: few, except
    // under a sanitizer, which marks them.
    let layout = Layout::from_size_align(stats.bytes_held / stats.units, 32 << 10).expect("a unit's layout");
    let global = allocator_api2::alloc::Global;
    let blocks: Vec<_> = (0..stats.units).map(|_| global.allocate(layout).expect("memory")).collect();
    let own = resident();
    for block in blocks {
        // SAFETY: the block was just allocated with this layout.
        unsafe { global.deallocate(block.cast(), layout) };
    }
    if let (Some(before), Some(after), Some(own)) = (before, after, own) {
        let (grown, own) = (after.saturating_sub(before), own.saturating_sub(after));
        let most = own + stats.bytes_held / 2;
        assert!(grown < most, "grew by {grown}, of which the heap accounts for {own}: {stats:?}");
    }
    drop(values);
}

/// Random replacement frees as many values as it allocates, so the pool holds little more than the
/// live values.
#[test]
#[cfg_attr(miri, ignore = "too slow: it makes 400,000 replacements")]
fn random_replacement_holds_bounded_memory() {
    take_turn();
    struct Value([u64; 4]);
    pooled!(Value);
    let mut rng = ephemera_testkit::SplitMix::new(5);
    let mut all: Vec<_> = (0..20_000).map(|number| PooledBox::new(Value([number; 4]))).collect();
    let before = PooledBox::<Value>::stats().bytes_held;
    for number in 0..400_000_u64 {
        let index = rng.below(all.len());
        all[index] = PooledBox::new(Value([number; 4]));
    }
    let after = PooledBox::<Value>::stats();
    assert!(after.bytes_held < before + before / 4, "{before} bytes became {after:?}");
    assert_eq!(after.slots_live, 20_000);
    assert!(all.iter().all(|value| value.0[0] == value.0[3]));
}

#[test]
fn empty_units_make_room_for_a_large_block() {
    use core::alloc::Layout;

    use typed_pool::{PooledBox, pooled, pooled_allocator};

    pooled_allocator! { struct Own; }
    let layout = Layout::new::<[u64; 4]>();
    let count = if cfg!(miri) { 800 } else { 20_000 };
    let blocks: Vec<_> = (0..count).map(|_| Own.allocate(layout).unwrap()).collect();
    for block in blocks {
        // SAFETY: the block came from this allocator with this layout.
        unsafe { Own.deallocate(block.cast(), layout) };
    }
    let held = Own.stats().bytes_held;
    assert!(held > 20_000, "empty units are kept: {held}");
    Own.set_limit(held + 1_000);
    let large = Layout::array::<u8>(20_000).unwrap();
    let block = Own.allocate(large).expect("the empty units are freed first");
    // SAFETY: the block came from this allocator with this layout.
    unsafe { Own.deallocate(block.cast(), large) };

    struct Large(#[expect(dead_code, reason = "its size is what matters")] [u8; 40_000]);
    pooled!(Large);
    drop(PooledBox::new(Large([0; 40_000])));
    assert_eq!(PooledBox::<Large>::stats().bytes_held, 0);
}
