//! Runs a signal handler at every instruction of the recorder. The processor traps after each
//! instruction, and the handler checks the address of the next one.

use core::arch::asm;
use core::ffi::c_void;
use core::ptr::{null, null_mut};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize};

use super::super::churn;
use super::{join, start};

/// The size in bytes of a block that a handler allocates.
const HANDLERS: usize = 3333;

/// The first address of the recorder's code, and the address after its end.
static CODE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// The number of times that a handler interrupted the recorder.
static MET: AtomicUsize = AtomicUsize::new(0);
/// The ID of the process that the test started.
static PARENT: AtomicU32 = AtomicU32::new(0);

/// Returns whether this process is a child that a handler forked.
fn in_child() -> bool {
    std::process::id() != PARENT.load(Relaxed)
}

/// Finds the recorder's code and sets [`CODE`]. Leaves it at zero if no recorder is loaded.
fn find_code() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the system has `/proc`");
    let line = maps.lines().find(|line| line.contains("r-xp") && line.ends_with("libephemera_recorder.so"));
    let Some((range, _)) = line.and_then(|line| line.split_once(' ')) else { return };
    let (from, to) = range.split_once('-').expect("a range");
    for (place, digits) in CODE.iter().zip([from, to]) {
        place.store(usize::from_str_radix(digits, 16).expect("an address"), Relaxed);
    }
}

/// Returns whether the thread of `context` was in the recorder's code.
fn in_recorder(context: *mut c_void) -> bool {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes a valid context to the handler.
    let at = unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as usize;
    (CODE[0].load(Relaxed)..CODE[1].load(Relaxed)).contains(&at)
}

/// Returns whether the thread of `context` has blocked its asynchronous signals, so that only the
/// handler of the trap runs there.
fn is_quiet(context: *mut c_void) -> bool {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes a valid context to the handler.
    let mask = unsafe { &raw const (*context).uc_sigmask };
    // SAFETY: the kernel passes a valid context to the handler.
    unsafe { libc::sigismember(mask, libc::SIGUSR1) == 1 }
}

/// Calls `body`, and runs `handler` after each instruction of `body`. This function allocates
/// nothing, so `body` may contain the first allocation of its thread.
fn stepwise(handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void), body: fn()) {
    // SAFETY: the structure has only integers, for which zeros are valid.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the structure is valid, and the handler has the type that `sa_flags` requires.
    assert_eq!(unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, null_mut()) }, 0);
    // SAFETY: the trap flag only raises SIGTRAP, which has a handler.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    body();
    // SAFETY: clearing the trap flag only ends the signals.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

/// Allocates and frees blocks while a handler allocates and frees another block at each instruction
/// of the recorder. The handler may call `malloc`, because a thread at such an instruction is not
/// inside the C library's `malloc`.
pub(super) fn allocates() {
    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
        if in_recorder(context) {
            MET.fetch_add(1, Relaxed);
            // SAFETY: any size is valid.
            let block = unsafe { libc::malloc(core::hint::black_box(HANDLERS)) };
            // SAFETY: the block is freed once.
            unsafe { libc::free(block) };
        }
    }
    find_code();
    stepwise(handler, || churn(50));
    // The handler's calls fill a packet and begin the next one.
    println!("{}", MET.load(Relaxed));
    assert!(MET.load(Relaxed) > 1000 || CODE[1].load(Relaxed) == 0, "the handler ran");
}

/// Runs a handler that forks at every 13th instruction that the recorder executes with signals
/// unblocked. Each child continues at the interrupted instruction, allocates and ends.
///
/// The instructions belong to six allocations, six frees and six refused sandboxes of one thread.
pub(super) fn forks() {
    /// A prime, so that the forks reach different instructions in each call.
    const EVERY: usize = 13;
    static FORKS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
        if in_child() || !in_recorder(context) || is_quiet(context) {
            return;
        }
        if !MET.fetch_add(1, Relaxed).is_multiple_of(EVERY) {
            return;
        }
        FORKS.fetch_add(1, Relaxed);
        // SAFETY: `fork` may be called in a signal handler.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let context: *mut libc::ucontext_t = context.cast();
            // SAFETY: the kernel passes a valid context to the handler. Without the trap flag, the
            // child runs freely.
            unsafe { (*context).uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100 };
            return;
        }
        let mut status = 0;
        // SAFETY: the pointer is valid for writes.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if status != 0 {
            // SAFETY: the function has no preconditions.
            unsafe { libc::abort() }
        }
    }
    fn calls() {
        for _ in 0..6 {
            churn(1);
            // The kernel refuses this sandbox, because its filter is null.
            // SAFETY: the call accepts any arguments.
            unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, null::<c_void>()) };
            if in_child() {
                churn(20);
                // SAFETY: the call takes no pointer, and the child has no work left.
                unsafe { libc::_exit(0) }
            }
        }
    }
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        stepwise(handler, calls);
        null_mut()
    }
    PARENT.store(std::process::id(), Relaxed);
    find_code();
    join(start(body));
    println!("{}", FORKS.load(Relaxed));
    assert!(FORKS.load(Relaxed) > 20 || CODE[1].load(Relaxed) == 0, "the handler ran");
}

/// Runs a handler that forks at every instruction of the recorder in one allocation and one free.
/// Each child continues at the interrupted instruction when its parent has made all of its calls.
pub(super) fn forks_and_waits() {
    const MOST: usize = 4000;
    static CHILDREN: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];
    /// The ends of a pipe. The children wait until the parent closes the second one.
    static PIPE: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];
    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
        if !in_recorder(context) {
            return;
        }
        let number = MET.fetch_add(1, Relaxed);
        // SAFETY: `fork` may be called in a signal handler.
        let pid = unsafe { libc::fork() };
        CHILDREN[number].store(pid, Relaxed);
        if pid == 0 {
            // SAFETY: the call takes no pointer.
            unsafe { libc::close(PIPE[1].load(Relaxed)) };
            // SAFETY: no byte is read, because the parent writes none.
            unsafe { libc::read(PIPE[0].load(Relaxed), null_mut(), 1) };
            let context: *mut libc::ucontext_t = context.cast();
            // SAFETY: the kernel passes a valid context to the handler. Without the trap flag, the
            // child runs freely.
            unsafe { (*context).uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100 };
        }
    }
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        // After these calls, the thread has leased a stream.
        churn(20);
        stepwise(handler, || churn(1));
        if in_child() {
            // SAFETY: the call takes no pointer, and the child has no work left.
            unsafe { libc::_exit(0) }
        }
        churn(100);
        null_mut()
    }
    PARENT.store(std::process::id(), Relaxed);
    find_code();
    let mut pipe = [0; 2];
    // SAFETY: the pointer is valid for writes of two integers.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    PIPE.iter().zip(pipe).for_each(|(to, fd)| to.store(fd, Relaxed));
    join(start(body));
    // SAFETY: the call takes no pointer.
    unsafe { libc::close(pipe[1]) };
    for child in &CHILDREN[..MET.load(Relaxed)] {
        let mut status = 0;
        // SAFETY: the pointer is valid for writes.
        unsafe { libc::waitpid(child.load(Relaxed), &raw mut status, 0) };
        assert_eq!(status, 0, "the child ended well");
    }
    assert!(MET.load(Relaxed) > 20 || CODE[1].load(Relaxed) == 0, "the handler ran");
}
