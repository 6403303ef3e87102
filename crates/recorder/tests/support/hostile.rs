//! Modes of the recorded program whose behaviour is valid but would break a careless recorder.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::{null, null_mut};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32};

use super::{SIZE, block, churn};

#[cfg(target_arch = "x86_64")]
#[path = "seccomp.rs"]
mod seccomp;
#[cfg(target_arch = "x86_64")]
#[path = "stepping.rs"]
mod stepping;
#[cfg(target_arch = "x86_64")]
#[path = "trapping.rs"]
mod trapping;

/// The exit status if the system refuses what the program needs.
const REFUSED: i32 = 77;

pub(crate) fn run(mode: &str) {
    match mode {
        "fork-threads" => fork_threads(),
        "cancelled" => cancelled(),
        "priorities" => priorities(),
        "sandbox-prctl" => sandbox(false),
        "sandbox-seccomp" => sandbox(true),
        "no-sandbox" => no_sandbox(),
        "address-space" => address_space(),
        "no-address-space" => no_address_space(),
        "full-disk" => full_disk(),
        "odd-alignments" => odd_alignments(),
        #[cfg(target_arch = "x86_64")]
        "closefrom" => trapping::closefrom(),
        #[cfg(target_arch = "x86_64")]
        "unsynchronised" => seccomp::unsynchronised(),
        #[cfg(target_arch = "x86_64")]
        "handler-allocates" => stepping::allocates(),
        #[cfg(target_arch = "x86_64")]
        "handler-forks" => stepping::forks(),
        #[cfg(target_arch = "x86_64")]
        "handler-forks-and-waits" => stepping::forks_and_waits(),
        other => panic!("unknown mode {other:?}"),
    }
}

fn refused(what: &str) -> ! {
    println!("refused: {what}: {}", std::io::Error::last_os_error());
    std::process::exit(REFUSED)
}

/// Starts a thread without a direct call to the allocator.
fn start(body: extern "C" fn(*mut c_void) -> *mut c_void) -> libc::pthread_t {
    let mut thread = 0;
    // SAFETY: the pointer is valid for writes, and the body ignores its argument.
    let started = unsafe { libc::pthread_create(&raw mut thread, null(), body, null_mut()) };
    assert_eq!(started, 0, "the thread starts");
    thread
}

fn join(thread: libc::pthread_t) -> *mut c_void {
    let mut value = null_mut();
    // SAFETY: the thread was started and is joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, &raw mut value) }, 0, "the thread ends");
    value
}

/// Forks children whose first calls come from four threads at once. The threads get the stacks of
/// joined threads of the parent, so starting them does not allocate.
fn fork_threads() {
    const THREADS: u32 = 4;
    static HERE: AtomicU32 = AtomicU32::new(0);
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        HERE.fetch_add(1, SeqCst);
        while HERE.load(SeqCst) < THREADS {
            core::hint::spin_loop();
        }
        churn(20);
        null_mut()
    }
    let four = || {
        HERE.store(0, SeqCst);
        let threads = [0; THREADS as usize].map(|_| start(body));
        for thread in threads {
            join(thread);
        }
    };
    four();
    for _ in 0..30 {
        // SAFETY: there is one thread, so the child may do anything.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            four();
            // SAFETY: the call takes no pointer, and the child has no work left.
            unsafe { libc::_exit(0) }
        }
        let mut status = 0;
        // SAFETY: the pointer is valid for writes.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(status, 0, "the child ended well");
    }
}

struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: several threads may use a mutex of the C library.
unsafe impl Sync for Mutex {}

/// Cancels a thread that holds a mutex and allocates. `malloc` is not a cancellation point, so the
/// thread unlocks the mutex.
fn cancelled() {
    static MUTEX: Mutex = Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    static STAGE: AtomicU32 = AtomicU32::new(0);
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        // SAFETY: the mutex is initialised.
        assert_eq!(unsafe { libc::pthread_mutex_lock(MUTEX.0.get()) }, 0);
        STAGE.store(1, SeqCst);
        while STAGE.load(SeqCst) < 2 {
            core::hint::spin_loop();
        }
        churn(100_000);
        // SAFETY: this thread locked the mutex.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(MUTEX.0.get()) }, 0);
        null_mut()
    }
    let thread = start(body);
    while STAGE.load(SeqCst) < 1 {
        core::hint::spin_loop();
    }
    // SAFETY: the thread exists, because it was not joined.
    assert_eq!(unsafe { libc::pthread_cancel(thread) }, 0);
    STAGE.store(2, SeqCst);
    assert!(join(thread).is_null(), "the thread was not cancelled");
    // SAFETY: the mutex is initialised.
    assert_eq!(unsafe { libc::pthread_mutex_trylock(MUTEX.0.get()) }, 0, "the thread unlocked its mutex");
}

