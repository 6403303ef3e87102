//! Support for tests that fork their process: the child runs a part of the test, with one thread,
//! in a copy of the parent's memory.
//!
//! Locks that other threads of the parent held stay locked in the child, but an allocator must
//! still work there.

use core::ffi::c_int;
use core::panic::AssertUnwindSafe;

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// Forks, runs `part` in the child, and returns whether `part` returned `true`.
///
/// The child ends without running exit handlers or thread-local destructors. If `part` unwinds, or
/// ends the child with a signal or a failing status, this function returns `false`.
///
/// # Panics
///
/// Panics if the system refuses the fork, or refuses to wait for the child.
///
/// # Examples
///
/// ```
/// let mut blocks = vec![Box::new(1), Box::new(2)];
/// assert!(ephemera_testkit::fork::holds_in_a_child(|| {
///     blocks.clear();
///     blocks.is_empty()
/// }));
/// assert_eq!(blocks.len(), 2, "the parent has memory of its own");
/// ```
pub fn holds_in_a_child(part: impl FnOnce() -> bool) -> bool {
    // SAFETY: `fork` has no preconditions. The child runs only `part` and then ends below.
    let pid = unsafe { fork() };
    assert!(pid >= 0, "the system refuses a fork");
    if pid == 0 {
        let part = AssertUnwindSafe(part);
        let held = std::panic::catch_unwind(part).unwrap_or(false);
        // SAFETY: `_exit` accepts any status, and ends the child.
        unsafe { _exit(c_int::from(!held)) };
    }
    let mut status = 0;
    // SAFETY: `pid` is the child that was just forked, and `status` is a live local variable.
    let waited = unsafe { waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid, "the system refuses to wait for the child");
    status == 0
}
