//! Child processes: shown as a line that can be pasted into a shell, streamed or captured, and stopped
//! when the time that was set for the whole run is over.

use core::cell::{Cell, RefCell};
use core::fmt::Write as _;
use core::time::Duration;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::progress::Spinner;

/// When every child must have ended; set once, by `ci`.
static DEADLINE: OnceLock<Instant> = OnceLock::new();

/// Variables that `cargo run` sets for xtask itself. Children must not see them: another toolchain would be
/// confused by them, and build scripts that read them would run again each time.
const OURS: [&str; 9] = [
    "CARGO",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_BIN_NAME",
    "CARGO_CRATE_NAME",
    "CARGO_PRIMARY_PACKAGE",
    "CARGO_ENCODED_RUSTFLAGS",
    "OUT_DIR",
    "RUSTC",
];

/// Sets the moment at which running children are stopped and new ones refused.
pub(crate) fn set_deadline(after: Duration) {
    // A second call would be a mistake of ours; the first limit stands then.
    let _ = DEADLINE.set(Instant::now() + after);
}

/// Whether the time that [`set_deadline`] allowed is over.
pub(crate) fn time_is_up() -> bool {
    DEADLINE.get().is_some_and(|end| Instant::now() >= *end)
}

thread_local! {
    /// What this thread would have printed, while it is in [`keeping`].
    static KEPT: RefCell<Option<String>> = const { RefCell::new(None) };
}

thread_local! {
    /// Which of the threads that run steps side by side this is; zero elsewhere.
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// The lane of this thread.
pub(crate) fn lane() -> usize {
    LANE.get()
}

/// Makes this thread that of a lane.
pub(crate) fn set_lane(lane: usize) {
    LANE.set(lane);
}

/// Calls `work` with all that it runs kept back; returns what was said beside the result.
pub(crate) fn keeping<T>(work: impl FnOnce() -> T) -> (T, String) {
    let before = KEPT.replace(Some(String::new()));
    let result = work();
    (result, KEPT.replace(before).unwrap_or_default())
}

/// Prints a line, or keeps it back.
pub(crate) fn say(line: &str) {
    let kept = KEPT.with_borrow_mut(|kept| kept.as_mut().map(|kept| kept.push_str(&format!("{line}\n"))));
    if kept.is_none() {
        eprintln!("{line}");
    }
}

fn is_keeping() -> bool {
    KEPT.with_borrow(Option::is_some)
}

/// A command to be run in the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Cmd {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
    without: Vec<String>,
    dir: PathBuf,
    limit: Option<Duration>,
}

/// What a captured command left.
#[derive(Debug)]
pub(crate) struct Captured {
    /// Whether it ended with status 0.
    pub(crate) success: bool,
    /// Its standard output and error, in the order of arrival.
    pub(crate) text: String,
}

