//! Tests of calls to the global allocator at unusual moments: around the ends of threads and of the
//! process, and on a stack that overflows. The tests in `plugin.rs` cover loaded code. The tests of
//! `typed-pool` cover calls before `main`, in destructors of thread-locals, and in forked children.
#![cfg(all(target_os = "linux", target_has_atomic = "64", not(any(miri, ephemera_loom))))]

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::path::Path;
use std::process::Command;

use std::sync::OnceLock;
use std::thread;

use ephemera_testkit::child;
use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// Returns strings of many sizes. One of them is a large block.
fn blocks(seed: usize) -> Vec<String> {
    (0..200).map(|word| (seed + word).to_string().repeat(word)).chain(["x".repeat(200_000)]).collect()
}

fn are_right(blocks: &[String], seed: usize) -> bool {
    blocks == self::blocks(seed)
}

/// The C library calls the destructors of keys after the destructors of thread-locals, and so after
/// the allocator's exit guard. It calls the destructor of a key again if the destructor has set a
/// new value.
#[test]
fn destructors_of_keys_allocate_and_free_after_the_exit_guard() {
    const ROUNDS: usize = 4;
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    static RIGHT: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn end(value: *mut c_void) {
        // SAFETY: the value of the key is a box of this type, and the C library passes each value
        // once.
        let old = unsafe { Box::from_raw(value.cast::<(usize, Vec<String>)>()) };
        RIGHT.fetch_add(usize::from(are_right(&old.1, old.0)), Ordering::Relaxed);
        if old.0 + 1 < ROUNDS {
            store(old.0 + 1);
        }
    }
    fn store(round: usize) {
        let key = *KEY.get_or_init(|| {
            let mut key = 0;
            // SAFETY: `store` is the only function that sets the key, and `end` accepts the boxes
            // that it stores.
            assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(end)) }, 0);
            key
        });
        let value = Box::into_raw(Box::new((round, blocks(round))));
        // SAFETY: the key exists.
        assert_eq!(unsafe { libc::pthread_setspecific(key, value.cast()) }, 0);
    }
    for _ in 0..20 {
        // A new thread may take over the record, with all of its units, of a thread that still runs
        // destructors.
        let threads = [(); 6].map(|()| thread::spawn(|| store(0)));
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
    assert_eq!(RIGHT.load(Ordering::Relaxed), 6 * 20 * ROUNDS);
}

#[test]
fn trees_of_threads_allocate_at_every_depth() {
    fn tree(depth: usize) -> usize {
        let own = blocks(depth);
        let children: Vec<_> = (0..if depth == 0 { 0 } else { 3 })
            .map(|child| {
                let name = format!("child {child} at depth {depth}");
                thread::Builder::new().name(name).spawn(move || tree(depth - 1)).expect("a thread")
            })
            .collect();
        let below: usize = children.into_iter().map(|child| child.join().expect("no panic")).sum();
        below + usize::from(are_right(&own, depth))
    }
    assert_eq!(tree(3), 1 + 3 + 9 + 27);
}

/// The standard library's handler for a stack overflow runs on its own stack. The handler allocates
/// for the name of the thread.
#[test]
fn a_stack_overflow_is_reported_and_ends_the_process() {
    const NAME: &str = "a_stack_overflow_is_reported_and_ends_the_process";
    /// Allocates in each frame, so that the overflow may happen inside the allocator.
    #[expect(unconditional_recursion, reason = "the stack overflows")]
    fn sink(depth: usize) -> usize {
        let kept = core::hint::black_box(vec![depth; 1 + depth % 5_000]);
        sink(depth + 1) + kept.len()
    }
    if child::part().is_some() {
        let threads = [1, 2].map(|seed| thread::spawn(move || while are_right(&blocks(seed), seed) {}));
        let deep = thread::Builder::new().name("deep".to_owned()).stack_size(1 << 20);
        deep.spawn(|| core::hint::black_box(sink(0))).expect("a thread").join().expect("not reached");
        let _ = threads.map(|thread| thread.join().expect("not reached"));
    }
    let ended = child::run(NAME, "overflow");
    assert!(!ended.succeeded() && !ended.panicked(), "{ended:?}");
    assert!(ended.stderr.contains("'deep'") && ended.stderr.contains("overflowed its stack"), "{ended:?}");
}

/// The blocks that the exit handler and [`after_the_handlers`] free.
static LAST: [AtomicPtr<Vec<String>>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];
/// Whether this process is the child that tests the exit handlers.
static EXITS: AtomicBool = AtomicBool::new(false);

/// Frees the blocks that `place` points at, and prints `text` if their content is right.
fn at_the_end(place: &AtomicPtr<Vec<String>>, text: &'static str) {
    // SAFETY: the pointer came from a box. The swap removes the pointer from the static, so no
    // other call gets it.
    let blocks = unsafe { Box::from_raw(place.swap(ptr::null_mut(), Ordering::Relaxed)) };
    if are_right(&blocks, 7) {
        drop(blocks);
        let text = format!("{text}\n");
        // SAFETY: `text` is valid for `text.len()` bytes.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
}

extern "C" fn exit_handler() {
    at_the_end(&LAST[0], "freed in a handler");
}

/// Frees the blocks of `LAST[1]` in the child process. The C library calls this function after all
/// exit handlers.
extern "C" fn after_the_handlers() {
    if EXITS.load(Ordering::Relaxed) {
        at_the_end(&LAST[1], "freed after the handlers");
    }
}

#[used]
// SAFETY: this section contains pointers to `extern "C"` functions, which the C library calls at
// the end of a process.
#[unsafe(link_section = ".fini_array")]
static FINI: extern "C" fn() = after_the_handlers;

#[test]
fn exit_handlers_and_fini_functions_free_and_allocate() {
    const NAME: &str = "exit_handlers_and_fini_functions_free_and_allocate";
    if child::part().is_some() {
        for place in &LAST {
            place.store(Box::into_raw(Box::new(blocks(7))), Ordering::Relaxed);
        }
        EXITS.store(true, Ordering::Relaxed);
        // SAFETY: the handler is an `extern "C"` function of this program, which is never unloaded.
        unsafe { libc::atexit(exit_handler) };
        // Other threads still allocate while the process ends.
        for seed in [1, 2] {
            thread::spawn(move || while are_right(&blocks(seed), seed) {});
        }
        std::process::exit(0);
    }
    let ended = child::run(NAME, "exit");
    assert!(ended.succeeded(), "{ended:?}");
    let said: Vec<_> = ended.stderr.lines().filter(|line| line.starts_with("freed")).collect();
    assert_eq!(said, ["freed in a handler", "freed after the handlers"], "{ended:?}");
}

#[test]
fn a_panic_that_aborts_is_reported_with_its_message() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aborting");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--bin", "aborting", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(&dir)
        .env("CARGO_PROFILE_DEV_PANIC", "abort")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .status();
    assert!(built.expect("cargo starts").success(), "the program builds");
    let output = Command::new(dir.join("debug").join("aborting")).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(libc::SIGABRT), "{output:?}");
    assert!(said.contains("word 0, word 1, ") && said.contains("word 2999"), "{output:?}");
    assert_eq!(output.stdout, b"2 strings at the end of a thread\njoined: true\n", "{output:?}");
}

#[test]
#[cfg(keyed)]
fn destructors_run_without_a_list_of_the_c_library() {
    let output = Command::new(env!("CARGO_BIN_EXE_keyed")).output().expect("cargo built it");
    assert_eq!(output.stdout, b"hidden: true\nright: 300\n", "{output:?}");
}
