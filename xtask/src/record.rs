//! `cargo xtask record`: runs a program with the recorder preloaded.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use ephemera_recorder::{DEFAULT_LIMIT, LIMIT_VARIABLE, PATH_VARIABLE, Summary, Trace};

use crate::progress::Spinner;
use crate::workspace::Workspace;

/// The package of the recorder.
const RECORDER: &str = "ephemera-recorder";

/// Processes that are listed beside the largest.
const LISTED: usize = 8;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask record -- git log --stat
  cargo xtask record --out gcc.trace -- gcc -O2 -c file.c -o /dev/null
  cargo xtask record --max-bytes 64M -- python3 script.py

Then `cargo xtask advise TRACE` says what the trace shows, and `cargo xtask replay TRACE` measures it.

Every process that CMD starts is recorded, each into a file of its own. TRACE is the one that used its allocator most; the
others are in TRACE.processes/, named by process. A program that is linked statically, set-user-id, or that clears its
environment cannot be recorded. docs/traces.md has more.")]
pub(crate) struct Options {
    /// Where the trace goes [default: target/trace/trace].
    #[arg(long, value_name = "TRACE")]
    out: Option<PathBuf>,
    /// Most bytes of each process's trace; K, M and G are understood [default: 1G].
    #[arg(long, value_name = "N", value_parser = bytes)]
    max_bytes: Option<u64>,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// One recorded process.
#[derive(Debug)]
struct Process {
    path: PathBuf,
    bytes: u64,
    pid: u32,
    command: String,
}

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &Options) -> Result<bool> {
    let library = library(ws)?;
    let out = match &options.out {
        Some(path) => std::path::absolute(path)?,
        None => ws.target_dir("trace").join("trace"),
    };
    let parts = beside(&out, ".processes");
    if parts.exists() {
        fs::remove_dir_all(&parts).with_context(|| {
            format!("cannot remove what an earlier recording left in {}", parts.display())
        })?;
    }
    fs::create_dir_all(&parts).with_context(|| format!("cannot make {}", parts.display()))?;

    let (program, arguments) = options.command.split_first().context("which program?")?;
    let limit = options.max_bytes.unwrap_or(DEFAULT_LIMIT);
    let status = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", preloads(&library))
        .env(PATH_VARIABLE, parts.join("p"))
        .env(LIMIT_VARIABLE, limit.to_string())
        .status()
        .with_context(|| format!("cannot start `{}`", program.to_string_lossy()))?;
    if !status.success() {
        eprintln!("note: the program ended with {status}; what it did until then is recorded");
    }

    let mut processes = recorded(&parts)?;
    if processes.is_empty() {
        bail!(
            "no trace was written: is `{}` linked statically or set-user-id, or is {} full?",
            program.to_string_lossy(),
            parts.display()
        );
    }
    let largest = processes.remove(0);
    fs::rename(&largest.path, &out).with_context(|| format!("cannot write {}", out.display()))?;
    describe(&out, &largest, &processes, &parts)?;
    Ok(true)
}

/// Builds the recorder and says where it is.
fn library(ws: &Workspace) -> Result<PathBuf> {
    if !cfg!(target_os = "linux") {
        bail!("programs are recorded by a preloaded library, which this command has for Linux alone");
    }
    ws.package(RECORDER)?;
    // A directory of its own: other builds make the library without the feature.
    let dir = ws.target_dir("recorder");
    let build = ws
        .cargo()
        .args(["build", "--quiet", "--release", "--package", RECORDER, "--lib", "--features", "preload"])
        .arg("--target-dir")
        .arg(&dir);
    build.run_or("the recorder does not build; the messages are above")?;
    Ok(dir.join("release").join("libephemera_recorder.so"))
}

/// The recorder, and what the user preloads already.
fn preloads(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(had) = std::env::var_os("LD_PRELOAD").filter(|had| !had.is_empty()) {
        all.push(":");
        all.push(had);
    }
    all
}

/// The traces in a directory, the largest first. A process that asked for nothing is left out.
fn recorded(dir: &Path) -> Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        // A process that was killed at its very start left no head.
        let Ok(trace) = Trace::open(&path) else { continue };
        found.push(Process { path, bytes: trace.bytes, pid: trace.pid, command: trace.command });
    }
    found.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.pid.cmp(&b.pid)));
    Ok(found)
}

/// Prints what was recorded.
fn describe(out: &Path, largest: &Process, others: &[Process], parts: &Path) -> Result<()> {
    let trace = Trace::open(out)?;
    let summary = {
        let _spinner = Spinner::start("reading the trace");
        Summary::of(&trace)?
    };
    println!("{}", out.display());
    println!("process     {:>15}   {}", largest.pid, shortened(&largest.command));
    println!("trace       {:>15}   bytes", largest.bytes);
    println!("{summary}");
    for caveat in trace.caveats() {
        println!("note: {caveat}");
    }
    if !others.is_empty() {
        println!("other processes, in {}:", parts.display());
        for other in others.iter().take(LISTED) {
            let name = other.path.file_name().unwrap_or_default().to_string_lossy();
            println!("  {name:<16} {:>12} bytes  {}", other.bytes, shortened(&other.command));
        }
        if others.len() > LISTED {
            println!("  and {} more", others.len() - LISTED);
        }
    }
    Ok(())
}

/// A command's beginning.
fn shortened(command: &str) -> String {
    const WIDTH: usize = 60;
    if command.chars().count() <= WIDTH {
        return command.to_owned();
    }
    command.chars().take(WIDTH - 1).chain(['…']).collect()
}

/// `path` with something behind its name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Reads a number of bytes.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is no number of bytes, such as 64M"))?;
    number
        .checked_mul(1 << shift)
        .filter(|bytes| *bytes >= 64 << 10)
        .ok_or_else(|| "a trace has at least 64K and less than 16 exabytes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{beside, bytes, shortened};
    use std::path::Path;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(bytes("65536"), Ok(65_536));
        assert_eq!(bytes("64K"), Ok(65_536));
        assert_eq!(bytes("2m"), Ok(2 << 20));
        assert_eq!(bytes("1G"), Ok(1 << 30));
        for bad in ["", "K", "1.5G", "-1", "12", "99999999999G"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_and_commands() {
        assert_eq!(beside(Path::new("/a/b.c"), ".processes"), Path::new("/a/b.c.processes"));
        assert_eq!(shortened("ls -l"), "ls -l");
        assert_eq!(shortened(&"é".repeat(70)).chars().count(), 60);
    }
}
