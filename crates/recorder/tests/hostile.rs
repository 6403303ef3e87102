//! Tests with valid programs that a careless recorder would break. Under this recorder, each
//! program behaves as it does alone.
#![cfg(target_os = "linux")]
#![expect(clippy::std_instead_of_alloc, reason = "tests that always have std")]

use core::ffi::CStr;
use std::ffi::CString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ephemera_recorder::format::{Origin, Stop};
use ephemera_recorder::{Summary, What};

use self::support::{Dir, busy, counted, good};

#[path = "support/mod.rs"]
mod support;

/// Returns whether the program had everything that the test needs. If not, prints a note, and the
/// caller lets the test pass. Panics if the program failed for another reason.
fn ran(output: &Output) -> bool {
    if output.status.code() == Some(77) {
        println!("not run: {}", String::from_utf8_lossy(&output.stdout).trim());
        return false;
    }
    good(output);
    true
}

/// Returns a seccomp filter that makes each of these system calls fail with an error number. An
/// answer with a third argument applies only to calls with this argument.
fn answering(answers: &[Answer]) -> Vec<libc::sock_filter> {
    let one = |code, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    // In the filter's input, the call's number is at offset 0, and the low half of its third
    // argument is at offset 32.
    let load = |offset| one(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let equal = |value, otherwise| one(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, otherwise, value);
    let answer = |action| one(libc::BPF_RET | libc::BPF_K, 0, 0, action);
    let mut program = Vec::new();
    for (call, third, error) in answers {
        program.extend([load(0), equal(*call as u32, if third.is_some() { 3 } else { 1 })]);
        program.extend(third.iter().flat_map(|third| [load(32), equal(*third, 1)]));
        program.push(answer(libc::SECCOMP_RET_ERRNO | error.cast_unsigned()));
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

/// Lets the command run under the filter `program`.
fn filtered(command: &mut Command, mut program: Vec<libc::sock_filter>) {
    let enter = move || {
        // SAFETY: the call takes no pointer.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: `program` is a valid filter program with the stated length.
        match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes only two system calls and does not allocate.
    unsafe { command.pre_exec(enter) };
}

/// Runs the command under a filter with these answers. If the system refuses what the test needs,
/// prints a note and returns `None`, and the caller lets the test pass.
fn under(command: &mut Command, answers: &[Answer]) -> Option<Output> {
    filtered(command, answering(answers));
    match command.output() {
        Ok(output) if ran(&output) => Some(output),
        Ok(_) => None,
        Err(error) => {
            println!("not run: {error}");
            None
        }
    }
}

/// A system call, the required third argument if there is one, and the error number of the answer.
type Answer = (libc::c_long, Option<u32>, i32);

/// The answer of kernels before 5.14 to `MADV_POPULATE_WRITE`.
const NO_POPULATE: Answer =
    (libc::SYS_madvise, Some(libc::MADV_POPULATE_WRITE.cast_unsigned()), libc::EINVAL);

/// Returns a path to the directory `to` through 39 symbolic links, each with 1,800 extra
/// components. The kernel needs a while to open a file by this path.
fn slow_path(to: &Path) -> PathBuf {
    let mut next = to.to_owned();
    for link in 0..39 {
        let path = to.with_extension(format!("link-{link}"));
        let name = next.file_name().expect("the path has a last component").to_string_lossy();
        let target = format!("{}{name}", "./".repeat(1800));
        std::os::unix::fs::symlink(target, &path).expect("cargo's directory can be written");
        next = path;
    }
    next
}

#[test]
fn conc_the_threads_of_a_child_restart_its_recording_once() {
    let dir = Dir::new("fork-threads");
    let slow = slow_path(&dir.0);
    let output = dir.command(busy()).arg("fork-threads").env("EPHEMERA_TRACE", slow.join("t")).output();
    (0..39).for_each(|link| {
        std::fs::remove_file(dir.0.with_extension(format!("link-{link}"))).expect("it was made above");
    });
    good(&output.expect("the program was built"));
    let traces = dir.traces();
    let children: Vec<_> = traces.iter().filter(|trace| trace.origin == Some(Origin::Fork)).collect();
    assert_eq!(children.len(), 30);
    for child in children {
        assert_eq!((counted(child), child.dropped, child.stop), ((80, 80, 0), 0, None), "{}", child.pid);
    }
}

#[test]
fn malloc_is_not_a_cancellation_point() {
    for answers in [vec![], vec![NO_POPULATE]] {
        let dir = Dir::new("cancelled");
        let mut command = dir.command(busy());
        if under(command.arg("cancelled"), &answers).is_some() {
            assert_eq!(counted(&dir.trace()), (100_000, 100_000, 0));
        }
    }
}

#[test]
fn conc_an_urgent_waiter_does_not_starve_the_holder_of_the_lock() {
    let dir = Dir::new("priorities");
    if ran(&dir.run("priorities")) {
        let trace = dir.trace();
        let (blocks, here, _) = counted(&trace);
        assert!(blocks >= 40_000 && here == blocks && trace.dropped == 0, "{blocks} {here}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_sandbox_ends_the_trace_and_not_the_program() {
    for mode in ["sandbox-prctl", "sandbox-seccomp"] {
        let dir = Dir::new(mode);
        if ran(&dir.run(mode)) {
            let trace = dir.trace();
            assert_eq!(trace.stop, Some(Stop::Sandbox), "{mode}");
            assert_eq!(counted(&trace), (10, 10, 0), "{mode}");
            assert!(trace.caveats()[0].contains("sandbox"), "{:?}", trace.caveats());
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_refused_sandbox_does_not_end_the_recording() {
    let dir = Dir::new("no-sandbox");
    good(&dir.run("no-sandbox"));
    let trace = dir.trace();
    assert_eq!((trace.stop, counted(&trace)), (None, (100_000, 100_000, 0)));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_filter_that_other_threads_cannot_get_does_not_end_the_recording() {
    let dir = Dir::new("unsynchronised");
    if ran(&dir.run("unsynchronised")) {
        let trace = dir.trace();
        assert_eq!((trace.stop, counted(&trace)), (None, (1000, 1000, 0)));
    }
}

#[test]
fn a_trace_takes_little_address_space() {
    let dir = Dir::new("address-space");
    let most = u64::MAX.to_string();
    let output = dir.command(busy()).arg("address-space").env("EPHEMERA_TRACE_LIMIT", most).output();
    good(&output.expect("the program was built"));
    let trace = dir.trace();
    assert_eq!((trace.stop, counted(&trace)), (None, (100_000, 100_000, 0)));
}

#[test]
fn a_program_without_address_space_ends_the_trace_and_not_the_program() {
    let dir = Dir::new("no-address-space");
    good(&dir.run("no-address-space"));
    let trace = dir.trace();
    assert_eq!(trace.stop, Some(Stop::Memory));
    assert!(counted(&trace).0 > 1000);
    assert!(trace.caveats()[0].contains("ulimit -v"), "{:?}", trace.caveats());
}

#[test]
#[cfg(target_arch = "x86_64")]
fn only_the_call_of_a_signal_handler_is_dropped() {
    let dir = Dir::new("handler-allocates");
    let output = dir.run("handler-allocates");
    good(&output);
    let handlers: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of handlers");
    let trace = dir.trace();
    assert_eq!((trace.stop, counted(&trace)), (None, (50, 50, 0)));
    let found = trace
        .events()
        .map(|event| event.expect("a whole trace").what)
        .filter(|what| matches!(what, What::Alloc { size: 3333, .. }));
    let found = found.count() as u64;
    assert!(trace.dropped > 100 && found > 100, "{} {found}", trace.dropped);
    assert_eq!(2 * found + trace.dropped, 2 * handlers, "the trace counts the calls that it lacks");
    assert!(trace.caveats()[0].contains("signal handlers"), "{:?}", trace.caveats());
    let sum = Summary::of(&trace).expect("a whole trace");
    assert_eq!((sum.lost, sum.twice, sum.unknown), (0, 0, 0));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_signal_handler_may_fork() {
    let dir = Dir::new("handler-forks");
    let output = dir.run("handler-forks");
    good(&output);
    let handlers: usize =
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of handlers");
    let traces = dir.traces();
    let (children, parent): (Vec<_>, Vec<_>) =
        traces.iter().partition(|trace| trace.origin == Some(Origin::Fork));
    assert_eq!((children.len(), parent.len()), (handlers, 1));
    assert_eq!((counted(parent[0]), parent[0].dropped), ((6, 6, 0), 0));
    for child in children {
        let (blocks, ..) = counted(child);
        assert!((20..=21).contains(&blocks) && child.stop.is_none(), "{blocks}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_child_of_a_signal_handler_that_returns_late_keeps_its_parents_events() {
    let dir = Dir::new("handler-forks-and-waits");
    good(&dir.run("handler-forks-and-waits"));
    let traces = dir.traces();
    let parents: Vec<_> = traces.iter().filter(|trace| trace.origin != Some(Origin::Fork)).collect();
    assert_eq!(parents.len(), 1);
    assert_eq!((counted(parents[0]), parents[0].dropped), ((121, 121, 0), 0));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_reused_descriptor_is_not_closed() {
    for (answers, stop) in [(vec![], None), (vec![NO_POPULATE], Some(Stop::Path))] {
        let dir = Dir::new("closefrom");
        let own = dir.0.with_extension("own");
        let mut command = dir.command(busy());
        let output = under(command.arg("closefrom").arg(&own), &answers);
        // A program that did not run has not created this file.
        let _ = std::fs::remove_file(&own);
        if output.is_some() {
            let trace = dir.trace();
            let (blocks, ..) = counted(&trace);
            assert_eq!(trace.stop, stop, "{answers:?}");
            assert!(blocks == 100_000 || stop.is_some(), "{blocks}");
        }
    }
}

#[test]
fn a_reservation_that_is_interrupted_each_time_falls_back_to_zeros() {
    let dir = Dir::new("interrupted");
    let mut command = dir.command(busy());
    let interrupted = (libc::SYS_fallocate, None, libc::EINTR);
    if under(command.arg("many"), &[NO_POPULATE, interrupted]).is_some() {
        let trace = dir.trace();
        assert_eq!((trace.stop, counted(&trace)), (None, (200_000, 200_000, 0)));
    }
}

/// Writes `text` to the file `path` without allocating. Returns `false` if the system refuses.
fn put(path: &CStr, text: &[u8]) -> bool {
    // SAFETY: the path is NUL-terminated.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    // SAFETY: `text` is valid for reads of its length. A negative descriptor is refused.
    let written = unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
    // SAFETY: the call takes no pointer. A negative descriptor is refused.
    unsafe { libc::close(fd) };
    written > 0
}

/// Mounts a small file system that only the command sees.
fn mounted(command: &mut Command, at: &Path) {
    let at = CString::new(at.as_os_str().as_encoded_bytes()).expect("the text contains no zero byte");
    // SAFETY: the function has no preconditions.
    let users = format!("0 {} 1", unsafe { libc::geteuid() });
    // SAFETY: the function has no preconditions.
    let groups = format!("0 {} 1", unsafe { libc::getegid() });
    let mount = move || {
        // SAFETY: the call takes no pointer.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            // A user other than root first becomes root of a new user namespace.
            // SAFETY: the call takes no pointer.
            let alone = unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } == 0
                && put(c"/proc/self/setgroups", b"deny")
                && put(c"/proc/self/uid_map", users.as_bytes())
                && put(c"/proc/self/gid_map", groups.as_bytes());
            if !alone {
                return Err(io::Error::last_os_error());
            }
        }
        let private = libc::MS_REC | libc::MS_PRIVATE;
        let none = core::ptr::null();
        // SAFETY: the strings are NUL-terminated.
        unsafe { libc::mount(none, c"/".as_ptr(), none, private, none.cast()) };
        let options = c"size=512k,mode=777".as_ptr().cast();
        let kind = c"tmpfs".as_ptr();
        // SAFETY: the strings are NUL-terminated.
        match unsafe { libc::mount(kind, at.as_ptr(), kind, 0, options) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes system calls and does not allocate.
    unsafe { command.pre_exec(mount) };
}

/// Without reserved space, a write to a mapped page on a full disk would end the program by
/// `SIGBUS`.
#[test]
fn a_full_disk_ends_the_trace_and_not_the_program() {
    let no_fallocate = (libc::SYS_fallocate, None, libc::EOPNOTSUPP);
    for answers in [vec![], vec![no_fallocate], vec![NO_POPULATE], vec![NO_POPULATE, no_fallocate]] {
        let dir = Dir::new("full-disk");
        let disk = dir.0.with_extension("disk");
        std::fs::create_dir_all(&disk).expect("cargo's directory can be written");
        let mut command = dir.command(busy());
        command.env("EPHEMERA_TRACE", disk.join("t")).arg("full-disk").arg(dir.0.join("copy"));
        mounted(&mut command, &disk);
        filtered(&mut command, answering(&answers));
        let output = command.output();
        std::fs::remove_dir_all(&disk).expect("the directory is empty");
        let Ok(output) = output else {
            println!("not run: the system refuses a private mount: {}", output.expect_err("no output"));
            return;
        };
        assert_ne!(output.status.signal(), Some(libc::SIGBUS), "{answers:?}");
        good(&output);
        let trace = dir.trace();
        assert_eq!(trace.stop, Some(Stop::Disk), "{answers:?}");
        let (blocks, here, _) = counted(&trace);
        assert!(blocks > 5000 && here + 1 >= blocks, "{answers:?}: {blocks} {here}");
    }
}

#[test]
fn unusual_alignments_get_the_allocators_own_results() {
    let dir = Dir::new("odd-alignments");
    let alone = Command::new(busy()).arg("odd-alignments").output().expect("the program was built");
    good(&alone);
    let recorded = dir.run("odd-alignments");
    good(&recorded);
    let recorded = String::from_utf8_lossy(&recorded.stdout);
    let alone = String::from_utf8_lossy(&alone.stdout);
    assert_eq!(recorded.lines().count(), alone.lines().count());
    for (recorded, alone) in recorded.lines().zip(alone.lines()) {
        assert_eq!(recorded, alone);
    }
    let sum = Summary::of(&dir.trace()).expect("a whole trace");
    assert_eq!((sum.lost, sum.twice), (0, 0));
}