impl Cmd {
    /// `program`, to be run in `dir`.
    pub(crate) fn new(program: impl AsRef<OsStr>, dir: &Path) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            without: Vec::new(),
            dir: dir.to_owned(),
            limit: None,
        }
    }

    /// Adds one argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets a variable to what the user has in it, a space, and `value`.
    pub(crate) fn env_append(self, name: &str, value: &str) -> Self {
        let value = match std::env::var(name) {
            Ok(had) if !had.trim().is_empty() => format!("{had} {value}"),
            _ => value.to_owned(),
        };
        self.env(name, value)
    }

    /// Takes a variable away.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.without.push(name.to_owned());
        self
    }

    /// Stops it after so long, which is an error.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The command as one would type it.
    pub(crate) fn shown(&self) -> String {
        let mut line = String::new();
        for (name, value) in &self.env {
            let _ = write!(line, "{name}={} ", quoted(&value.to_string_lossy()));
        }
        let program = Path::new(&self.program).file_name().unwrap_or(&self.program);
        line.push_str(&quoted(&program.to_string_lossy()));
        for arg in &self.args {
            line.push(' ');
            line.push_str(&quoted(&arg.to_string_lossy()));
        }
        line
    }

    /// Runs it with its output going where ours goes; `true` if it ended with status 0.
    pub(crate) fn run(&self) -> Result<bool> {
        if is_keeping() {
            return Ok(self.tee()?.success);
        }
        eprintln!("$ {}", self.shown());
        let mut child = self.spawn(Stdio::inherit, Stdio::inherit)?;
        Ok(self.wait(&mut child)?.success())
    }

    /// As [`Self::run`]; a bad status is the error `otherwise`.
    pub(crate) fn run_or(&self, otherwise: &str) -> Result<()> {
        if self.run()? {
            return Ok(());
        }
        bail!("{otherwise}")
    }

    /// Runs it, shows its output as it comes, and keeps it.
    pub(crate) fn tee(&self) -> Result<Captured> {
        say(&format!("$ {}", self.shown()));
        let keeping = is_keeping();
        let captured = self.collect(!keeping)?;
        if keeping {
            say(&captured.text);
        }
        Ok(captured)
    }

    /// Runs it and keeps its output; a terminal shows `doing` meanwhile.
    pub(crate) fn quiet(&self, doing: &str) -> Result<Captured> {
        // Two spinners on one line help nobody.
        let _spinner = (!is_keeping()).then(|| Spinner::start(doing));
        self.collect(false)
    }

    fn collect(&self, show: bool) -> Result<Captured> {
        let mut child = self.spawn(Stdio::piped, Stdio::piped)?;
        let text = Arc::new(Mutex::new(String::new()));
        let mut readers = Vec::new();
        if let Some(out) = child.stdout.take() {
            readers.push(reader(out, Arc::clone(&text), show, false));
        }
        if let Some(err) = child.stderr.take() {
            readers.push(reader(err, Arc::clone(&text), show, true));
        }
        let status = self.wait(&mut child);
        // Of a child that was stopped alone, what it started may still hold the pipes.
        if status.is_ok() || self.is_grouped() {
            for reader in readers {
                // A reader ends with its pipe and does not panic.
                let _ = reader.join();
            }
        }
        let text = core::mem::take(&mut *text.lock().unwrap_or_else(|gone| gone.into_inner()));
        if status.is_err() && !show {
            say(&text);
        }
        Ok(Captured { success: status?.success(), text })
    }

    fn spawn(&self, out: fn() -> Stdio, err: fn() -> Stdio) -> Result<Child> {
        if time_is_up() {
            bail!("the time for the whole run is over");
        }
        let mut command = Command::new(&self.program);
        for name in OURS {
            command.env_remove(name);
        }
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_PKG_") {
                command.env_remove(name);
            }
        }
        for name in &self.without {
            command.env_remove(name);
        }
        command.args(&self.args).current_dir(&self.dir).stdin(Stdio::null()).stdout(out()).stderr(err());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        self.own_group(&mut command);
        command.spawn().with_context(|| {
            format!("cannot start `{}`: is it installed and in PATH?", self.program.to_string_lossy())
        })
    }

    /// With a limit and no terminal the child leads a process group, so that all of it can be stopped. At a
    /// terminal it stays in ours, so that Ctrl-C reaches it.
    fn own_group(&self, command: &mut Command) {
        #[cfg(unix)]
        if self.is_grouped() {
            use std::os::unix::process::CommandExt;
            command.process_group(0);
        }
        #[cfg(not(unix))]
        let _ = command;
    }

    fn is_limited(&self) -> bool {
        self.limit.is_some() || DEADLINE.get().is_some()
    }

    fn is_grouped(&self) -> bool {
        cfg!(unix) && self.is_limited() && !std::io::stdin().is_terminal()
    }

    fn wait(&self, child: &mut Child) -> Result<ExitStatus> {
        if !self.is_limited() {
            return Ok(child.wait()?);
        }
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if time_is_up() {
                self.stop(child);
                bail!("stopped: the time for the whole run is over");
            }
            if let Some(limit) = self.limit
                && start.elapsed() >= limit
            {
                self.stop(child);
                bail!("stopped: it had not ended after {} s", limit.as_secs());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn stop(&self, child: &mut Child) {
        if self.is_grouped() {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn reader(
    pipe: impl Read + Send + 'static,
    text: Arc<Mutex<String>>,
    show: bool,
    to_stderr: bool,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let shown = String::from_utf8_lossy(&line);
            let mut text = text.lock().unwrap_or_else(|gone| gone.into_inner());
            text.push_str(&shown);
            if show {
                // Nobody to show it to is no reason to stop the check.
                let _ = if to_stderr {
                    std::io::stderr().write_all(shown.as_bytes())
                } else {
                    std::io::stdout().write_all(shown.as_bytes())
                };
            }
            drop(text);
            line.clear();
        }
    })
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::path::Path;

    use super::{Cmd, keeping, quoted};

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        assert_eq!(quoted("--profile=loom"), "--profile=loom");
        assert_eq!(quoted("--cfg a=\"b\""), "'--cfg a=\"b\"'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn output_and_status_of_a_captured_command_are_kept() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let good = Cmd::new(&cargo, Path::new(".")).arg("--version").quiet("asking cargo").unwrap();
        assert!(good.success);
        assert!(good.text.starts_with("cargo "), "{}", good.text);
        let bad = Cmd::new(&cargo, Path::new(".")).arg("no-such-command").quiet("asking cargo").unwrap();
        assert!(!bad.success);
        assert!(bad.text.contains("no-such-command"), "{}", bad.text);
    }

    #[cfg(unix)]
    #[test]
    fn what_does_not_end_is_stopped_and_its_output_shown() {
        let dir = Path::new(".");
        let long = Cmd::new("sh", dir).args(["-c", "echo begun; sleep 600"]).within(Duration::from_secs(2));
        let (result, kept) = keeping(|| long.quiet("sleeping"));
        let said = result.unwrap_err().to_string();
        assert!(said.contains("had not ended"), "{said}");
        assert_eq!(kept.trim(), "begun");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let said = Cmd::new("no-such-program-here", Path::new(".")).run().unwrap_err().to_string();
        assert!(said.contains("no-such-program-here"), "{said}");
    }
}
