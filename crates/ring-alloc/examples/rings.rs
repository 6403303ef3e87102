//! A ring for each request: creates a ring, fills it, frees its blocks and drops it, with chunks
//! from pages and with chunks from the global heap. Prints the time of a ring's whole life.
//!
//! `cargo run --release -p ring-alloc --example rings`

use core::alloc::Layout;
use core::hint::black_box;
use core::ptr::NonNull;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use allocator_api2::alloc::Global;
use ring_alloc::{RingAlloc, pages};

/// The number and the size in bytes of the blocks of a ring.
const SHAPES: [(usize, usize); 6] =
    [(1, 64), (100, 64), (2_000, 64), (100, 4_000), (1_000, 16_000), (20, 100_000)];

/// The number of blocks that one measurement allocates, about.
const BLOCKS: usize = if cfg!(test) { 100 } else { 50_000 };

/// The number of measurements, of which the shortest counts.
const TRIES: usize = if cfg!(test) { 1 } else { 7 };

/// Creates and uses rings, and returns the shortest measured time of one ring.
fn life(create: impl Fn() -> RingAlloc, (number, size): (usize, usize)) -> Duration {
    let layout = Layout::from_size_align(size, 8).expect("the size is small");
    let mut blocks: Vec<NonNull<u8>> = Vec::with_capacity(number);
    let rings = (BLOCKS / number).max(1);
    let measure = |_| {
        let start = Instant::now();
        for _ in 0..rings {
            let ring = create();
            blocks.extend((0..number).map(|_| ring.allocate(layout).expect("memory").cast::<u8>()));
            for block in blocks.drain(..) {
                // SAFETY: the block is live and has room for a byte.
                unsafe { block.write(black_box(1)) };
                // SAFETY: the block came from this ring with this layout, and is not used again.
                unsafe { ring.deallocate(block, layout) };
            }
        }
        start.elapsed() / u32::try_from(rings).expect("few rings")
    };
    (0..TRIES).map(measure).min().expect("at least one measurement")
}

fn main() {
    let before = pages::usage().bytes_live;
    let over_pages = |shape| life(RingAlloc::new, shape);
    let over_global = |shape| life(|| RingAlloc::new_in(Global), shape);
    println!("{:>24}{:>14}{:>14}", "blocks of a ring", "global heap", "pages");
    let print = |name: String, [global, pages]: [Duration; 2]| {
        println!("{name:>24}{:>11} ns{:>11} ns", global.as_nanos(), pages.as_nanos());
    };
    for shape in SHAPES {
        print(format!("{} of {} bytes", shape.0, shape.1), [over_global(shape), over_pages(shape)]);
    }
    let slower = |run: fn((usize, usize)) -> Duration| {
        let other = thread::spawn(move || run((100, 64)));
        run((100, 64)).max(other.join().expect("the thread does not panic"))
    };
    print("the second, two threads".to_owned(), [slower(over_global), slower(over_pages)]);
    assert_eq!(pages::usage().bytes_live, before, "a dropped ring leaves no memory in use");
}

#[test]
fn each_ring_frees_its_blocks() {
    main();
}
