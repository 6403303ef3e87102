//! Tests in which the system refuses one memory request of a C program (the first, then the second,
//! and so on), or all of them.
//!
//! This test binary is also that program: it links the library, so the whole process uses the
//! library's `malloc` and `free`. If the variable `EPHEMERA_REFUSE` names a call, a function that
//! runs before `main` runs the program instead of the tests.
#![cfg(all(target_os = "linux", target_pointer_width = "64", not(any(miri, ephemera_loom))))]

use core::ffi::{CStr, c_void};
use core::ptr;
use std::process::Command;

use ephemera_c::{calloc, free, malloc, malloc_usable_size, memalign, posix_memalign, realloc};
use ephemera_prim::pages;

/// The exit code of a program that reached the refused call.
const REACHED: i32 = 20;
/// The exit code of a program that ended before the call to refuse.
const NOT_REACHED: i32 = 21;

const SIZES: [usize; 8] = [24, 700, 2_000, 20_000, 50_000, 400_000, 1_500_000, 9_000_000];
const BLOCKS: usize = 40;

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn size(number: usize, step: usize) -> usize {
    SIZES[(number + step * 3) % 8] + number
}

/// Allocates with the function that `number` selects.
fn ask(number: usize, size: usize) -> *mut c_void {
    let large = 1 << (16 + number % 7);
    let block = match number / 8 {
        0 | 1 => malloc(size),
        2 => calloc(size, 1),
        3 => memalign(large, size),
        _ => {
            let mut place = ptr::null_mut();
            // SAFETY: the pointer is valid for a write.
            let error = unsafe { posix_memalign(&raw mut place, large, size) };
            assert_eq!(error, if place.is_null() { libc::ENOMEM } else { 0 });
            return place;
        }
    };
    assert!(!block.is_null() || errno() == libc::ENOMEM);
    assert!(number / 8 != 3 || block.addr() % large == 0);
    block
}

/// Returns the byte at offset `at` of a block.
///
/// # Safety
/// `block` must be live, and its byte at offset `at` must be initialised.
unsafe fn byte(block: *mut c_void, at: usize) -> u8 {
    // SAFETY: the caller passes a block with this byte.
    let byte = unsafe { block.cast::<u8>().add(at) };
    // SAFETY: the caller ensures that the byte was written.
    unsafe { byte.read() }
}

/// Allocates blocks, resizes each of them twice, checks their contents and frees them. Returns
/// the number of refused requests.
fn run() -> usize {
    let mut blocks = [ptr::null_mut(); BLOCKS];
    let mut refused = 0;
    for (number, block) in blocks.iter_mut().enumerate() {
        *block = ask(number, size(number, 0));
        if block.is_null() {
            refused += 1;
            continue;
        }
        // SAFETY: the block's last byte is at this offset, and `calloc` has written all bytes.
        assert!(number / 8 != 2 || unsafe { byte(*block, size(number, 0) - 1) } == 0);
        // SAFETY: the block is live and has at least 24 bytes.
        unsafe { block.cast::<u8>().write_bytes(number as u8, 24) };
    }
    for step in 1..3 {
        for (number, block) in blocks.iter_mut().enumerate().filter(|(_, block)| !block.is_null()) {
            // SAFETY: the block is live.
            let moved = unsafe { realloc(*block, size(number, step)) };
            if moved.is_null() {
                assert_eq!(errno(), libc::ENOMEM);
                refused += 1;
            } else {
                *block = moved;
                // SAFETY: the block is live.
                assert!(unsafe { malloc_usable_size(moved) } >= size(number, step));
            }
            for at in [0, 23] {
                // SAFETY: every block has this byte, which was written.
                assert_eq!(unsafe { byte(*block, at) }, number as u8);
            }
        }
    }
    // SAFETY: the blocks are live or null, and nothing uses them any more.
    blocks.into_iter().for_each(|block| unsafe { free(block) });
    refused
}

extern "C" fn on_a_thread(_: *mut c_void) -> *mut c_void {
    ptr::without_provenance_mut(run())
}

