//! Runs a program whose global allocator is `PooledAllocator` once for each of its system calls,
//! from the first call of the process on. In each run, the operating system refuses one of the
//! calls; in one more run, it refuses all of them.
//!
//! The program is in this file. If the environment variable [`REFUSE`] names a call, a function
//! before `main` runs the program instead of the tests.
#![cfg(all(feature = "std", unix, target_has_atomic = "64", not(miri)))]

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use std::process::Command;

use ephemera_prim::pages;
use typed_pool::PooledAllocator;

#[global_allocator]
static HEAP: PooledAllocator = PooledAllocator;

/// The environment variable that names the refused call: a number, or `all`.
const REFUSE: &CStr = c"EPHEMERA_REFUSE";

/// The exit codes of a run that reached the refused call, and of a run that made fewer calls.
const REACHED: c_int = 20;
const NOT_REACHED: c_int = 21;

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn _exit(status: c_int) -> !;
    fn pthread_create(
        thread: *mut usize,
        attributes: *const c_void,
        start: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_join(thread: usize, result: *mut *mut c_void) -> c_int;
}

const SIZES: [usize; 8] = [24, 700, 2_000, 20_000, 50_000, 400_000, 1_500_000, 9_000_000];
const ALIGNS: [usize; 5] = [8, 64, 4_096, 1 << 16, 1 << 22];

/// Returns the layout of a block at a step of the program.
fn layout(number: usize, step: usize) -> Layout {
    let size = SIZES[(number + step * 3) % 8] + number;
    Layout::from_size_align(size, ALIGNS[number / 8]).expect("a layout")
}

/// The number of blocks that each run allocates.
const BLOCKS: usize = 40;

/// The number of bytes at each end of a block that the program writes and checks.
const ENDS: usize = 24;

/// Writes the first and the last bytes of a live block of `len` bytes.
fn fill(block: *mut u8, len: usize, value: u8) {
    let end = len.min(ENDS);
    // SAFETY: the block has this number of bytes.
    unsafe { block.write_bytes(value, end) };
    // SAFETY: the offset is in the block.
    let last = unsafe { block.add(len - end) };
    // SAFETY: the block ends after these bytes.
    unsafe { last.write_bytes(value, end) };
}

/// Returns whether the first and the last bytes of a block all have this value.
fn has(block: *const u8, len: usize, value: u8) -> bool {
    let end = len.min(ENDS);
    (0..end).chain(len - end..len).all(|at| {
        // SAFETY: the offset is in the block.
        let byte = unsafe { block.add(at) };
        // SAFETY: the byte is in a live block and was written.
        unsafe { byte.read() == value }
    })
}

/// Allocates blocks, half of them zeroed. Grows or shrinks each block twice, then checks and frees
/// it. Returns the number of refused requests. Does not allocate anything else.
fn run() -> usize {
    let mut blocks = [(ptr::null_mut::<u8>(), Layout::new::<u8>()); BLOCKS];
    let mut refused = 0;
    for (number, place) in blocks.iter_mut().enumerate() {
        let layout = layout(number, 0);
        let block = match number % 2 {
            // SAFETY: the layout is not of size zero.
            0 => unsafe { HEAP.alloc(layout) },
            // SAFETY: the layout is not of size zero.
            _ => unsafe { HEAP.alloc_zeroed(layout) },
        };
        *place = (block, layout);
        if block.is_null() {
            refused += 1;
            continue;
        }
        assert_eq!(block.addr() % layout.align(), 0);
        assert!(number % 2 == 0 || has(block, layout.size(), 0), "a zeroed block has other bytes");
        fill(block, layout.size(), number as u8);
    }
    for step in 1..3 {
        for (number, (block, old)) in blocks.iter_mut().enumerate() {
            if block.is_null() {
                continue;
            }
            let new = layout(number, step);
            // SAFETY: the block is live and has this layout.
            let moved = unsafe { HEAP.realloc(*block, *old, new.size()) };
            let kept = old.size().min(new.size());
            if moved.is_null() {
                refused += 1;
                assert!(has(*block, old.size(), number as u8), "a refused request changed its block");
                continue;
            }
            // If the block shrank, its new last bytes were not written.
            assert!(has(moved, kept.min(ENDS), number as u8), "a resized block lost its first bytes");
            if old.size() <= new.size() {
                assert!(has(moved, kept, number as u8), "a grown block lost its last bytes");
            }
            assert_eq!(moved.addr() % new.align(), 0);
            (*block, *old) = (moved, new);
            fill(*block, new.size(), number as u8);
        }
    }
    for (number, (block, layout)) in blocks.iter().enumerate() {
        if !block.is_null() {
            assert!(has(*block, layout.size(), number as u8), "a live block lost its bytes");
            // SAFETY: the block is live and has this layout.
            unsafe { HEAP.dealloc(*block, *layout) };
        }
    }
    refused
}

