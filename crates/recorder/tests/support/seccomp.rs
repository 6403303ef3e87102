//! Installs seccomp filters that the recorder does not see, and a filter that the kernel refuses to
//! give to all threads.

use core::arch::asm;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use super::super::churn;
use super::{filter, join, refused, start};

/// Installs a filter by an instruction of this program, so the recorder does not see the call and
/// does not end the trace. Returns whether the kernel accepted the filter.
pub(super) fn install_unseen(mut program: Vec<libc::sock_filter>) -> bool {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the call takes no pointer.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let entered: libc::c_long;
    // SAFETY: the program is valid, and the kernel changes only these registers.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") libc::SYS_seccomp => entered,
            in("rdi") libc::SECCOMP_SET_MODE_FILTER as usize,
            in("rsi") 0,
            in("rdx") &raw const program,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    entered == 0
}

/// Tries to install a filter for all threads, while one of them has a filter of its own. The kernel
/// then installs nothing, and returns the ID of that thread.
pub(super) fn unsynchronised() {
    static STAGE: AtomicU32 = AtomicU32::new(0);
    fn wait_for(stage: u32) {
        while STAGE.load(SeqCst) < stage {
            std::thread::yield_now();
        }
    }
    /// Returns a filter that allows every system call.
    fn allowing() -> Vec<libc::sock_filter> {
        filter(&[], libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_ALLOW)
    }
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        let installed = install_unseen(allowing());
        STAGE.store(1, SeqCst);
        wait_for(2);
        if installed { null_mut() } else { core::ptr::without_provenance_mut(1) }
    }
    let thread = start(body);
    wait_for(1);
    let mut program = allowing();
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the call takes no pointer.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: the filter program is valid.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    STAGE.store(2, SeqCst);
    if !join(thread).is_null() {
        refused("seccomp");
    }
    assert!(answer > 0, "{answer}: {}", std::io::Error::last_os_error());
    churn(1000);
}
