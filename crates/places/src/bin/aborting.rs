//! A program with `panic = "abort"` whose heap is `PooledAllocator`. One of its threads panics.

use core::cell::RefCell;
use std::thread;

use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// The content of a thread-local. Its destructor prints a line when the thread ends.
struct Farewell(Vec<String>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.push("late".to_owned());
        println!("{} strings at the end of a thread", self.0.len());
    }
}

thread_local! {
    static LATE: RefCell<Farewell> = const { RefCell::new(Farewell(Vec::new())) };
}

fn main() {
    if !cfg!(panic = "abort") {
        println!("this build unwinds");
        return;
    }
    let ended = thread::spawn(|| LATE.with(|late| late.borrow_mut().0.push("early".to_owned()))).join();
    println!("joined: {}", ended.is_ok());
    let words: Vec<_> = (0..3_000).map(|word| format!("word {word}")).collect();
    let joined = thread::spawn(move || panic!("{}", words.join(", "))).join();
    println!("a thread survived its panic: {joined:?}");
}
