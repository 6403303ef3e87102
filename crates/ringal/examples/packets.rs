//! Passes packets through a service: a receiver fills buffers, reads the headers, and sends the
//! bodies to a worker thread. The header and body are two views of one buffer.
//!
//! Run it with `cargo run --release -p ringal --example packets`.

use std::io::Write;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;

use ephemera_testkit::backing::CountingGlobal;
use ringal::{FixedBuf, RingAl};

#[global_allocator]
static HEAP: CountingGlobal = CountingGlobal::new(1);

const PACKETS: usize = 20_000;
const HEADER: usize = 8;

/// The maximum number of bodies that wait for the worker at the same time.
const QUEUE: usize = 16;

/// Returns the size of packet `number`: 200 to 1,399 bytes.
fn size(number: usize) -> usize {
    200 + number * 7919 % 1200
}

/// Receives each packet into its own vector. Returns the total size of the bodies in bytes.
fn with_vectors() -> usize {
    let (out, from) = sync_channel::<Vec<u8>>(QUEUE);
    let worker = thread::spawn(move || from.iter().map(|body| body.len()).sum());
    for number in 0..PACKETS {
        let mut packet = Vec::with_capacity(size(number));
        packet.extend_from_slice(&(number as u64).to_le_bytes());
        packet.resize(size(number), 7);
        // The worker needs a vector of its own, so this thread copies the body.
        out.send(packet[HEADER..].to_vec()).expect("the worker runs");
    }
    drop(out);
    worker.join().expect("the worker does not panic")
}

/// Receives packets into one ring. Returns the total size of the bodies in bytes, the number of
/// refused requests, and the ring's high-water mark in bytes.
fn with_a_ring() -> (usize, usize, usize) {
    let mut ring = RingAl::new(64 << 10);
    let (out, from) = sync_channel::<FixedBuf>(QUEUE);
    let worker = thread::spawn(move || from.iter().map(|body| body.len()).sum());
    let mut refused = 0;
    for number in 0..PACKETS {
        let mut packet = loop {
            match ring.fixed(size(number)) {
                Some(buffer) => break buffer,
                // The queue bounds the number of live buffers, so a full ring soon has room again.
                None => refused += 1,
            }
            thread::yield_now();
        };
        packet.write_all(&(number as u64).to_le_bytes()).expect("the header fits");
        while packet.spare() > 0 {
            packet.append(&[7; 256]);
        }
        let packet = packet.freeze();
        assert_eq!(packet[..HEADER], (number as u64).to_le_bytes());
        out.send(packet.slice(HEADER..)).expect("the worker runs");
    }
    let high_water = ring.stats().high_water;
    drop(out);
    (worker.join().expect("the worker does not panic"), refused, high_water)
}

fn main() {
    let start = Instant::now();
    let (bytes, heap) = HEAP.watch(with_vectors);
    let on_heap = start.elapsed();

    let start = Instant::now();
    let ((same, refused, high_water), ring) = HEAP.watch(with_a_ring);
    let on_ring = start.elapsed();

    println!("{PACKETS} packets, {bytes} bytes of bodies");
    println!("vectors: {:6} requests for memory, at most {} bytes, {on_heap:?}", heap.requests, heap.peak);
    println!("ring:    {:6} requests for memory, at most {} bytes, {on_ring:?}", ring.requests, ring.peak);
    println!("The ring saved {} requests and the copies.", heap.requests - ring.requests);
    println!("The ring was full {refused} times, and {high_water} of its bytes were used.");
    assert_eq!(bytes, same, "both ways pass the same bodies");
    assert!(heap.requests >= 2 * PACKETS && ring.requests < heap.requests / 10);
}

#[test]
fn the_ring_serves_all_packets_from_one_store() {
    main();
}
