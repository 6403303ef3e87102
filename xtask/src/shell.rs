//! Runs child processes: prints commands in a form that can be pasted into a shell, streams or
//! captures the output, and stops a child that exceeds a time limit.

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

/// The time at which xtask stops its running child processes. `ci` sets it once.
static DEADLINE: OnceLock<Instant> = OnceLock::new();

/// Variables that cargo sets for the processes that it starts, such as xtask. Children of xtask do
/// not inherit them: another toolchain would use the wrong values, and build scripts that read them
/// would run again in each build.
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

/// Sets the time limit of the whole run. When `after` has passed, this module stops running
/// children and starts no new ones.
pub(crate) fn set_deadline(after: Duration) {
    // Only `ci` calls this function, once. A second call would have no effect.
    let _ = DEADLINE.set(Instant::now() + after);
}

/// Returns whether the time limit of [`set_deadline`] has passed.
pub(crate) fn time_is_up() -> bool {
    DEADLINE.get().is_some_and(|end| Instant::now() >= *end)
}

thread_local! {
    /// The output that [`keeping`] collects on this thread, or `None` outside of that function.
    static KEPT: RefCell<Option<String>> = const { RefCell::new(None) };
}

thread_local! {
    /// The lane of this thread: its index among the threads that run steps side by side, or 0 on
    /// any other thread.
    static LANE: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn lane() -> usize {
    LANE.get()
}

pub(crate) fn set_lane(lane: usize) {
    LANE.set(lane);
}

/// Calls `work`, and collects the output of [`say`] and of commands on this thread instead of
/// printing it. Returns the result and the output.
pub(crate) fn keeping<T>(work: impl FnOnce() -> T) -> (T, String) {
    let before = KEPT.replace(Some(String::new()));
    let result = work();
    (result, KEPT.replace(before).unwrap_or_default())
}

/// Prints `line` to standard error, or collects it within [`keeping`].
pub(crate) fn say(line: &str) {
    let kept = KEPT.with_borrow_mut(|kept| kept.as_mut().map(|kept| kept.push_str(&format!("{line}\n"))));
    if kept.is_none() {
        tell(line);
    }
}

/// Prints `line` to standard error. Ignores a full disk or a closed pipe there, where `eprintln!`
/// would panic.
pub(crate) fn tell(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn is_keeping() -> bool {
    KEPT.with_borrow(Option::is_some)
}

/// A command that runs in the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Cmd {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
    without: Vec<String>,
    dir: PathBuf,
    limit: Option<Duration>,
}

/// The result of a captured command.
#[derive(Debug)]
pub(crate) struct Captured {
    /// Whether the command ended with status 0.
    pub(crate) success: bool,
    /// The standard output and standard error of the command, in the order of arrival.
    pub(crate) text: String,
}

impl Cmd {
    /// Creates a command that runs `program` in `dir`.
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

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets the variable `name` to `value` in the environment of the child.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Appends `value` to an environment variable, after a space: to the value of an earlier call
    /// for the same variable, or to the user's value.
    pub(crate) fn env_append(self, name: &str, value: &str) -> Self {
        let earlier = self.env.iter().find(|(known, _)| known == name);
        let had = match earlier {
            Some((_, had)) => had.to_str().map(str::to_owned),
            None => std::env::var(name).ok(),
        };
        let value = match had {
            Some(had) if !had.trim().is_empty() => format!("{had} {value}"),
            _ => value.to_owned(),
        };
        self.env(name, value)
    }

    /// Removes the variable `name` from the environment of the child.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.without.push(name.to_owned());
        self
    }

    /// Sets a time limit for the child. A child that exceeds it is stopped, and its run returns an
    /// error.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Returns the command as a line that can be pasted into a shell.
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

    /// Runs the command, which inherits the output of xtask unless [`keeping`] collects it. Returns
    /// whether the command ended with status 0. Returns an error if it did not start or was
    /// stopped.
    pub(crate) fn run(&self) -> Result<bool> {
        if is_keeping() {
            return Ok(self.tee()?.success);
        }
        tell(&format!("$ {}", self.shown()));
        let mut child = self.spawn(Stdio::inherit, Stdio::inherit)?;
        Ok(self.wait(&mut child)?.success())
    }

    /// Runs the command like [`Self::run`]. Returns the error `otherwise` if the status is not 0.
    pub(crate) fn run_or(&self, otherwise: &str) -> Result<()> {
        if self.run()? {
            return Ok(());
        }
        bail!("{otherwise}")
    }

    /// Runs the command, prints its output as it arrives, and returns the output and whether the
    /// command succeeded. Within [`keeping`], the output is collected when the command has ended.
    pub(crate) fn tee(&self) -> Result<Captured> {
        say(&format!("$ {}", self.shown()));
        let keeping = is_keeping();
        let captured = self.collect(!keeping)?;
        if keeping {
            say(&captured.text);
        }
        Ok(captured)
    }

    /// Runs the command and returns its output. A terminal shows the message `doing` while the
    /// command runs, except within [`keeping`].
    pub(crate) fn quiet(&self, doing: &str) -> Result<Captured> {
        // Steps that run side by side would overwrite each other's spinners.
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
        // If xtask stopped only the child, processes that the child started may hold the pipes, and
        // a reader may never end.
        if status.is_ok() || self.is_grouped() {
            for reader in readers {
                // A reader does not panic, and ends when its pipe is closed.
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
            bail!("the time limit of the whole run is over");
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

    /// On Unix, puts a child with a time limit into its own process group, so that xtask can also
    /// stop the processes that the child starts. At a terminal, the child stays in xtask's group,
    /// so that Ctrl-C reaches it.
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
                bail!("stopped: the time limit of the whole run is over");
            }
            if let Some(limit) = self.limit
                && start.elapsed() >= limit
            {
                self.stop(child);
                bail!("stopped: the command ran longer than {} s", limit.as_secs());
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
                // A closed output must not stop the check.
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
mod tests;
