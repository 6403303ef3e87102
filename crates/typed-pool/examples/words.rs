//! An index of words: a map from each word to the lines that contain it. `PooledAllocator` serves
//! the many short lists of lines from its size classes, and the map as a large block.
//!
//! Run it with `cargo run --release -p typed-pool --example words`.

use std::time::Instant;

use allocator_api2::alloc::{Allocator, Global};
use allocator_api2::vec::Vec;
use ephemera_testkit::backing::CountingGlobal;
use hashbrown::{DefaultHashBuilder, HashMap};
use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: CountingGlobal = CountingGlobal::new(1);

const LINES: u32 = 10_000;
const WORDS: u32 = 5_000;

/// The index: for each word, the numbers of the lines that contain it.
type Index<A> = HashMap<u32, Vec<u32, A>, DefaultHashBuilder, A>;

/// Returns the words of a line, as numbers. A few words are common and most are rare.
fn words(line: u32) -> impl Iterator<Item = u32> {
    (0..8).map(move |place| {
        let random = line.wrapping_mul(2_654_435_761).wrapping_add(place * 40_503) >> 7;
        if place < 2 { random % 50 } else { random % WORDS }
    })
}

/// Indexes all lines, and removes each line from the index 2,000 lines later. Returns the number of
/// occurrences that are left at the end, and the bytes that the pool then holds.
fn index<A: Allocator + Copy>(alloc: A) -> (usize, usize) {
    let mut index: Index<A> = HashMap::with_capacity_in(2 * WORDS as usize, alloc);
    for line in 0..LINES {
        for word in words(line) {
            index.entry(word).or_insert_with(|| Vec::new_in(alloc)).push(line);
        }
        let Some(old) = line.checked_sub(2_000) else { continue };
        for word in words(old) {
            let Some(lines) = index.get_mut(&word) else { continue };
            lines.retain(|&line| line != old);
            if lines.is_empty() {
                index.remove(&word);
            }
        }
    }
    (index.values().map(Vec::len).sum(), PooledAllocator.stats().bytes_held)
}

fn main() {
    let start = Instant::now();
    let ((count, _), heap) = HEAP.watch(|| index(Global));
    let on_heap = start.elapsed();

    let start = Instant::now();
    let ((same, held), pool) = HEAP.watch(|| index(PooledAllocator));
    let in_pool = start.elapsed();

    println!("{LINES} lines of 8 words, {count} occurrences left");
    println!(
        "global heap:     {:6} requests for memory, at most {} bytes, {on_heap:?}",
        heap.requests, heap.peak
    );
    println!("PooledAllocator: {:6} requests for memory, {held} bytes held, {in_pool:?}", pool.requests);
    println!("The pool saved {} requests for memory.", heap.requests - pool.requests);
    println!("{} bytes are live at the end.", PooledAllocator.stats().bytes_live);
    assert_eq!(count, same, "both indexes have the same content");
    assert!(heap.requests > 10_000 && pool.requests < heap.requests / 10);
    assert_eq!(PooledAllocator.stats().bytes_live, 0, "the index is dropped");
}

#[test]
fn few_units_serve_all_lists() {
    main();
}
