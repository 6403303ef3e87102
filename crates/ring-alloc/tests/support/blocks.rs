//! Helpers for tests with threads: blocks that contain their number, and a guard that checks that
//! the test frees all of its memory.

use std::thread::{self, JoinHandle};

use allocator_api2::vec::Vec;
use ephemera_testkit::suite::take_turn;
use ring_alloc::OneRingAlloc;

/// A block whose bytes contain its number.
pub(crate) type Bytes = Vec<u8, OneRingAlloc>;

/// Block sizes of every class, in bytes.
pub(crate) const SIZES: [usize; 6] = [1, 40, 700, 3_000, 20_000, 100_000];

/// A guard that serialises the tests. Unless the test panics, its drop checks that `OneRingAlloc`
/// holds as many bytes as at the start, and that no block is live.
pub(crate) struct Balanced {
    pub(crate) before: usize,
}

impl Balanced {
    pub(crate) fn new() -> Self {
        take_turn();
        Self { before: clean() }
    }
}

impl Drop for Balanced {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_eq!(clean(), self.before);
            let stats = OneRingAlloc.stats();
            assert_eq!((stats.blocks_live(), stats.bytes_live(), stats.unread_heaps), (0, 0, 0));
        }
    }
}

/// Trims this thread and the chunks of exited threads, asks all other threads to trim, and returns
/// the number of bytes held.
fn clean() -> usize {
    OneRingAlloc.clean_local();
    OneRingAlloc.clean_global();
    OneRingAlloc.stats().bytes_held
}

pub(crate) fn filled(number: usize, size: usize) -> Bytes {
    let mut bytes = Vec::with_capacity_in(size, OneRingAlloc);
    // Under Miri, write only a few bytes, because Miri tracks initialisation byte by byte.
    bytes.resize(if cfg!(miri) { size.min(40) } else { size }, number as u8);
    bytes
}

pub(crate) fn check(number: usize, bytes: &Bytes) {
    assert!(bytes.iter().all(|&byte| byte == number as u8), "block {number} has other bytes");
}

pub(crate) fn some(count: usize) -> alloc::vec::Vec<Bytes> {
    (0..count).map(|number| filled(number, SIZES[number % SIZES.len()])).collect()
}

pub(crate) fn check_all(blocks: &[Bytes]) {
    blocks.iter().enumerate().for_each(|(number, bytes)| check(number, bytes));
}

pub(crate) fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("the thread does not panic")
}