extern "C" fn on_a_thread(_: *mut c_void) -> *mut c_void {
    ptr::without_provenance_mut(run())
}

/// Runs [`run`] on this thread and on a new thread, which needs another record. Returns the number
/// of refused requests.
fn run_everywhere() -> usize {
    let own = run();
    let (mut thread, mut refused) = (0, ptr::null_mut());
    // SAFETY: the pointer is valid for a write, and `on_a_thread` ignores its argument.
    let error = unsafe { pthread_create(&raw mut thread, ptr::null(), on_a_thread, ptr::null_mut()) };
    assert_eq!(error, 0, "the system starts a thread");
    // SAFETY: the thread was created above and is joined once.
    assert_eq!(unsafe { pthread_join(thread, &raw mut refused) }, 0);
    own + refused.addr()
}

/// Runs the program and ends the process, if the environment variable [`REFUSE`] is set.
extern "C" fn before_main() {
    // SAFETY: the name is a C string, and no other thread exists that could change the environment.
    let wanted = unsafe { getenv(REFUSE.as_ptr()) };
    if wanted.is_null() {
        return;
    }
    // SAFETY: the variable is a C string, and nothing changes it.
    let wanted = unsafe { CStr::from_ptr(wanted) }.to_bytes();
    let number = match wanted {
        b"all" => usize::MAX,
        digits => digits.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')),
    };
    pages::refuse_call(number);
    let refused = run_everywhere();
    let reached = pages::refuse_call(0) == 0 || number == usize::MAX;
    assert!(refused == 0 || reached);
    assert!(number != usize::MAX || refused == 2 * BLOCKS, "a request succeeded without memory");
    assert_eq!(run_everywhere(), 0, "a request after the refused call is refused");
    HEAP.trim_all();
    pages::purge();
    let (usage, stats) = (pages::usage(), HEAP.stats());
    assert_eq!((stats.live(), stats.bytes_held), (0, 0), "a block is lost");
    assert_eq!((usage.bytes_live, usage.bytes_cached), (0, 0), "pages are lost");
    // SAFETY: `_exit` takes any status, and a process may call it at any time.
    unsafe { _exit(if reached { REACHED } else { NOT_REACHED }) };
}

#[used]
// SAFETY: the section has pointers to functions that the C library calls before `main`, and
// `before_main` is such a function.
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
static INIT: extern "C" fn() = before_main;

/// Runs the program, in which the system refuses the call `refuse`, and returns its exit code.
fn ended(refuse: &str) -> Option<i32> {
    let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
    let output = command.env("EPHEMERA_REFUSE", refuse).output().expect("the program starts");
    let code = output.status.code();
    assert!(matches!(code, Some(REACHED | NOT_REACHED)), "call {refuse}: {output:?}");
    code
}

#[test]
fn each_refused_call_yields_null_and_nothing_is_lost() {
    let calls = (1..).take_while(|number: &usize| ended(&number.to_string()) == Some(REACHED)).count();
    assert!(calls > 40, "the program makes {calls} calls");
}

#[test]
fn a_program_survives_the_refusal_of_all_calls() {
    assert_eq!(ended("all"), Some(REACHED));
}