/// Runs [`run`] on this thread and, if the C library has memory for one, on a new thread. Returns
/// the number of refused requests. A thread that could not start counts as one.
fn run_everywhere() -> usize {
    let own = run();
    let (mut thread, mut refused) = (0, ptr::null_mut());
    // SAFETY: the pointer is valid for a write, and `on_a_thread` ignores its argument.
    match unsafe { libc::pthread_create(&raw mut thread, ptr::null(), on_a_thread, ptr::null_mut()) } {
        0 => {
            // SAFETY: the thread was created above and is joined once.
            assert_eq!(unsafe { libc::pthread_join(thread, &raw mut refused) }, 0);
            own + refused.addr()
        }
        error => {
            assert_eq!(error, libc::EAGAIN, "the C library needs memory for a thread");
            own + 1
        }
    }
}

/// If `EPHEMERA_REFUSE` is set, runs the program and exits. The program's `.init_array` has this
/// function before the library's `at_load`, so this function decides how threads end. They end by a
/// thread-specific key if `EPHEMERA_KEY` is set, and otherwise as in a Rust program.
extern "C" fn before_main() {
    // SAFETY: the name is NUL-terminated, and no other thread runs that could change the
    // variable.
    let wanted = unsafe { libc::getenv(c"EPHEMERA_REFUSE".as_ptr()) };
    if wanted.is_null() {
        return;
    }
    // SAFETY: the variable is NUL-terminated and does not change.
    let wanted = unsafe { CStr::from_ptr(wanted) }.to_bytes();
    let number = match wanted {
        b"all" => usize::MAX,
        digits => digits.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')),
    };
    assert!(!ephemera_prim::local::ends_by_key(), "this runs before the library's own function");
    // SAFETY: the name is NUL-terminated, and no other thread runs that could change the
    // variable.
    if !unsafe { libc::getenv(c"EPHEMERA_KEY".as_ptr()) }.is_null() {
        // SAFETY: the library is part of this program, so it is never unloaded.
        assert!(unsafe { ephemera_prim::local::end_threads_by_key() });
    }
    pages::refuse_call(number);
    let refused = run_everywhere();
    let reached = pages::refuse_call(0) == 0 || number == usize::MAX;
    assert!(refused == 0 || reached);
    assert!(number != usize::MAX || refused > BLOCKS, "a request succeeded without memory");
    assert_eq!(run_everywhere(), 0, "a request after the refused call is refused");
    let stats = ephemera_c::stats_after_trim();
    pages::purge();
    // The C library still holds its own blocks.
    assert!(stats.large_blocks == 0 && stats.bytes_live <= 64 << 10, "blocks are lost: {stats:?}");
    let usage = pages::usage();
    assert!(usage.bytes_live <= 4 << 20 && usage.bytes_cached == 0, "pages are lost: {usage:?}");
    // SAFETY: the other threads of the process have been joined.
    unsafe { libc::_exit(if reached { REACHED } else { NOT_REACHED }) };
}

#[used]
// SAFETY: the section holds pointers to functions that the C library calls before `main`.
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = before_main;

/// Runs the program and returns its exit code. With `by_key`, a thread-specific key runs the exit
/// hooks of the program's threads.
fn ended(refuse: &str, by_key: bool) -> Option<i32> {
    let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
    if by_key {
        command.env("EPHEMERA_KEY", "1");
    }
    let output = command.env("EPHEMERA_REFUSE", refuse).output().expect("the program starts");
    let code = output.status.code();
    assert!(matches!(code, Some(REACHED | NOT_REACHED)), "call {refuse}: {output:?}");
    code
}

#[test]
fn each_refused_call_yields_null_and_nothing_is_lost() {
    for by_key in [false, true] {
        let reached = |number: &usize| ended(&number.to_string(), by_key) == Some(REACHED);
        let calls = (1..).take_while(reached).count();
        assert!(calls > 30, "the program makes {calls} calls");
    }
}

#[test]
fn a_c_program_survives_the_refusal_of_all_calls() {
    assert_eq!(ended("all", false), Some(REACHED));
    assert_eq!(ended("all", true), Some(REACHED));
}
