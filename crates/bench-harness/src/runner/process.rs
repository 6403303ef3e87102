//! Starts one measuring process, reads its answer, and describes how it died.

use core::hash::BuildHasher;
use core::time::Duration;
use std::hash::RandomState;
use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::{env, fs, thread};

use super::record::{Job, Measurements};

/// The time after which the parent considers a child hung and kills it.
const LIMIT: Duration = Duration::from_secs(180);

/// Returns a random number that does not depend on the seed. Two runs with the same seed do the
/// same operations, but in differently placed memory.
pub(super) fn chance() -> u64 {
    RandomState::new().hash_one(env::args_os().len())
}

/// Runs one child. Returns its measurements, or a text that says how it died or why its answer
/// cannot be read.
///
/// # Errors
///
/// Returns an error if the child cannot be started, or if the wait for its exit fails.
pub(super) fn child(job: &Job) -> io::Result<Result<Measurements, String>> {
    let unrun = |error: io::Error| io::Error::other(format!("a measuring process could not be run: {error}"));
    let _ = fs::remove_file(&job.marker);
    let orders = serde_json::to_string(job).map_err(|error| unrun(error.into()))?;
    // The length of the environment shifts the stack, and so determines which variables share a
    // cache line or a page. Each child gets a random length.
    let padding = chance() as usize % 4096;
    let mut child = Command::new(env::current_exe().map_err(unrun)?)
        .arg("--child")
        .arg(orders)
        .env("EPHEMERA_PADDING", "x".repeat(padding))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(unrun)?;
    let stdout = child.stdout.take().map(reader);
    let stderr = child.stderr.take().map(reader);
    let answer = stdout.and_then(|text| text.recv_timeout(LIMIT).ok());
    if answer.is_none() {
        // The kill fails if the child has just ended on its own, which does no harm.
        let _ = child.kill();
    }
    let status = child.wait().map_err(unrun)?;
    let said = stderr.and_then(|text| text.recv_timeout(LIMIT).ok()).unwrap_or_default();
    let Some(answer) = answer.filter(|_| status.success()) else {
        return Ok(Err(death(status, &said)));
    };
    Ok(serde_json::from_str(&answer).map_err(|error| format!("its answer could not be read: {error}")))
}

/// Reads a pipe to its end on a separate thread, which sends the text through the returned channel.
/// If reading fails, the thread sends nothing.
fn reader(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if pipe.read_to_end(&mut bytes).is_ok() {
            // The send fails if the receiver has timed out and no longer needs the text.
            let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
        }
    });
    receive
}

/// Returns in a few words how a process died, from its status and the text `said` on its standard
/// error.
fn death(status: ExitStatus, said: &str) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return match signal {
            libc::SIGKILL => "killed: took longer than 180 s, or memory ran out".to_owned(),
            libc::SIGSEGV => "segmentation fault".to_owned(),
            libc::SIGABRT => format!("aborted: {}", last_line(said)),
            other => format!("signal {other}"),
        };
    }
    format!("{status}: {}", last_line(said))
}

fn last_line(said: &str) -> &str {
    let mut lines = said.lines().filter(|line| !line.is_empty() && !line.starts_with("note: "));
    lines.next_back().unwrap_or("said nothing")
}
