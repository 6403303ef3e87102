//! The program that the tests record. The argument selects how the program uses its allocator and
//! how it ends.
//!
//! The tests count only blocks of 7,777 bytes. Nothing else in the program has that size.

#![expect(clippy::std_instead_of_alloc, reason = "a program that always has std")]

use core::ffi::c_void;
use core::hint::black_box;
use core::ptr::{null, null_mut};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::ffi::CString;
use std::sync::mpsc::channel;
use std::thread;

mod hostile;

/// The size of the blocks that the tests count, in bytes.
const SIZE: usize = 7777;

fn block() -> Vec<u8> {
    black_box(Vec::with_capacity(SIZE))
}

/// Allocates `count` blocks, and frees each block before it allocates the next.
fn churn(count: usize) {
    (0..count).for_each(|_| drop(block()));
}

/// Four threads allocate and free. A fifth thread frees blocks of the main thread.
fn threads() {
    let (send, receive) = channel();
    let consumer =
        thread::spawn(move || receive.iter().map(|block: Vec<u8>| block.capacity()).sum::<usize>());
    let workers: Vec<_> = (0..4).map(|_| thread::spawn(|| churn(1000))).collect();
    for _ in 0..500 {
        send.send(block()).expect("the consumer waits");
    }
    drop(send);
    assert_eq!(consumer.join().expect("no panic"), 500 * SIZE);
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
}

/// Runs many threads one after another, which reuse each other's streams.
fn one_by_one() {
    for _ in 0..300 {
        thread::spawn(|| churn(20)).join().expect("no panic");
    }
}

/// Runs more threads than there are streams. Each thread also calls the allocator in its last
/// destructor.
fn late() {
    static KEY: AtomicU32 = AtomicU32::new(0);
    /// Calls the allocator and sets the key's value again, until the C library stops calling
    /// destructors.
    unsafe extern "C" fn again(value: *mut c_void) {
        churn(1);
        // SAFETY: the key exists as long as the program.
        unsafe { libc::pthread_setspecific(KEY.load(Relaxed), value) };
    }
    let mut key = 0;
    // SAFETY: the pointer is valid for writes.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(again)) }, 0);
    KEY.store(key, Relaxed);
    for _ in 0..5000 {
        let body = || {
            churn(20);
            // SAFETY: the key exists as long as the program, and the value is never dereferenced.
            unsafe { libc::pthread_setspecific(KEY.load(Relaxed), KEY.as_ptr().cast()) };
        };
        thread::spawn(body).join().expect("no panic");
    }
}

/// Runs detached threads that do not call the allocator themselves. The C library caches some
/// stacks. If the cache is full, an ending thread frees the memory of a cached stack, after its own
/// last destructor.
fn detached() {
    const AT_ONCE: u32 = 40;
    static HERE: AtomicU32 = AtomicU32::new(0);
    static LEAVE: AtomicU32 = AtomicU32::new(0);
    extern "C" fn body(round: *mut c_void) -> *mut c_void {
        HERE.fetch_add(1, SeqCst);
        while (LEAVE.load(SeqCst) as usize) < round.addr() {
            thread::yield_now();
        }
        null_mut()
    }
    for round in 1..=150_u32 {
        for _ in 0..AT_ONCE {
            let mut thread = 0;
            let value = core::ptr::without_provenance_mut(round as usize);
            // SAFETY: the pointer is valid for writes, and the body takes a number.
            assert_eq!(unsafe { libc::pthread_create(&raw mut thread, null(), body, value) }, 0);
            // SAFETY: the thread exists, and no other thread joins it.
            assert_eq!(unsafe { libc::pthread_detach(thread) }, 0);
        }
        while HERE.load(SeqCst) < round * AT_ONCE {
            thread::yield_now();
        }
        LEAVE.store(round, SeqCst);
    }
    churn(10);
}

/// Sets the maximum size in bytes of a file that this process may write.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the pointer refers to a structure of the right type.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
}

/// Renames the trace, so its path no longer leads to it. A change of the root directory has the
/// same effect.
fn renamed() {
    churn(10);
    let path = std::env::var("EPHEMERA_TRACE").expect("the test sets this variable");
    let own = format!("{path}.{}", std::process::id());
    std::fs::rename(&own, format!("{path}.renamed")).expect("the trace exists");
    churn(100_000);
}

/// Forks. The child frees a block of its parent, and allocates its own. With `exits`, it then calls
/// `exit`. Otherwise, it ends without any clean-up.
fn fork(exits: bool) {
    let inherited = block();
    churn(10);
    // SAFETY: there is one thread, so the child may do anything.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(inherited);
        churn(20);
        if exits {
            std::process::exit(0);
        }
        // SAFETY: the call takes no pointer, and the child has no work left.
        unsafe { libc::_exit(0) }
    }
    churn(30);
    let mut status = 0;
    // SAFETY: the pointer is valid for writes.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(status, 0, "the child ended well");
    drop(inherited);
}

/// Replaces the process image with a new run of this program.
fn exec() {
    churn(40);
    let program = std::env::current_exe().expect("this program has a path");
    let words = [program.to_string_lossy().into_owned(), "churn".to_owned()];
    let words = words.map(|word| CString::new(word).expect("the text contains no zero byte"));
    let argv = [words[0].as_ptr(), words[1].as_ptr(), null()];
    // SAFETY: the vector ends with a null, and its strings are NUL-terminated.
    unsafe { libc::execv(argv[0], argv.as_ptr()) };
    panic!("the program was built");
}

/// Closes the descriptors 3 to 199, and opens a file, which gets one of these numbers.
fn close() {
    churn(50);
    (3..200).for_each(|fd| {
        // SAFETY: the program uses none of these descriptors.
        unsafe { libc::close(fd) };
    });
    let own = std::fs::File::open("/dev/null").expect("the device exists");
    churn(50_000);
    assert_eq!(own.metadata().expect("the descriptor is open").len(), 0);
}

/// Calls seven functions of the `malloc` family, and checks the results.
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "one argument holds for all of them")]
fn family() {
    // SAFETY: every block is freed once and used within its size, and all arguments are valid.
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
        Some("fork") => fork(false),
        Some("fork-exits") => fork(true),
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
        Some("late") => late(),
        Some("detached") => detached(),
        Some("large-file") => {
            limit_files(200_000);
            churn(200_000);
        }
        Some("any-file") => {
            limit_files(1000);
            exec();
        }
        Some("renamed") => renamed(),
        Some(mode) => hostile::run(mode),
        None => panic!("a mode is missing"),
    }
}
