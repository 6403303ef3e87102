//! What the tests record: a program that does one thing with its allocator, and ends in one way.
//!
//! Blocks of 7,777 bytes are the ones that count; nothing else in a program has that size.

#![expect(clippy::std_instead_of_alloc, reason = "a program that always has std")]

use core::hint::black_box;
use core::ptr::{null, null_mut};
use std::ffi::CString;
use std::sync::mpsc::channel;
use std::thread;

/// The size that is counted.
const SIZE: usize = 7777;

fn block() -> Vec<u8> {
    black_box(Vec::with_capacity(SIZE))
}

/// `count` blocks, each freed at once.
fn churn(count: usize) {
    (0..count).for_each(|_| drop(block()));
}

/// Four threads churn; a fifth frees what the first makes.
fn threads() {
    let (send, receive) = channel();
    let consumer =
        thread::spawn(move || receive.iter().map(|block: Vec<u8>| block.capacity()).sum::<usize>());
    let workers: Vec<_> = (0..4).map(|_| thread::spawn(|| churn(1000))).collect();
    for _ in 0..500 {
        send.send(block()).expect("the consumer waits");
    }
    drop(send);
    assert_eq!(consumer.join().expect("it adds"), 500 * SIZE);
    workers.into_iter().for_each(|worker| worker.join().expect("it churns"));
}

/// Many threads, one after another: their streams are used again.
fn one_by_one() {
    for _ in 0..300 {
        thread::spawn(|| churn(1)).join().expect("it churns");
    }
}

/// A child that frees what its parent made, makes its own, and leaves without any clean-up.
fn fork() {
    let inherited = block();
    churn(10);
    // SAFETY: there is one thread, so the child may do anything.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(inherited);
        churn(20);
        // SAFETY: nothing is left to be done.
        unsafe { libc::_exit(0) }
    }
    churn(30);
    let mut status = 0;
    // SAFETY: the place is valid.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(status, 0, "the child ended well");
    drop(inherited);
}

/// Another program in the same process.
fn exec() {
    churn(40);
    let program = std::env::current_exe().expect("the system tells");
    let words = [program.to_string_lossy().into_owned(), "churn".to_owned()];
    let words = words.map(|word| CString::new(word).expect("no zero within"));
    let argv = [words[0].as_ptr(), words[1].as_ptr(), null()];
    // SAFETY: the vector ends with a null, its strings with zeros.
    unsafe { libc::execv(argv[0], argv.as_ptr()) };
    panic!("the program is there");
}

/// Every descriptor but the first three is closed, and the numbers are used again.
fn close() {
    churn(50);
    (3..200).for_each(|fd| {
        // SAFETY: the program uses none of them.
        unsafe { libc::close(fd) };
    });
    let own = std::fs::File::open("/dev/null").expect("it is there");
    churn(50_000);
    assert_eq!(own.metadata().expect("it is open").len(), 0);
}

/// The whole family of functions, checked for what they promise.
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "one argument holds for all of them")]
fn family() {
    // SAFETY: every block is freed once, is used within its size, and arguments are valid.
    unsafe {
        let zeroed = libc::calloc(1, SIZE).cast::<u8>();
        assert!((0..SIZE).all(|at| *zeroed.add(at) == 0));
        zeroed.write(7);
        let grown = libc::realloc(zeroed.cast(), 5 * SIZE).cast::<u8>();
        assert_eq!(*grown, 7);
        assert!(libc::realloc(grown.cast(), usize::MAX / 2).is_null());
        libc::free(grown.cast());
        libc::free(null_mut());
        let mut place = null_mut();
        assert_eq!(libc::posix_memalign(&raw mut place, 4096, SIZE), 0);
        assert_eq!(place.addr() % 4096, 0);
        libc::free(place);
        assert_eq!(libc::posix_memalign(&raw mut place, 3, SIZE), libc::EINVAL);
        let aligned = libc::aligned_alloc(256, SIZE);
        assert_eq!(aligned.addr() % 256, 0);
        libc::free(aligned);
        let aligned = libc::memalign(64, SIZE);
        assert_eq!(aligned.addr() % 64, 0);
        libc::free(aligned);
        assert!(libc::calloc(usize::MAX / 2, 3).is_null());
        *libc::__errno_location() = 4242;
        libc::free(libc::malloc(SIZE));
        assert_eq!(*libc::__errno_location(), 4242, "the program's error number is its own");
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("churn") => churn(60),
        Some("threads") => threads(),
        Some("one-by-one") => one_by_one(),
        Some("fork") => fork(),
        Some("exec") => exec(),
        Some("close") => close(),
        Some("family") => family(),
        Some("abort") => {
            churn(70);
            std::process::abort();
        }
        Some("endless") => loop {
            churn(1000);
        },
        Some("many") => churn(200_000),
        other => panic!("what is {other:?}?"),
    }
}