/// Two threads of real-time priority run on one processor. The urgent thread sleeps, wakes at
/// arbitrary points of the other thread's work, and calls the allocator. Both threads make most of
/// their calls in a late destructor, where the recorder borrows a stream for each call.
fn priorities() {
    static KEY: AtomicU32 = AtomicU32::new(0);
    static DONE: AtomicBool = AtomicBool::new(false);
    /// Makes the thread's calls in the third run of this destructor. The low byte of `value` counts
    /// the earlier runs for the thread.
    unsafe extern "C" fn ends(value: *mut c_void) {
        if value.addr() & 0xff < 2 {
            // When this destructor runs again, the recorder has seen the end of the thread.
            carry(value.addr() + 1);
        } else if value.addr() >> 8 == 1 {
            churn(40_000);
            DONE.store(true, SeqCst);
        } else {
            while !DONE.load(SeqCst) {
                // SAFETY: the call takes no pointer.
                unsafe { libc::usleep(50) };
                // These calls fill about one packet.
                churn(2000);
            }
        }
    }
    fn carry(value: usize) {
        // SAFETY: the key exists as long as the program, and the value is never dereferenced.
        unsafe { libc::pthread_setspecific(KEY.load(Relaxed), core::ptr::without_provenance(value)) };
    }
    fn begin(priority: i32) -> *mut c_void {
        assert!(be_urgent(priority), "this thread may be less urgent than the one that started it");
        churn(20);
        carry((priority as usize) << 8);
        null_mut()
    }
    extern "C" fn patient(_: *mut c_void) -> *mut c_void {
        begin(1)
    }
    extern "C" fn urgent(_: *mut c_void) -> *mut c_void {
        begin(2)
    }
    let mut key = 0;
    // SAFETY: the pointer is valid for writes.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(ends)) }, 0);
    KEY.store(key, Relaxed);
    one_processor();
    // At this priority, this thread starts both threads before either of them runs.
    if !be_urgent(3) {
        refused("SCHED_FIFO");
    }
    // The signal of the alarm ends the program if it hangs.
    // SAFETY: the call takes no pointer.
    unsafe { libc::alarm(20) };
    for thread in [start(patient), start(urgent)] {
        join(thread);
    }
}

/// Gives the calling thread a real-time priority. Returns whether the system allowed that.
fn be_urgent(priority: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the pointer refers to a structure of the right type.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

/// Restricts the calling thread, and the threads that it starts later, to one processor.
fn one_processor() {
    // SAFETY: a set of processors has only integers, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is valid for the given size.
    unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    let last = (0..libc::CPU_SETSIZE as usize).rfind(|cpu| {
        // SAFETY: the number is within the set.
        unsafe { libc::CPU_ISSET(*cpu, &set) }
    });
    // SAFETY: a set of processors has only integers, for which zeros are valid.
    let mut one: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the number is within the set.
    unsafe { libc::CPU_SET(last.expect("the thread runs on a processor"), &mut one) };
    // SAFETY: the pointer is valid for the given size.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&one), &raw const one) } != 0 {
        refused("sched_setaffinity");
    }
}

