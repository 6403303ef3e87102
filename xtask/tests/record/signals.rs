//! Tests of signals that end the program, signals that the tool passes on, and signals that the
//! program sends itself.

use core::time::Duration;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use ephemera_recorder::Trace;

use super::{Dir, recording};

/// The signals that these tests send.
const SIGNALS: [core::ffi::c_int; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM, libc::SIGTERM];

/// A recording in its own process group, whose program has printed a line.
pub(super) struct Running {
    child: Child,
    printed: BufReader<ChildStdout>,
}

impl Running {
    pub(super) fn start(out: &Path, script: &str) -> Self {
        use std::os::unix::process::CommandExt;
        let mut command = recording(out, &["sh", "-c", script]);
        // The tests may run under `nohup`, and the tool does not pass on signals that it ignores.
        let by_default = || {
            for signal in SIGNALS {
                // SAFETY: the signals are valid, and the call does not install a handler.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            Ok(())
        };
        // SAFETY: the closure makes system calls and does not allocate.
        unsafe { command.pre_exec(by_default) };
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().expect("cargo built it");
        let mut printed = BufReader::new(child.stdout.take().expect("the stream is piped"));
        printed.read_line(&mut String::new()).expect("the program says that it has begun");
        Self { child, printed }
    }

    /// Sends a signal to the tool, or with `group` to its process group, as a terminal does.
    pub(super) fn signal(&self, signal: &str, group: bool) {
        let target = format!("{}{}", if group { "-" } else { "" }, self.child.id());
        let sent = Command::new("kill").args([signal, "--", &target]).status();
        assert!(sent.expect("there is a `kill`").success());
    }

    /// Waits for the end of the recording. Returns its exit status and its summary.
    pub(super) fn end(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if start.elapsed() > Duration::from_secs(60) {
                self.signal("-KILL", true);
                panic!("the recording did not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        // A program that outlives the tool would keep the pipe open. Usually the group is empty.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let printed: Vec<String> = self.printed.lines().map_while(Result::ok).collect();
        (status.code(), printed.join("\n"))
    }
}

#[test]
fn ctrl_c_ends_the_program_and_keeps_the_trace() {
    let dir = Dir::new("interrupt");
    for (name, script, signal, group, status) in [
        // A server that catches the signal and chooses its exit status.
        ("server", "trap 'exit 7' INT; echo up; while :; do sleep 0.05; done", "-INT", true, 7),
        ("client", "echo up; exec sleep 60", "-INT", true, 130),
        // A supervisor sends the signal to the tool only.
        ("alone", "echo up; exec sleep 60", "-TERM", false, 143),
    ] {
        let out = dir.join(name);
        let running = Running::start(&out, script);
        running.signal(signal, group);
        let (code, said) = running.end();
        assert_eq!(code, Some(status), "{name}: {said}");
        assert!(said.contains("events") && said.contains("peak live"), "{name}: {said}");
        let trace = Trace::open(&out).expect("the trace is kept");
        assert!(trace.events().count() > 0, "{name}");
    }
}

/// The program stops the tool, so that two signals are pending when the program has ended.
#[test]
fn signals_that_are_pending_at_the_end_do_not_end_the_tool() {
    let dir = Dir::new("pending");
    let out = dir.join("trace");
    let helper = "(until grep -q ') Z' /proc/$$/stat; do sleep 0.05; done; kill -CONT $PPID) &";
    let script =
        format!("trap '' TERM HUP; echo up; kill -STOP $PPID; kill -TERM 0; kill -HUP 0; {helper} exit 4");
    let (code, said) = Running::start(&out, &script).end();
    assert_eq!(code, Some(4), "{said}");
    assert!(Trace::open(&out).is_ok(), "the trace is kept");
}

#[test]
fn a_signal_to_the_tool_alone_is_passed_on() {
    let dir = Dir::new("messages");
    for name in ["HUP", "USR1", "USR2", "ALRM"] {
        let out = dir.join(name);
        let script = format!("trap 'echo caught; exit 5' {name}; echo up; while :; do sleep 0.05; done");
        let running = Running::start(&out, &script);
        running.signal(&format!("-{name}"), false);
        let (code, said) = running.end();
        assert!(code == Some(5) && said.starts_with("caught"), "{name}: {code:?} {said}");
        assert!(Trace::open(&out).is_ok(), "{name}: the trace is kept");
    }
}

/// The tool and the shell handle the pending signal with the lowest number first, and SIGTERM has
/// a higher number than the others.
#[test]
fn a_signal_of_the_program_to_its_group_reaches_the_program_once() {
    let dir = Dir::new("group");
    for name in ["HUP", "USR1", "USR2", "ALRM"] {
        let itself = format!("kill -{name} 0; helper=$$");
        // The helper keeps running, because the tool looks up the sender.
        let helper = format!("(trap '' {name}; kill -{name} 0; exec sleep 60) & helper=$!");
        for (sender, send) in [("itself", itself), ("helper", helper)] {
            let out = dir.join(&format!("{name}-{sender}"));
            let script = format!(
                "n=0; trap 'n=$((n+1))' {name}; {send}; while [ $n = 0 ]; do sleep 0.05; done; \
                 trap 'echo $n times; [ $helper = $$ ] || kill $helper; exit 5' TERM; echo up; \
                 while :; do sleep 0.05; done"
            );
            let running = Running::start(&out, &script);
            running.signal("-TERM", false);
            let (code, said) = running.end();
            assert!(code == Some(5) && said.starts_with("1 times"), "{name} {sender}: {code:?} {said}");
            assert!(Trace::open(&out).is_ok(), "{name} {sender}: the trace is kept");
        }
    }
}
