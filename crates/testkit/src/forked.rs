//! Forked children, in which only the thread that forked is left.
//!
//! For tests of what a child can still do while locks of its parent's other threads stay held. On Unix only, and not
//! under Miri, which forks no process.

use core::ffi::c_int;

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// Forks, runs `child` in the child, and returns in the parent whether it returned `true` there.
///
/// The child ends behind it without running destructors. It must not take a lock that another thread of the parent
/// may hold, those of the standard library's output among them.
///
/// # Panics
/// When the system refuses a fork.
pub fn in_a_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs one function, and leaves without running destructors.
    let pid = unsafe { fork() };
    assert!(pid >= 0, "the system refuses a fork");
    if pid == 0 {
        let good = child();
        // SAFETY: the child ends here.
        unsafe { _exit(c_int::from(!good)) };
    }
    let mut status = 0;
    // SAFETY: the status is this function's own word.
    let waited = unsafe { waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid, "the child is gone");
    status == 0
}

#[cfg(test)]
mod tests {
    use super::in_a_child;

    #[test]
    fn a_child_has_its_own_memory_and_its_answer_arrives() {
        let mut number = 1;
        assert!(in_a_child(|| {
            number += 1;
            number == 2
        }));
        assert!(!in_a_child(|| number == 2));
        assert_eq!(number, 1);
    }
}
