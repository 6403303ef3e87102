//! A program that takes all of its memory from `PooledAllocator`. One line makes this allocator the
//! global one. At its end, the program prints how much memory it holds.
//!
//! Run it with `cargo run --release -p typed-pool --example global`.

extern crate alloc;

use alloc::collections::BTreeMap;
use std::thread;

use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

fn count(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    counts
}

fn main() {
    let text = "one line makes a pool the heap of a whole program and a program has one heap ".repeat(20_000);
    let pieces: Vec<String> =
        text.as_bytes().chunks(78 * 1_000).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
    let threads: Vec<_> = pieces.into_iter().map(|piece| thread::spawn(move || count(&piece))).collect();
    let mut total = BTreeMap::<String, usize>::new();
    for thread in threads {
        for (word, times) in thread.join().expect("no thread panics") {
            *total.entry(word).or_default() += times;
        }
    }
    println!("{total:?}");
    drop((text, total));
    let stats = HEAP.stats();
    println!("{} KiB in units and larger blocks, {} slots live", stats.bytes_held >> 10, stats.slots_live);
}

#[test]
fn the_program_runs_over_the_pooled_heap() {
    main();
}
