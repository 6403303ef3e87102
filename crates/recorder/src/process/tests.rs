//! Tests of trace names, refused and failed starts, the last thread number, sandboxes, and the end
//! of a trace.

use std::sync::{Mutex, PoisonError};

use super::launch::{SUFFIX, launch, prepare, write_suffix};
use super::*;
use crate::error::StartError;
use crate::format::{Base, FILE_HEADER, PACKET, lead, op};
use crate::{Trace, TraceEvent};

/// The lock that each test takes before it changes, or relies on, the statics of a recording.
static STATICS: Mutex<()> = Mutex::new(());

#[test]
fn a_suffix_names_the_process_and_a_later_image() {
    for (pid, image, said) in [(1, 0, ".1"), (4_294_967_295, 9_999, ".4294967295.9999"), (10, 10, ".10.10")] {
        let mut out = [0; SUFFIX];
        let length = write_suffix(&mut out, pid, image);
        assert_eq!(core::str::from_utf8(&out[..length]), Ok(said));
    }
}

#[test]
fn unsuitable_paths_and_limits_are_refused() {
    assert_eq!(start(c"", 1 << 20), Err(StartError::Path { length: 0 }));
    assert!(matches!(start(c"x", 100), Err(StartError::Limit { least: 36_864 })));
    let long = [b'a'; PATH];
    assert_eq!(launch(&long, 1 << 20, Origin::Call), Err(StartError::Path { length: PATH }));
    let longest = crate::LONGEST_PATH + 1;
    assert_eq!(launch(&long[..longest], 1 << 20, Origin::Call), Err(StartError::Path { length: longest }));
    assert_eq!(crate::LONGEST_PATH, PATH - SUFFIX - 1, "the longest accepted path");
}

/// This is the only test that records its own process.
#[test]
#[cfg_attr(miri, ignore = "it maps a file; run it without Miri")]
fn a_thread_number_that_readers_refuse_ends_the_trace() {
    let _alone = STATICS.lock().unwrap_or_else(PoisonError::into_inner);
    let path = std::env::temp_dir().join(format!("ephemera-threads-{}", std::process::id()));
    let name =
        std::ffi::CString::new(path.to_string_lossy().into_owned()).expect("the text contains no zero byte");
    start(&name, 1 << 20).expect("the directory for temporary files can be written");
    THREADS.store(MOST_THREADS as usize - 1, Relaxed);
    for address in [16, 32] {
        let call = move || record(&Call { lead: lead(op::ALLOC, 0), address, size: Some(1) });
        std::thread::spawn(call).join().expect("no panic");
    }
    let file = format!("{}.{}", path.display(), std::process::id());
    let trace = Trace::open(file.as_ref()).expect("a trace");
    std::fs::remove_file(file).expect("it is there");
    let events: Vec<TraceEvent> = trace.events().map(|event| event.expect("a whole trace")).collect();
    assert_eq!((events.len(), trace.stop), (1, Some(Stop::Threads)));
    assert_eq!(u64::from(events[0].thread), MOST_THREADS);
    assert!(trace.caveats()[0].contains("more threads"), "{:?}", trace.caveats());
}

/// A seccomp filter would end a program whose recorder reads a processor time.
#[test]
#[cfg_attr(miri, ignore = "it takes the recorder's lock; run it without Miri")]
fn no_processor_time_is_read_once_a_thread_enters_a_sandbox() {
    let _alone = STATICS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = os::map_wiped(size_of::<Recording>()).expect("the system has memory");
    // SAFETY: the mapping is large enough and aligned to a page. An all-zero `Recording` is valid
    // and has no file.
    let process = unsafe { &*at.cast::<Recording>() };
    let mut packet = vec![0_u64; PACKET / 8];
    let stream = &process.streams[0];
    stream.holder.store(7, Relaxed);
    // SAFETY: the vector has `PACKET` zeroed bytes that nothing else uses. They are aligned to four
    // bytes or more.
    unsafe { stream.begin(packet.as_mut_ptr().cast(), 0, 7, &Base::default()) };
    let notes = || {
        let before = stream.at.load(Relaxed);
        process.note_clocks_now(stream, 7);
        stream.at.load(Relaxed) > before
    };
    process.state.store(RECORDING, Relaxed);
    assert!(notes());
    process.entering.fetch_add(1, Relaxed);
    assert!(!notes(), "a thread is about to enter a sandbox");
    process.entering.fetch_sub(1, Relaxed);
    assert!(notes());
    process.state.store(STOPPED, Relaxed);
    assert!(!notes(), "the recording has ended");
    // SAFETY: the test has no further use for its mapping.
    unsafe { os::unmap(at, size_of::<Recording>()) };
}

