//! Imitates a `closefrom` of another thread at the critical moment: right after the recorder has
//! opened a file.
//!
//! A seccomp filter makes the kernel send `SIGSYS` instead of opening a file. The signal handler
//! opens the file. If the file is the trace, the handler acts as a second thread might: it closes
//! the descriptor and opens a file of the program.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use super::super::churn;
use super::seccomp::install_unseen;
use super::{filter, refused};

/// The path of the program's own file.
static OWN: AtomicPtr<libc::c_char> = AtomicPtr::new(null_mut());

extern "C" fn opens(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes a valid context to the handler, and only the handler accesses this
    // context while it runs. The registers hold the arguments of the call.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let path = registers[libc::REG_RSI as usize] as *const libc::c_char;
    let open = |path: *const libc::c_char, flags: i64| {
        // SAFETY: the path is NUL-terminated. The filter lets this older call through.
        unsafe { libc::syscall(libc::SYS_open, path, flags, registers[libc::REG_R10 as usize]) }
    };
    let mut fd = open(path, registers[libc::REG_RDX as usize]);
    // SAFETY: this argument of the call is a NUL-terminated path.
    let is_trace = unsafe { CStr::from_ptr(path) }.to_bytes().windows(10).any(|part| part == b"closefrom-");
    if is_trace {
        // SAFETY: no code of the program uses this descriptor.
        unsafe { libc::close(fd as i32) };
        fd = open(OWN.load(Relaxed), libc::O_RDWR.into());
    }
    registers[libc::REG_RAX as usize] = fd;
}

pub(super) fn closefrom() {
    let own = std::env::args().nth(2).expect("a file");
    let name = std::ffi::CString::new(own.as_str()).expect("the text contains no zero byte");
    std::fs::write(&own, "").expect("it can be written");
    OWN.store(name.as_ptr().cast_mut(), Relaxed);
    // SAFETY: zeros are valid for the integers and for the optional function pointer of the
    // structure.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = opens as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the structure is valid, and the handler has the type that `sa_flags` requires.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSYS, &raw const action, null_mut()) }, 0);
    let program = filter(&[libc::SYS_openat], libc::SECCOMP_RET_TRAP, libc::SECCOMP_RET_ALLOW);
    // The recorder does not see this filter.
    if !install_unseen(program) {
        refused("seccomp");
    }
    churn(100_000);
    let length = std::fs::metadata(own).expect("it is there").len();
    assert_eq!(length, 0, "the program's own file is as it was");
}
