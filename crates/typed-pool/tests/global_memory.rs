//! Tests of the resident memory of a program whose global allocator is `PooledAllocator`. No test
//! trims between a burst and its check.
#![cfg(all(feature = "std", target_os = "linux", target_pointer_width = "64", not(miri)))]
// The sanitizer's shadow memory stays resident.
#![cfg(not(ephemera_poison = "asan"))]

use std::sync::Mutex;
use std::thread;

use ephemera_prim::pages;
use ephemera_testkit::bursts::resident;
use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// A lock that each test of this file holds, so that the tests run one at a time.
static TURN: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;

/// Two parts of the bound, in bytes: the memory that a class may keep after several bursts, and
/// the other memory of the program.
const KEPT: usize = 4 * MIB;
const SLACK: usize = 4 * MIB;

#[test]
fn resident_memory_returns_while_a_burst_of_256_mib_is_freed() {
    let _turn = TURN.lock();
    pages::purge();
    let mut first = true;
    for (size, bursts) in [(256, 2), (3_000, 2), (100_000, 1), (3 * MIB, 1)] {
        let before = resident();
        for burst in 0..bursts {
            let count = 256 * MIB / size;
            let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(count);
            blocks.extend((0..count).map(|_| vec![1_u8; size]));
            assert!(resident() > before + 200 * MIB);
            drop(blocks);
            let after = resident();
            // Every later burst needs pages that were purged after an earlier one, so the bound on
            // the cached bytes may have risen.
            let learned = if first { 0 } else { pages::CACHE_LEARNED };
            first = false;
            let bound = before + pages::CACHE + learned + KEPT + SLACK;
            assert!(after < bound, "burst {burst} of {size}: {before}, then {after}");
        }
    }
}

#[test]
fn resident_memory_returns_if_another_thread_frees_the_burst() {
    let _turn = TURN.lock();
    // This call also resets the bound on the cached bytes, which another test may have raised.
    pages::purge();
    let before = resident();
    let blocks: Vec<_> = (0..100 * MIB / 64).map(|number| Box::new([number as u64; 8])).collect();
    thread::spawn(move || drop(blocks)).join().expect("no panic");
    // The owner books the frees at one of 64 visits to its slow path, or when it needs a unit.
    let some: Vec<_> = (0..5_000).map(|number| Box::new([number as u64; 8])).collect();
    let after = resident();
    assert!(after < before + pages::CACHE + KEPT + SLACK, "{before}, then {after}");
    drop(some);
}

#[test]
fn memory_freed_by_another_thread_returns_while_its_owner_allocates_only_large_blocks() {
    let _turn = TURN.lock();
    let before = pages::usage().bytes_live;
    let blocks: Vec<_> = (0..100 * MIB / 64).map(|number| Box::new([number as u64; 8])).collect();
    thread::spawn(move || drop(blocks)).join().expect("no panic");
    for size in (0..200).map(|number| 100_000 + number) {
        assert_eq!(vec![1_u8; size].len(), size);
    }
    let after = pages::usage().bytes_live;
    assert!(after < before + KEPT + SLACK, "{before}, then {after}");
}

#[test]
fn resident_memory_returns_when_threads_end() {
    let _turn = TURN.lock();
    pages::purge();
    let work = || {
        let words: Vec<String> = (0..200_000).map(|number| number.to_string().repeat(3)).collect();
        assert!(words.iter().all(|word| !word.is_empty()));
    };
    // Do not count the cache, because the tests that ran before this one determine how many pages
    // the cache contains.
    let beside_the_cache = || {
        let cached = pages::usage().bytes_cached;
        assert!(cached <= 16 * MIB, "{cached}");
        resident() - cached
    };
    thread::spawn(work).join().expect("no panic");
    let before = beside_the_cache();
    for _ in 0..20 {
        thread::spawn(work).join().expect("no panic");
    }
    let after = beside_the_cache();
    assert!(after < before + SLACK, "{before}, then {after}");
}

#[test]
fn a_block_that_grows_by_small_steps_moves_seldom() {
    let _turn = TURN.lock();
    let mut bytes: Vec<u8> = Vec::new();
    let (mut moves, mut at) = (0, bytes.as_ptr());
    while bytes.len() < 40 * MIB {
        bytes.reserve_exact(4_096);
        bytes.resize(bytes.len() + 4_096, 7);
        moves += usize::from(at != bytes.as_ptr());
        at = bytes.as_ptr();
    }
    // Each doubling has four classes up to 32 KiB, then one span length up to 1 MiB, then eight
    // lengths of mappings.
    assert!(moves < 12 + 6 + 6 * 8, "{moves}");
}
