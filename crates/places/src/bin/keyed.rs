//! A program in which the standard library does not find `__cxa_thread_atexit_impl`, as with a C
//! library that lacks this function. The standard library then keeps its own list of destructors.
//! On x86-64 Linux, `build.rs` hides the function from this program.

use core::cell::RefCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// The number of destructors that found the right words and then allocated new words.
static RIGHT: AtomicUsize = AtomicUsize::new(0);

/// The content of a thread-local. Its destructor frees the words and allocates new words.
struct Diary(Vec<String>);

impl Drop for Diary {
    fn drop(&mut self) {
        let kept = self.0.iter().all(|word| word.starts_with("page"));
        self.0 = (0..100).map(|word| format!("page {word}").repeat(word)).collect();
        RIGHT.fetch_add(usize::from(kept && self.0[99].len() == 700 - 7), Ordering::Relaxed);
    }
}

thread_local! {
    static FIRST: RefCell<Diary> = const { RefCell::new(Diary(Vec::new())) };
    static SECOND: RefCell<Diary> = RefCell::new(Diary(vec!["page".repeat(700)]));
}

#[cfg(keyed)]
unsafe extern "C" {
    /// The C library's function, whose address is null in this program.
    fn __cxa_thread_atexit_impl();
}

fn main() {
    #[cfg(keyed)]
    println!("hidden: {}", core::hint::black_box(__cxa_thread_atexit_impl as *const ()).is_null());
    for _ in 0..50 {
        let threads = [(); 3].map(|()| {
            thread::spawn(|| {
                // This thread registers its first destructor before its first allocation.
                FIRST.with(|diary| _ = diary.borrow());
                FIRST.with(|diary| diary.borrow_mut().0.extend((0..50).map(|word| format!("page {word}"))));
                SECOND.with(|diary| diary.borrow_mut().0.push("page".to_owned()));
            })
        });
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
    println!("right: {}", RIGHT.load(Ordering::Relaxed));
}
