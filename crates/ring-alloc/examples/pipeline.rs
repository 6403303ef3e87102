//! Compares `OneRingAlloc` with the global heap. One thread builds messages, and another thread
//! reads and frees them. The program does not need to pass a handle of `OneRingAlloc` around, and
//! most remote frees take one atomic addition.
//!
//! Run it with `cargo run --release -p ring-alloc --example pipeline`.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use allocator_api2::alloc::{Allocator, Global};
use allocator_api2::vec::Vec;
use ephemera_testkit::backing::CountingGlobal;
use ring_alloc::OneRingAlloc;

#[global_allocator]
static HEAP: CountingGlobal = CountingGlobal::new(1);

const MESSAGES: usize = 40_000;

/// The largest number of messages in the channel at one time.
const QUEUE: usize = 64;

type Message<A> = Vec<u8, A>;

/// Sends all messages, which have 100 to 355 bytes each. Stops early if the receiver was dropped.
fn produce<A: Allocator + Copy>(out: &SyncSender<Message<A>>, alloc: A) {
    for number in 0..MESSAGES {
        let mut message = Vec::with_capacity_in(100 + number % 256, alloc);
        message.resize(100 + number % 256, number.to_le_bytes()[0]);
        if out.send(message).is_err() {
            return;
        }
    }
}

/// Receives all messages, frees them, and returns the sum of their bytes.
fn consume<A: Allocator>(from: &Receiver<Message<A>>) -> u64 {
    from.iter().map(|message| message.iter().map(|&byte| u64::from(byte)).sum::<u64>()).sum()
}

/// Runs both threads and returns the sum of all bytes.
fn run<A: Allocator + Copy + Send>(alloc: A) -> u64 {
    let (out, from) = sync_channel(QUEUE);
    thread::scope(|scope| {
        let consumer = scope.spawn(move || consume(&from));
        produce(&out, alloc);
        drop(out);
        consumer.join().expect("the consumer does not panic")
    })
}

fn main() {
    let start = Instant::now();
    let (sum, heap) = HEAP.watch(|| run(Global));
    let on_heap = start.elapsed();

    let start = Instant::now();
    let (same, ring) = HEAP.watch(|| run(OneRingAlloc));
    let on_ring = start.elapsed();

    println!("{MESSAGES} messages of 100 to 355 bytes, sum {sum}");
    println!(
        "global heap:  {:6} requests for memory, at most {} bytes, {on_heap:?}",
        heap.requests, heap.peak
    );
    let stats = OneRingAlloc.stats();
    println!(
        "OneRingAlloc: {:6} requests for memory from the heap, and {} bytes in chunks, {on_ring:?}",
        ring.requests, stats.bytes_held
    );
    println!(
        "The ring saved {} requests for memory. {} bytes were live at the end.",
        heap.requests - ring.requests,
        stats.bytes_live
    );
    assert_eq!(sum, same, "both allocators serve the same program");
    assert!(heap.requests >= MESSAGES, "the heap serves each message");
    assert!(ring.requests < heap.requests / 10, "the ring serves each message");
    // Up to 2 MiB of chunks rest before the producer uses them again.
    assert!(stats.bytes_held < 3 << 20, "remote frees return the chunks while the producer runs");
    assert_eq!(OneRingAlloc.stats().blocks_live, 0);
}

#[test]
fn chunks_return_to_the_producer_while_it_runs() {
    main();
}
