//! Builds and runs tests with `cargo test`, and counts the tests that ran. Cargo succeeds even if a
//! filter matches no test, and such a run must not count as a passed check.

use anyhow::{Result, bail};

use crate::shell::{Captured, Cmd};
use crate::steps::Outcome;

/// The part of a test's name that marks a comparison of compiler messages. Such tests pass on the
/// pinned compiler only.
pub(crate) const COMPILE_FAIL: &str = "compile_fail";

/// The part of a test's name that marks a threaded test.
pub(crate) const THREADED: &str = "conc_";

/// The results that the test programs of one command printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TestCounts {
    /// Tests that were started. Under Miri with many seeds, each test counts once for each seed.
    pub(crate) started: u64,
    pub(crate) passed: u64,
    /// Tests that failed. A test that ends its process is not counted.
    pub(crate) failed: u64,
}

/// Adds up the numbers in the lines `running N tests` and `test result: …` of an output.
pub(crate) fn counts(text: &str) -> TestCounts {
    let mut counts = TestCounts::default();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("running ") {
            let mut words = rest.split(' ');
            let number = words.next().and_then(|word| word.parse::<u64>().ok());
            if let (Some(number), Some("test" | "tests")) = (number, words.next()) {
                counts.started += number;
            }
        } else if let Some((_, rest)) = line.split_once("test result: ") {
            for part in rest.split([';', '.']) {
                let mut words = part.trim().split(' ');
                let number = words.next().and_then(|word| word.parse::<u64>().ok());
                match (number, words.next()) {
                    (Some(number), Some("passed")) => counts.passed += number,
                    (Some(number), Some("failed")) => counts.failed += number,
                    _ => {}
                }
            }
        }
    }
    counts
}

/// A `cargo test` command, with the arguments before and after `--` separated.
#[derive(Debug, Clone)]
pub(crate) struct TestRun {
    /// The command up to `--`.
    pub(crate) cargo: Cmd,
    /// The arguments of the test programs: filters and flags.
    pub(crate) harness: Vec<String>,
}

impl TestRun {
    /// Builds the test programs and shows cargo's progress. Returns whether they compile.
    pub(crate) fn build(&self) -> Result<bool> {
        self.cargo.clone().arg("--no-run").run()
    }

    pub(crate) fn command(&self) -> Cmd {
        self.cargo.clone().arg("--").args(&self.harness)
    }

    /// Builds the tests, runs them and counts them. If no test ran, the outcome is a failure with
    /// the message `nothing`. Returns an error if the build or a test failed.
    pub(crate) fn check(&self, nothing: &str) -> Result<Outcome> {
        let counts = self.counted()?;
        if counts.started == 0 {
            return Ok(Outcome::Failed(nothing.to_owned()));
        }
        Ok(Outcome::Passed(format!("{} tests", counts.passed)))
    }

    /// Builds the tests, runs them and counts them. It is not an error if no test ran.
    ///
    /// # Errors
    /// Returns an error if the build or a test failed.
    pub(crate) fn counted(&self) -> Result<TestCounts> {
        if !self.build()? {
            bail!("the tests do not compile");
        }
        // With `--no-fail-fast`, cargo runs every test program, even after a failure.
        let ran = self.cargo.clone().args(["--no-fail-fast", "--"]).args(&self.harness).tee()?;
        let counts = counts(&ran.text);
        if !ran.success {
            bail!("{}", self.why(&ran, counts));
        }
        Ok(counts)
    }

    fn why(&self, ran: &Captured, counts: TestCounts) -> String {
        let what = match counts.failed {
            0 if counts.started == 0 => "the test command failed before a test ran".to_owned(),
            0 => "a test ended its process".to_owned(),
            1 => "1 test failed:".to_owned(),
            n => format!("{n} tests failed; the first one is:"),
        };
        let first = ran.text.lines().find_map(|line| line.trim().strip_suffix(" ... FAILED"));
        let named = first.map(|name| format!(" {}", name.trim_start_matches("test "))).unwrap_or_default();
        format!("{what}{named}\nto run it again: {}", self.command().shown())
    }
}

#[cfg(test)]
mod tests {
    use super::{TestCounts, counts};

    #[test]
    fn counts_of_several_programs_are_added() {
        let text = "   Running unittests src/lib.rs\nrunning 2 tests\ntest a ... ok\ntest b ... FAILED\n\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
            running 1 test\ntest c ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured";
        assert_eq!(counts(text), TestCounts { started: 3, passed: 2, failed: 1 });
    }

    #[test]
    fn a_filter_without_a_match_gives_zero_tests() {
        let text =
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out";
        assert_eq!(counts(text), TestCounts::default());
    }

    #[test]
    fn a_test_that_crashes_is_started_and_neither_passed_nor_failed() {
        let text =
            "running 1 test\nerror: test failed\n  process didn't exit successfully (signal: 11, SIGSEGV)";
        assert_eq!(counts(text), TestCounts { started: 1, passed: 0, failed: 0 });
    }
}
