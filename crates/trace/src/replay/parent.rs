//! Ends a memory-measuring child process when its parent, the replay, ends.
//!
//! A replay that a signal ends cannot kill its child process, which would run on and keep its
//! memory. The child therefore asks the system to kill it when its parent ends.
#![forbid(unsafe_code)]

use std::os::unix::process::parent_id;

#[cfg(target_os = "linux")]
use rustix::process::{Signal, set_parent_process_death_signal};

/// Asks the system to kill this process when its parent ends. `parent` is the ID of the process
/// that started this one. On systems other than Linux, only checks that the parent is running.
///
/// # Errors
///
/// Returns an error if the parent has already ended.
pub(super) fn end_with(parent: u32) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    // Best effort: if the request fails, this process merely outlives a parent that is killed.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // A parent that ended before the request causes no signal.
    if parent_id() == parent {
        Ok(())
    } else {
        Err("the replay that started this process has ended".to_owned())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use core::time::Duration;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// The variable with the ID that a child process of these tests passes to [`end_with`].
    const PARENT: &str = "EPHEMERA_TEST_PARENT";

    /// Acts as the child process of the other tests. Does nothing in an ordinary run of the tests,
    /// where [`PARENT`] is not set.
    #[test]
    fn a_child_process_of_these_tests_waits() {
        let Ok(parent) = std::env::var(PARENT) else { return };
        match end_with(parent.parse().expect("it is a number")) {
            Err(why) => println!("{why}"),
            Ok(()) => {
                println!("bound");
                // The system kills this process here. If it does not, the test fails later.
                std::thread::sleep(Duration::from_secs(60));
                println!("left alone");
            }
        }
    }

    /// Runs a shell that starts the child process. `parent` is the ID that the shell passes to the
    /// child. Returns the shell, and the lines that the child prints.
    fn shell(parent: &str) -> (Child, impl Iterator<Item = String> + use<>) {
        let name = concat!(module_path!(), "::a_child_process_of_these_tests_waits");
        let name = name.split_once("::").expect("the path begins with the crate").1;
        let command = format!("{PARENT}={parent} \"$0\" --exact {name} --nocapture & wait");
        let mut shell = Command::new("sh")
            .args(["-c", &command])
            .arg(std::env::current_exe().expect("this program has a path"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let out = BufReader::new(shell.stdout.take().expect("the stream is piped"));
        (shell, out.lines().map(|line| line.expect("it is text")))
    }

    #[test]
    fn a_process_ends_with_its_parent() {
        let (mut shell, mut lines) = shell("$$");
        assert!(lines.any(|line| line.contains("bound")));
        shell.kill().expect("the shell waits for its child");
        shell.wait().expect("the shell is a child");
        // The lines end when the child process does.
        let rest: Vec<String> = lines.collect();
        assert!(!rest.concat().contains("left alone"), "{rest:?}");
    }

    #[test]
    fn a_parent_that_has_ended_is_an_error() {
        // The test's own process is not the parent of the shell's child.
        let (mut shell, mut lines) = shell(&std::process::id().to_string());
        assert!(lines.any(|line| line.contains("has ended")));
        shell.wait().expect("the shell is a child");
    }
}
