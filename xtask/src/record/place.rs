//! Manages the output of a recording: the file TRACE, and the directory TRACE.processes next to it.
//! A lock allows one recording at a time to write to them.
//!
//! Each recording has its own directory in TRACE.processes, with a unique name. A process that
//! outlives its recording therefore cannot write into a later recording. A recording removes the
//! traces of earlier recordings after it has moved its own trace to TRACE.

use core::hash::{BuildHasher, Hasher};
use std::collections::hash_map::RandomState;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use ephemera_recorder::LONGEST_PATH;

use super::earlier::{DIGITS, EarlierTraces, LEAST, replaceable};
use super::processes;
use crate::shell::tell;

/// The paths of a recording's output. Dropping this value releases the lock on the directory.
#[derive(Debug)]
pub(super) struct TracePlace {
    /// The path to which the largest trace is moved at the end.
    pub(super) out: PathBuf,
    /// The directory that all traces of this recording are written to.
    pub(super) parts: PathBuf,
    /// The directory TRACE.processes.
    all: PathBuf,
    made: CreatedDirectories,
    // This field is dropped after `made`, so no other recording starts while directories are
    // removed.
    /// The lock on the directory TRACE.processes.
    _held: File,
}

/// Directories that this recording created, the innermost first. Dropping this value removes those
/// that are empty.
#[derive(Debug)]
struct CreatedDirectories(Vec<PathBuf>);

impl Drop for CreatedDirectories {
    fn drop(&mut self) {
        for dir in &self.0 {
            // Best effort: a directory with files stays.
            let _ = fs::remove_dir(dir);
        }
    }
}

impl TracePlace {
    /// Locks the directory for the trace `out`, and creates a directory for this recording in it.
    /// Returns an error if the path is too long, if another recording holds the lock, if a file
    /// that is not a trace is in the way, or if the directory is not writable.
    pub(super) fn take(out: PathBuf) -> Result<Self> {
        replaceable(&out)?;
        let all = beside(&out, ".processes");
        let number = RandomState::new().build_hasher().finish();
        let parts = all.join(format!("{number:0DIGITS$x}"));
        let longest = parts.as_os_str().len() + "/p".len();
        if longest > LONGEST_PATH {
            bail!(
                "the path {} is too long: with the names of its traces it has {longest} bytes, and the recorder \
                 takes {LONGEST_PATH}. Choose a shorter --out",
                out.display()
            );
        }
        let missing = all.ancestors().take_while(|dir| !dir.exists());
        // `held` is declared before `made`, so that after an error the directory is removed before
        // it is unlocked.
        let held;
        let mut made = CreatedDirectories(missing.map(Path::to_owned).collect());
        held = locked(&all)?;
        EarlierTraces::find(&all, &parts)?;
        fs::create_dir(&parts).map_err(|error| unwritable(&all, &error))?;
        made.0.insert(0, parts.clone());
        try_writing(&parts)?;
        Ok(Self { out, parts, all, made, _held: held })
    }

    /// Moves the file `trace` to the path `out`, and removes the traces of earlier recordings. If
    /// the process that writes the trace still runs, the file also keeps its original name, under
    /// which the process extends it.
    pub(super) fn keep(&mut self, trace: &Path, still_runs: bool) -> Result<()> {
        let moved = || -> io::Result<()> {
            if !still_runs {
                return fs::rename(trace, &self.out);
            }
            let second = self.parts.join("kept");
            fs::hard_link(trace, &second)?;
            fs::rename(second, &self.out)
        };
        let kept = replaceable(&self.out).and_then(|()| {
            moved().with_context(|| format!("cannot move the trace to {}", self.out.display()))
        });
        kept.map_err(|error: Error| anyhow!("{error:#}. The trace is {}", trace.display()))?;
        if let Err(error) = EarlierTraces::find(&self.all, &self.parts).and_then(|old| old.remove()) {
            tell(&format!("note: {error:#}"));
        }
        // A process that has not begun its trace yet needs the directory.
        if processes::any_belongs_to(&self.parts) {
            self.made.0.clear();
        }
        Ok(())
    }
}

/// Creates the directory `all`, locks it, and returns the open directory. Returns an error if
/// another recording holds the lock. Prints a note if the file system does not support locks.
fn locked(all: &Path) -> Result<File> {
    loop {
        fs::create_dir_all(all).map_err(|error| {
            let advice = advice(&error);
            anyhow!("cannot make the directory {}: {error}. {advice}", all.display())
        })?;
        let held = match File::open(all) {
            // Another recording that left no trace has just removed its directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.with_context(|| format!("cannot open {}", all.display()))?,
        };
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "another recording writes to {}: wait until it ends, or choose another --out",
                all.display()
            ),
            Err(TryLockError::Error(error)) => tell(&format!(
                "note: {} cannot be locked ({error}): run one recording at a time there",
                all.display()
            )),
        }
        let id = |data: fs::Metadata| (data.dev(), data.ino());
        if fs::metadata(all).map(id).ok() == held.metadata().map(id).ok() {
            return Ok(held);
        }
    }
}

fn unwritable(dir: &Path, error: &io::Error) -> Error {
    anyhow!("cannot write to {}: {error}. {}", dir.display(), advice(error))
}

/// Returns the advice for an output that cannot be written because of this error.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::InvalidFilename => {
            "The name is that of the trace with `.processes` after it: choose a shorter one with --out"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Free some space, or choose another place with --out"
        }
        _ => "Choose a place that you may write to with --out",
    }
}

/// Writes a file as large as the smallest trace and removes it, because the recorder itself cannot
/// report that it fails to write.
fn try_writing(parts: &Path) -> Result<()> {
    if let Some(most) = most_bytes_of_a_file().filter(|most| *most < LEAST as u64) {
        bail!(
            "a program may write files of {most} bytes here, and a trace has at least {LEAST}: raise `ulimit -f`"
        );
    }
    let path = parts.join("p.0");
    let written = File::create_new(&path).and_then(|mut file| file.write_all(&[0; LEAST]));
    // A failed attempt may leave a part of the file.
    let removed = fs::remove_file(&path);
    written.and(removed).map_err(|error| unwritable(parts, &error))
}

/// Returns the limit on the size of files in bytes, which child processes inherit. Returns `None`
/// if there is no limit or if it cannot be read.
fn most_bytes_of_a_file() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file size"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns `path` with `suffix` appended to its name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gets_a_suffix() {
        assert_eq!(beside(Path::new("/a/b.c"), ".processes"), Path::new("/a/b.c.processes"));
    }
}
