//! Tests that the tools report the use of poisoned memory: a child process reads a poisoned byte,
//! and the tool must report it. This command runs the test under AddressSanitizer:
//!
//! ```text
//! RUSTFLAGS='-Zsanitizer=address --cfg ephemera_poison="asan"' \
//!     cargo +nightly test -p ephemera-prim --test raw_poison --target x86_64-unknown-linux-gnu
//! ```
//!
//! Miri stops at the error, so no test can expect it. Under Miri the test itself reads the byte if
//! `EPHEMERA_POISONED_READ` is set, and the run must fail with "memory is uninitialized":
//!
//! ```text
//! EPHEMERA_POISONED_READ=1 MIRIFLAGS=-Zmiri-env-forward=EPHEMERA_POISONED_READ \
//!     cargo +nightly miri test -p ephemera-prim --test raw_poison
//! ```
#![cfg_attr(all(feature = "nightly", feature = "std", not(ephemera_std_allocator)), feature(allocator_api))]
#![cfg(feature = "std")]

use core::alloc::Layout;

use allocator_api2::alloc::Global;
use ephemera_prim::poison::{poison, unpoison};
use ephemera_prim::raw::{acquire, release};

/// The environment variable that tells the test binary to read a poisoned byte.
const VARIABLE: &str = "EPHEMERA_POISONED_READ";

/// The name of the test that the child runs.
#[cfg(all(not(miri), ephemera_poison = "asan"))]
const CHILD_TEST: &str = "a_block_is_usable_unless_it_is_poisoned";

/// Poisons a block, unpoisons it again unless the variable is set, and reads a byte of it.
///
/// If the variable is not set, this test checks that the memory is usable after both calls.
#[test]
fn a_block_is_usable_unless_it_is_poisoned() {
    let bad_read = std::env::var_os(VARIABLE).is_some();
    let layout = Layout::from_size_align(256, 64).expect("a small layout");
    let block = acquire(&Global, layout).expect("256 bytes");
    // SAFETY: the block belongs to this test, and has 256 bytes.
    unsafe { block.write_bytes(5, 256) };
    // SAFETY: the block belongs to this test, which does not need its content.
    unsafe { poison(block, 256) };
    if !bad_read {
        // SAFETY: the block belongs to this test, which does not need its content.
        unsafe { unpoison(block, 256) };
        // SAFETY: the block belongs to this test, and has 256 bytes.
        unsafe { block.write_bytes(6, 256) };
    }
    // SAFETY: the block has 256 bytes.
    let middle = unsafe { block.add(128) };
    // SAFETY: the byte is in the block and initialised. If `bad_read` is set, the byte is poisoned,
    // and this read is the error that the tool must report. A volatile read is not optimised away.
    let seen = unsafe { middle.read_volatile() };
    // SAFETY: `acquire` returned the block for this layout, and it is not used again.
    unsafe { release(&Global, block, layout) };
    assert_eq!(seen, if bad_read { 5 } else { 6 });
    if bad_read {
        std::println!("no tool reported the read of a poisoned byte");
    }
}

/// Runs [`CHILD_TEST`] of this binary in a child process.
#[cfg(all(not(miri), ephemera_poison = "asan"))]
fn run_child(bad_read: bool) -> (std::process::ExitStatus, String) {
    use std::process::Command;

    let mut command = Command::new(std::env::current_exe().expect("the path of this test binary"));
    command.args(["--exact", CHILD_TEST, "--nocapture", "--test-threads=1"]).env_remove(VARIABLE);
    if bad_read {
        command.env(VARIABLE, "1");
    }
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let mut report = String::from_utf8_lossy(&output.stdout).into_owned();
    report.push_str(&String::from_utf8_lossy(&output.stderr));
    assert!(report.contains("running 1 test"), "the child did not run its test:\n{report}");
    (output.status, report)
}

#[cfg(all(not(miri), ephemera_poison = "asan"))]
#[test]
fn address_sanitizer_reports_a_poisoned_read_and_only_that() {
    let (status, report) = run_child(true);
    assert!(!status.success(), "{report}");
    assert!(report.contains("use-after-poison"), "{report}");

    let (status, report) = run_child(false);
    assert!(status.success(), "{report}");
}

#[cfg(not(any(miri, ephemera_poison = "asan")))]
#[test]
fn poison_without_a_tool_leaves_the_bytes_unchanged() {
    let layout = Layout::from_size_align(64, 64).expect("a small layout");
    let block = acquire(&Global, layout).expect("64 bytes");
    // SAFETY: the block belongs to this test, and has 64 bytes.
    unsafe { block.write_bytes(5, 64) };
    // SAFETY: the block belongs to this test, and has 64 bytes.
    unsafe { poison(block, 64) };
    // SAFETY: no tool is selected, so `poison` did nothing and the byte is initialised.
    assert_eq!(unsafe { block.read() }, 5);
    // SAFETY: `acquire` returned the block for this layout, and it is not used again.
    unsafe { release(&Global, block, layout) };
    std::println!(
        "SKIPPED: whether a tool reports a poisoned read. Build with --cfg ephemera_poison=\"asan\" to \
         find out."
    );
}