/// The thread that enters the sandbox does not exist in the child, so no thread would lower an
/// inherited count there.
#[test]
#[cfg_attr(miri, ignore = "it forks; run it without Miri")]
fn a_child_that_is_forked_while_a_thread_enters_a_sandbox_records() {
    let _alone = STATICS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = os::map_wiped(size_of::<Recording>()).expect("the system has memory");
    // SAFETY: the mapping is large enough and aligned to a page. An all-zero `Recording` is valid
    // and has no file.
    let process = unsafe { &*at.cast::<Recording>() };
    process.state.store(RECORDING, Relaxed);
    process.entering.fetch_add(1, Relaxed);
    let path = std::env::temp_dir().join(format!("ephemera-entering-{}", std::process::id()));
    let name =
        std::ffi::CString::new(path.to_string_lossy().into_owned()).expect("the text contains no zero byte");
    // SAFETY: the function has no preconditions.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the child has one thread.
        unsafe { ASKED.set(name.as_bytes(), &[]) };
        let mut key = 0;
        // SAFETY: the pointer is valid for writes.
        unsafe { libc::pthread_key_create(&raw mut key, None) };
        KEY.store(key, Relaxed);
        LIMIT.store(1 << 20, Relaxed);
        THREADS.store(0, Relaxed);
        PROCESS.store(at.cast(), Relaxed);
        (1..=20)
            .for_each(|block| record(&Call { lead: lead(op::ALLOC, 0), address: 16 * block, size: Some(1) }));
        // SAFETY: the call takes no pointer, and the child has no work left.
        unsafe { libc::_exit(0) }
    }
    process.entering.fetch_sub(1, Relaxed);
    // SAFETY: the test has no further use for its mapping.
    unsafe { os::unmap(at, size_of::<Recording>()) };
    let mut status = 0;
    // SAFETY: the pointer is valid for writes.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child ended well");
    let file = format!("{}.{child}", path.display());
    let trace = Trace::open(file.as_ref()).expect("a trace");
    std::fs::remove_file(file).expect("it is there");
    assert_eq!((trace.events().count(), trace.dropped, trace.stop), (20, 0, None));
}

/// Calls `body` and runs `handler` after each instruction of `body`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) fn stepwise(handler: extern "C" fn(i32), body: impl FnOnce()) {
    /// The lock of the action of `SIGTRAP`.
    static ACTION: Mutex<()> = Mutex::new(());
    let _alone = ACTION.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the structure is plain data, and zeros are valid.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // SAFETY: the structure is valid, and the handler has the type that `sa_flags` requires.
    assert_eq!(unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, core::ptr::null_mut()) }, 0);
    // SAFETY: the trap flag only raises `SIGTRAP`, which has a handler.
    unsafe { core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    body();
    // SAFETY: clearing the trap flag only ends the signals.
    unsafe { core::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

/// A thread that finds the recording stopped misses a call. Readers must ignore every later event,
/// because the trace would look complete otherwise.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn an_event_after_a_missed_call_is_beyond_the_end_of_the_trace() {
    static SEEN: AtomicPtr<Recording> = AtomicPtr::new(core::ptr::null_mut());
    static LATER: AtomicU64 = AtomicU64::new(u64::MAX);
    /// Acts as two other threads: one misses a call, and the other then records an event.
    extern "C" fn handler(_: i32) {
        // SAFETY: the recording outlives the steps.
        let process = unsafe { &*SEEN.load(Relaxed) };
        if process.state.load(Relaxed) == STOPPED && LATER.load(Relaxed) == u64::MAX {
            LATER.store(SEQUENCE.fetch_add(1, Relaxed), Relaxed);
        }
    }
    let _alone = STATICS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = os::map_wiped(size_of::<Recording>()).expect("the system has memory");
    SEEN.store(at.cast(), Relaxed);
    // SAFETY: the mapping is large enough and aligned to a page. An all-zero `Recording` is valid
    // and has no file.
    let process = unsafe { &*at.cast::<Recording>() };
    let mut head = vec![0_u64; FILE_HEADER / 8];
    process.base.store(head.as_mut_ptr().cast(), Relaxed);
    process.state.store(RECORDING, Relaxed);
    stepwise(handler, || process.stop(Stop::Limit));
    let end = u64::from_le(head[header::STOP_SEQUENCE / 8]);
    assert!((end..u64::MAX).contains(&LATER.load(Relaxed)), "{LATER:?} {end}");
    // SAFETY: the test has no further use for its mapping.
    unsafe { os::unmap(at, size_of::<Recording>()) };
}

/// A process has at most 1,024 keys.
#[test]
#[cfg_attr(miri, ignore = "it opens a file; run it without Miri")]
fn a_start_that_fails_keeps_no_key() {
    let _alone = STATICS.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..2000 {
        let refused = prepare(b"/a directory that does not exist/t", 1 << 20, Origin::Call);
        assert_eq!(refused, Err(StartError::System { call: "open", errno: libc::ENOENT }));
    }
}
