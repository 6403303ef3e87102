//! Support for tests that must end their process. Such a test runs itself again in a child process
//! and checks how the child ends.
//!
//! Miri cannot start processes, so such tests must be ignored under Miri.
//!
//! # Examples
//!
//! ```no_run
//! use ephemera_testkit::child;
//!
//! // #[test]
//! fn overflow_aborts_the_process() {
//!     if child::part().is_some() {
//!         child::end_unless_it_ends(|| std::process::abort());
//!     }
//!     let ended = child::run("tests::overflow_aborts_the_process", "abort");
//!     assert!(!ended.succeeded() && !ended.panicked(), "{ended:?}");
//! }
//! ```

use core::panic::UnwindSafe;
use std::panic::catch_unwind;
use std::process::{Command, ExitStatus};

/// The environment variable that marks a child process. Its value names the part that the child
/// runs.
const PART: &str = "EPHEMERA_TESTKIT_PART";

/// The exit code of a child that panicked instead of ending its process.
const UNWOUND: i32 = 3;

/// Returns the name of the part that this child process runs, or `None` in the parent process.
#[must_use]
pub fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// Runs `act`, which should end the process. If `act` returns or panics, ends the process with an
/// exit code that tells the parent which of the two happened.
pub fn end_unless_it_ends(act: impl FnOnce() + UnwindSafe) -> ! {
    std::process::exit(if catch_unwind(act).is_ok() { 0 } else { UNWOUND })
}

/// How a child process ended: its exit status, and the messages that it wrote.
#[derive(Debug)]
pub struct ChildResult {
    status: ExitStatus,
    /// The text that the child wrote to its standard error.
    pub stderr: String,
}

impl ChildResult {
    /// Returns whether the child succeeded.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.status.success()
    }

    /// Returns whether the child panicked instead of ending its process (see
    /// [`end_unless_it_ends`]).
    #[must_use]
    pub fn panicked(&self) -> bool {
        self.status.code() == Some(UNWOUND)
    }
}

/// Returns a command that starts this binary as a child process. The child runs only the test with
/// the full name `test`, and in that test the part `part`.
///
/// # Panics
/// Panics if the system does not report the path of this binary.
#[must_use]
pub fn command(test: &str, part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this test binary"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(PART, part);
    command
}

/// Runs a [`command`] to its end.
///
/// # Panics
/// Panics if the command cannot be started, or if this binary has no test of that name, because a
/// child that runs no test succeeds.
#[must_use]
pub fn ended(command: &mut Command) -> ChildResult {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let ran = String::from_utf8_lossy(&output.stdout).contains("running 1 test\n");
    assert!(ran, "no such test: {command:?}");
    ChildResult { status: output.status, stderr: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// Runs the [`command`] for `test` and `part` to its end.
///
/// # Panics
/// Panics if [`command`] or [`ended`] panics.
#[must_use]
pub fn run(test: &str, part: &str) -> ChildResult {
    ended(&mut command(test, part))
}

#[cfg(test)]
mod tests {
    use super::{end_unless_it_ends, part, run};

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot start processes")]
    fn success_panic_and_abort_are_distinguished() {
        const NAME: &str = "child::tests::success_panic_and_abort_are_distinguished";
        if let Some(part) = part() {
            end_unless_it_ends(|| match part.as_str() {
                "abort" => std::process::abort(),
                "panic" => panic!("said so"),
                _ => (),
            });
        }
        let told = |part| {
            let ended = run(NAME, part);
            (ended.succeeded(), ended.panicked(), ended.stderr.contains("said so"))
        };
        assert_eq!(told("abort"), (false, false, false));
        assert_eq!(told("panic"), (false, true, true));
        assert_eq!(told("none"), (true, false, false));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot start processes")]
    #[should_panic(expected = "no such test")]
    fn missing_test_does_not_count_as_success() {
        let _ = run("child::tests::not_there", "none");
    }
}
