//! Writes a log: a thread formats lines of unknown length into buffers that grow, and sends the
//! lines to a writer thread. A long-lived line does not stop the ring.
//!
//! Run it with `cargo run --release -p ringal --example log`.

use core::fmt::Write as _;
use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Instant;

use ephemera_testkit::backing::CountingGlobal;
use ringal::{FixedBufMut, RingAl};

#[global_allocator]
static HEAP: CountingGlobal = CountingGlobal::new(1);

const LINES: usize = 20_000;

/// Formats one line. The length of the line depends on `number`.
fn format(line: &mut impl io::Write, number: usize) -> io::Result<()> {
    let words = ["started", "read", "parsed and checked", "answered", "closed the connection"];
    write!(line, "{number} worker-{} {} in {} us", number % 7, words[number % 5], number * number % 100_000)
}

/// Writes all received lines to a sink. Returns the number of written bytes.
fn drain<L: AsRef<[u8]>>(from: &Receiver<L>) -> usize {
    let mut file = io::sink();
    from.iter().map(|line| io::Write::write(&mut file, line.as_ref()).unwrap_or(0)).sum()
}

/// Formats each line into its own vector. Returns the number of written bytes.
fn with_vectors() -> usize {
    let (out, from) = sync_channel::<Vec<u8>>(32);
    let writer = thread::spawn(move || drain(&from));
    for number in 0..LINES {
        let mut line = Vec::new();
        format(&mut line, number).expect("a vector grows");
        out.send(line).expect("the writer runs");
    }
    drop(out);
    writer.join().expect("the writer does not panic")
}

/// Formats all lines into one ring, which also contains a long-lived buffer with a banner. Returns
/// the number of written bytes and the banner.
fn with_a_ring() -> (usize, String) {
    let mut ring = RingAl::new(16 << 10);
    let mut banner = ring.fixed(64).expect("an empty ring has room");
    write!(banner, "log of {LINES} lines").expect("the banner fits");
    let (out, from) = sync_channel::<FixedBufMut>(32);
    let writer = thread::spawn(move || drain(&from));
    for number in 0..LINES {
        let line = loop {
            if let Some(mut line) = ring.extendable(16) {
                if format(&mut line, number).is_ok() {
                    break line.finalize();
                }
            }
            thread::yield_now();
        };
        out.send(line).expect("the writer runs");
    }
    drop(out);
    (writer.join().expect("the writer does not panic"), String::from_utf8_lossy(&banner).into_owned())
}

fn main() {
    let start = Instant::now();
    let (bytes, heap) = HEAP.watch(with_vectors);
    let on_heap = start.elapsed();

    let start = Instant::now();
    let ((same, banner), ring) = HEAP.watch(with_a_ring);
    let on_ring = start.elapsed();

    println!("{banner}: {bytes} bytes");
    println!("vectors: {:6} requests for memory, at most {} bytes, {on_heap:?}", heap.requests, heap.peak);
    println!("ring:    {:6} requests for memory, at most {} bytes, {on_ring:?}", ring.requests, ring.peak);
    println!("The ring saved {} requests for memory, in a fixed 16 KiB.", heap.requests - ring.requests);
    assert_eq!(bytes, same, "both ways write the same lines");
    assert_eq!(banner, format!("log of {LINES} lines"), "the long-lived line is intact");
    assert!(heap.requests > 2 * LINES && ring.requests < heap.requests / 10);
}

#[test]
fn long_lived_line_does_not_stop_the_ring() {
    main();
}
