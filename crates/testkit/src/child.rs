//! A test that must end its process: it runs itself once more, in a process of its own, and looks at how that ended.
//!
//! Miri starts no processes, and the end of one is seen from outside alone. So such tests are ignored there, and nothing of them would be left to run.
//!
//! # Examples
//!
//! ```no_run
//! use ephemera_testkit::child;
//!
//! // #[test]
//! fn too_many_end_the_process() {
//!     if child::part().is_some() {
//!         child::end_unless_it_ends(|| std::process::abort());
//!     }
//!     let ended = child::run("tests::too_many_end_the_process", "abort");
//!     assert!(!ended.well() && !ended.unwound(), "{ended:?}");
//! }
//! ```

use core::panic::UnwindSafe;
use std::panic::catch_unwind;
use std::process::{Command, ExitStatus};

/// Tells a process that it is a child, and which part it has.
const PART: &str = "EPHEMERA_TESTKIT_PART";

/// How a child ends whose part unwound.
const UNWOUND: i32 = 3;

/// The part of this process, if it is a child.
#[must_use]
pub fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// What a child does that ought to end its process: if it does not, that ends here, and tells the parent whether it unwound.
pub fn end_unless_it_ends(act: impl FnOnce() + UnwindSafe) -> ! {
    std::process::exit(if catch_unwind(act).is_ok() { 0 } else { UNWOUND })
}

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    status: ExitStatus,
    /// What it wrote to standard error.
    pub said: String,
}

impl Ended {
    /// Whether it went through to its end.
    #[must_use]
    pub fn well(&self) -> bool {
        self.status.success()
    }

    /// Whether its part panicked instead of ending the process, see [`end_unless_it_ends`].
    #[must_use]
    pub fn unwound(&self) -> bool {
        self.status.code() == Some(UNWOUND)
    }
}

/// The command that runs one test of this binary, by its full name, as a child with that part.
///
/// # Panics
/// When the system does not tell which binary this is.
#[must_use]
pub fn command(test: &str, part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this test binary"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(PART, part);
    command
}

/// Runs a [`command`] to its end.
///
/// # Panics
/// When it cannot be started, or has no test of that name: it would end well, having done nothing.
#[must_use]
pub fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let ran = String::from_utf8_lossy(&output.stdout).contains("running 1 test\n");
    assert!(ran, "no such test: {command:?}");
    Ended { status: output.status, said: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// Runs one test of this binary as a child.
///
/// # Panics
/// As [`command`] and [`ended`].
#[must_use]
pub fn run(test: &str, part: &str) -> Ended {
    ended(&mut command(test, part))
}

#[cfg(test)]
mod tests {
    use super::{end_unless_it_ends, part, run};

    #[test]
    #[cfg_attr(miri, ignore = "about the end of a process, and Miri starts none to see that")]
    fn each_end_is_told_from_the_others() {
        const NAME: &str = "child::tests::each_end_is_told_from_the_others";
        if let Some(part) = part() {
            end_unless_it_ends(|| match part.as_str() {
                "abort" => std::process::abort(),
                "panic" => panic!("said so"),
                _ => (),
            });
        }
        let told = |part| {
            let ended = run(NAME, part);
            (ended.well(), ended.unwound(), ended.said.contains("said so"))
        };
        assert_eq!(told("abort"), (false, false, false));
        assert_eq!(told("panic"), (false, true, true));
        assert_eq!(told("none"), (true, false, false));
    }

    #[test]
    #[cfg_attr(miri, ignore = "about the end of a process, and Miri starts none to see that")]
    #[should_panic(expected = "no such test")]
    fn a_test_that_is_not_there_is_not_taken_for_one_that_ended_well() {
        let _ = run("child::tests::not_there", "none");
    }
}