/// Returns a seccomp filter with the action `these` for the system calls in `calls`, and the
/// action `others` for all others.
fn filter(calls: &[libc::c_long], these: u32, others: u32) -> Vec<libc::sock_filter> {
    let one = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let count = calls.len() as u8;
    // The number of the call is at offset 0 of the filter's input.
    let mut program = vec![one((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, 0)];
    program.extend((1..).zip(calls).map(|(index, call)| {
        one((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, count - index + 1, 0, *call as u32)
    }));
    let answer = |action| one((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, action);
    program.extend([answer(others), answer(these)]);
    program
}

/// Enters a sandbox whose filter does not list the recorder's calls, and allocates there.
fn sandbox(by_syscall: bool) {
    churn(10);
    let allowed = [libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_write, libc::SYS_exit_group];
    let mut program = filter(&allowed, libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_KILL_PROCESS);
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the call takes no pointer.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        refused("no new privileges");
    }
    let place = &raw const program;
    let entered = if by_syscall {
        // SAFETY: `place` points to a valid filter program.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, place) as i32 }
    } else {
        // SAFETY: `place` points to a valid filter program.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, place) }
    };
    if entered != 0 {
        refused("seccomp");
    }
    churn(200_000);
    // SAFETY: the program has no work left, and the sandbox allows this call.
    unsafe { libc::_exit(0) }
}

/// Asks whether the system supports filters, as libraries do, and continues without a filter.
fn no_sandbox() {
    // SAFETY: a null program is refused.
    let answer = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, null::<c_void>()) };
    let error = std::io::Error::last_os_error();
    assert_eq!((answer, error.raw_os_error()), (-1, Some(libc::EFAULT)));
    // SAFETY: a null program is refused.
    let answer =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, null::<c_void>()) };
    let error = std::io::Error::last_os_error();
    assert_eq!((answer, error.raw_os_error()), (-1, Some(libc::EFAULT)));
    // This call shows that all six arguments reach the kernel.
    // SAFETY: the new mapping does not replace an existing one, and nothing uses it.
    let at = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::syscall(libc::SYS_mmap, null::<c_void>(), 8192_usize, access, kind, -1, 0_usize)
    };
    assert!(at > 0, "{}", std::io::Error::last_os_error());
    churn(100_000);
}

fn limit_memory(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the pointer refers to a structure of the right type.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

/// Limits the process's address space to 512 MiB, and reserves 128 MiB of it.
fn address_space() {
    limit_memory(512 << 20);
    churn(100_000);
    let mut large = Vec::<u8>::new();
    assert!(large.try_reserve_exact(128 << 20).is_ok(), "there is room for 128 MiB");
}

/// Limits the address space so that the process can map no more memory.
fn no_address_space() {
    churn(10);
    limit_memory(4096);
    churn(200_000);
}

/// Fills the disk with the trace of this process. Then copies the trace to the path that the test
/// names.
fn full_disk() {
    churn(200_000);
    let path = std::env::var("EPHEMERA_TRACE").expect("the test sets this variable");
    let own = format!("{path}.{}", std::process::id());
    let to = std::env::args_os().nth(2).expect("the path of the copy");
    std::fs::copy(own, to).expect("both files exist");
}

/// Prints the results of the aligned allocation functions for usual and unusual arguments.
fn odd_alignments() {
    // Each printed line includes `errno`, which this closure returns and clears.
    let errno = || {
        // SAFETY: the pointer refers to a word of the calling thread, which is always valid.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: the pointer refers to a word of the calling thread, which is always valid.
        unsafe { core::mem::replace(&mut *place, 0) }
    };
    unsafe extern "C" {
        fn valloc(size: usize) -> *mut c_void;
        fn pvalloc(size: usize) -> *mut c_void;
    }
    let said = |name: &str, align: usize, size: usize, block: *mut c_void| {
        let errno = errno();
        println!("{name}({align}, {size}): {} {errno}", if block.is_null() { "null" } else { "a block" });
        // SAFETY: the block is null, or is freed only here.
        unsafe { libc::free(block) };
    };
    errno();
    for align in [
        0,
        1,
        2,
        3,
        7,
        8,
        24,
        48,
        100,
        4096,
        4097,
        1 << 62,
        (1 << 63) - 1,
        1 << 63,
        (1 << 63) + 1,
        usize::MAX,
    ] {
        for size in [0, 1, 10, SIZE, usize::MAX - 4096, usize::MAX] {
            // SAFETY: the functions accept any arguments.
            said("aligned_alloc", align, size, unsafe { libc::aligned_alloc(align, size) });
            // SAFETY: the functions accept any arguments.
            said("memalign", align, size, unsafe { libc::memalign(align, size) });
            let mut block = null_mut();
            // SAFETY: the function accepts any arguments, and the pointer is valid for writes.
            let status = unsafe { libc::posix_memalign(&raw mut block, align, size) };
            println!("posix_memalign({align}, {size}): {status}");
            said("posix_memalign", align, size, block);
        }
    }
    for size in [0, 1, 10, 4096, SIZE, usize::MAX - 4096, usize::MAX] {
        // SAFETY: the functions accept any arguments.
        said("valloc", 0, size, unsafe { valloc(size) });
        // SAFETY: the functions accept any arguments.
        said("pvalloc", 0, size, unsafe { pvalloc(size) });
    }
    drop(block());
}
