//! Passes jobs between threads: one thread makes jobs, and another thread runs and drops them.
//! After a burst, the arena frees the memory of the burst while it serves a steady flow of jobs. It
//! keeps up to 2 MiB of pages, because the flow is faster if the pages rest.
//!
//! Run it with `cargo run --release -p shared_arena --example jobs`.

use core::ops::Deref;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;

use ephemera_testkit::backing::CountingGlobal;
use shared_arena::SharedArena;

#[global_allocator]
static HEAP: CountingGlobal = CountingGlobal::new(1);

const BURST: usize = 80_000;
const STEADY: usize = 400_000;

/// The capacity of the channel between the threads, in jobs, after the burst.
const QUEUE: usize = 32;

struct Job {
    number: usize,
    input: [u8; 56],
}

impl Job {
    fn new(number: usize) -> Self {
        Self { number, input: [number.to_le_bytes()[0]; 56] }
    }

    fn run(&self) -> usize {
        self.number ^ usize::from(self.input[55])
    }
}

/// Makes a burst of jobs that all wait at the same time, then a steady flow of jobs. `make` moves a
/// job into memory and returns a handle to it. Returns a sum over the results of all jobs.
fn work<B: Deref<Target = Job> + Send>(make: impl Fn(Job) -> B) -> usize {
    let burst: Vec<B> = (0..BURST).map(|number| make(Job::new(number))).collect();
    let sum = |jobs: Vec<B>| jobs.iter().map(|job| job.run()).fold(0, usize::wrapping_add);
    thread::scope(|scope| {
        let first = scope.spawn(move || sum(burst)).join().expect("no job panics");
        let (out, from) = sync_channel::<B>(QUEUE);
        let run = move || from.iter().map(|job| job.run()).fold(0, usize::wrapping_add);
        let worker = scope.spawn(run);
        for number in 0..STEADY {
            if out.send(make(Job::new(number))).is_err() {
                break;
            }
        }
        drop(out);
        first.wrapping_add(worker.join().expect("no job panics"))
    })
}

fn main() {
    let start = Instant::now();
    let (sum, heap) = HEAP.watch(|| work(Box::new));
    let on_heap = start.elapsed();

    let arena = SharedArena::new();
    let start = Instant::now();
    let (same, here) = HEAP.watch(|| work(|job| arena.alloc(job)));
    let on_arena = start.elapsed();

    println!("{BURST} jobs at once, then {STEADY} one after the other, of 64 bytes, sum {sum}");
    println!("Box:      {:6} requests for memory, at most {} bytes, {on_heap:?}", heap.requests, heap.peak);
    println!("ArenaBox: {:6} requests for memory, at most {} bytes, {on_arena:?}", here.requests, here.peak);
    let held = arena.statistics().bytes_held;
    println!("The arena saved {} requests for memory.", heap.requests - here.requests);
    println!("It freed the memory of the burst without a call to `trim`, and now holds {held} bytes.");
    assert_eq!(sum, same, "both ways run the same jobs");
    assert!(heap.requests >= BURST + STEADY && here.requests < heap.requests / 10);
    assert!(here.peak >= BURST * size_of::<Job>(), "the arena held the burst");
    // Up to 2 MiB of pages rest before the arena uses them again.
    assert!(held <= 5 << 19, "the arena frees the memory of the burst while it is in use");
}

#[test]
fn steady_flow_after_a_burst_frees_the_memory_of_the_burst() {
    main();
}
