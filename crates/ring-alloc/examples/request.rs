//! Compares `RingAlloc` with the global heap for the scratch memory of requests. A server parses
//! each request into a table of headers, collects the words of its body, and drops both with the
//! answer.
//!
//! Run it with `cargo run --release -p ring-alloc --example request`.

use std::time::Instant;

use allocator_api2::alloc::{Allocator, Global};
use allocator_api2::vec::Vec;
use ephemera_testkit::backing::CountingGlobal;
use hashbrown::{DefaultHashBuilder, HashMap};
use ring_alloc::RingAlloc;

#[global_allocator]
static HEAP: CountingGlobal = CountingGlobal::new(1);

const REQUESTS: usize = 5_000;

const REQUEST: &str = "\
    POST /orders HTTP/1.1\n\
    host: example.org\n\
    accept: text/plain\n\
    user-agent: example/1.0\n\
    content-type: text/plain\n\
    \n\
    two crates of apples, one of pears, and a note that says when to deliver them";

/// A parsed request. Both collections are in memory from the allocator `A`.
struct Request<'r, A: Allocator> {
    headers: HashMap<&'r str, &'r str, DefaultHashBuilder, A>,
    words: Vec<&'r str, A>,
}

impl<'r, A: Allocator + Clone> Request<'r, A> {
    fn parse(text: &'r str, scratch: A) -> Self {
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut headers = HashMap::new_in(scratch.clone());
        headers.extend(head.lines().filter_map(|line| line.split_once(": ")));
        let mut words = Vec::new_in(scratch);
        words.extend(body.split(' '));
        Self { headers, words }
    }

    /// Writes the answer into memory from `scratch`, and returns the length of the answer in bytes.
    fn answer(&self, scratch: A) -> usize {
        let mut answer = Vec::new_in(scratch);
        answer.extend_from_slice(self.headers.get("host").copied().unwrap_or("unknown").as_bytes());
        self.words.iter().rev().for_each(|word| answer.extend_from_slice(word.as_bytes()));
        answer.len()
    }
}

/// Serves all requests and returns the number of bytes in all answers.
fn serve<A: Allocator + Clone>(scratch: &A) -> usize {
    (0..REQUESTS).map(|_| Request::parse(REQUEST, scratch.clone()).answer(scratch.clone())).sum()
}

fn main() {
    let start = Instant::now();
    let (sent, heap) = HEAP.watch(|| serve(&Global));
    let on_heap = start.elapsed();

    let start = Instant::now();
    // A ring over the global heap, so that `HEAP` counts its chunks too. `RingAlloc::new` would
    // take them from the operating system.
    let ((same, held), ring) = HEAP.watch(|| {
        let ring = RingAlloc::new_in(Global);
        (serve(&ring), ring.stats().bytes_held)
    });
    let on_ring = start.elapsed();

    println!("{REQUESTS} requests, {sent} bytes sent");
    println!(
        "global heap: {:6} requests for memory, at most {} bytes, {on_heap:?}",
        heap.requests, heap.peak
    );
    println!(
        "RingAlloc:   {:6} requests for memory, at most {} bytes, {on_ring:?}",
        ring.requests, ring.peak
    );
    println!(
        "The ring saved {} requests for memory. It used {held} bytes again and again.",
        heap.requests - ring.requests
    );
    assert_eq!(sent, same, "both allocators serve the same program");
    assert!(heap.requests >= 5 * REQUESTS && ring.requests < 10, "the ring allocates its chunks once");
}

#[test]
fn the_ring_serves_all_requests_from_its_chunks() {
    main();
}
