//! Manages the output of a recording: the file TRACE, and the directory TRACE.processes next to it.
//! A lock lets one recording at a time write there.
//!
//! A recording removes or replaces earlier traces there, and nothing else.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use ephemera_recorder::{LONGEST_PATH, format};

/// The size of the smallest trace in bytes: its file header and one packet.
const LEAST: usize = format::FILE_HEADER + format::PACKET;

/// The paths of a recording's output. Dropping this value releases the lock on the directory.
#[derive(Debug)]
pub(super) struct TracePlace {
    /// The path that the largest trace gets at the end.
    pub(super) out: PathBuf,
    /// The directory that all traces are written to.
    pub(super) parts: PathBuf,
    /// The lock on the directory.
    _held: File,
}

impl TracePlace {
    /// Locks the directory for the trace `out`, and removes the traces of an earlier recording from
    /// it.
    pub(super) fn take(out: PathBuf) -> Result<Self> {
        replaceable(&out)?;
        let parts = beside(&out, ".processes");
        let longest = parts.as_os_str().len() + "/p".len();
        if longest > LONGEST_PATH {
            bail!(
                "the path {} is too long: with the names of its traces it has {longest} bytes, and the recorder \
                 takes {LONGEST_PATH}. Choose a shorter --out",
                out.display()
            );
        }
        if let Err(error) = fs::create_dir_all(&parts) {
            bail!("cannot make the directory {}: {error}. {CHOOSE}", parts.display());
        }
        let held = File::open(&parts).with_context(|| format!("cannot open {}", parts.display()))?;
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "another recording writes to {}: wait until it ends, or choose another --out",
                parts.display()
            ),
            Err(TryLockError::Error(error)) => {
                eprintln!(
                    "note: {} cannot be locked ({error}): run one recording at a time there",
                    parts.display()
                );
            }
        }
        for old in earlier(&parts)? {
            fs::remove_file(&old)
                .with_context(|| format!("cannot remove the earlier trace {}", old.display()))?;
        }
        try_writing(&parts)?;
        Ok(Self { out, parts, _held: held })
    }

    /// Moves the trace `trace` from the directory to its final path. If its process still runs, the
    /// trace also keeps its first name, because the process extends the file by that name.
    pub(super) fn keep(&self, trace: &Path, still_runs: bool) -> Result<()> {
        let kept = || {
            replaceable(&self.out)?;
            if !still_runs {
                return Ok(fs::rename(trace, &self.out)?);
            }
            let second = self.parts.join("kept");
            fs::hard_link(trace, &second)?;
            Ok(fs::rename(second, &self.out)?)
        };
        kept().map_err(|error: Error| anyhow!("{error:#}. The trace is {}", trace.display()))
    }
}

/// The advice if the output cannot be written.
const CHOOSE: &str = "Choose a place that you may write to with --out";

/// Returns an error if the file at `out` exists and is no trace.
fn replaceable(out: &Path) -> Result<()> {
    let Ok(data) = fs::symlink_metadata(out) else { return Ok(()) };
    if data.is_dir() {
        bail!("{} is a directory. Name a file in it: --out {}", out.display(), out.join("trace").display());
    }
    let is_trace =
        fs::metadata(out).is_ok_and(|data| data.is_file()) && begins(out).is_ok_and(|head| is_magic(&head));
    if !is_trace {
        bail!("{} exists and is no trace, so it was not replaced: choose another --out", out.display());
    }
    Ok(())
}

/// Returns the traces that an earlier recording left in a directory. Returns an error if the
/// directory has any other file.
fn earlier(parts: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parts).with_context(|| format!("cannot read {}", parts.display()))? {
        let entry = entry?;
        let path = entry.path();
        // Files with the figures of a replay remain, since each names its trace.
        if entry.file_name().to_string_lossy().ends_with(".replay.json") {
            continue;
        }
        if !entry.file_type()?.is_file() || !is_ours(&path, &entry.file_name()) {
            bail!(
                "{} is no trace, so nothing was removed from {}. Move it away, or choose another --out",
                path.display(),
                parts.display()
            );
        }
        found.push(path);
    }
    Ok(found)
}

/// Returns whether a recording left the file at `path`. Such a file is a trace, or belongs to a
/// process that was killed before it wrote the head of its trace. A file without a head has the
/// name of a trace and only zeros.
fn is_ours(path: &Path, name: &OsStr) -> bool {
    let Ok(head) = begins(path) else { return false };
    let named = || {
        let numbers = name.to_str().and_then(|name| name.strip_prefix("p."));
        numbers.is_some_and(|numbers| {
            numbers.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    is_magic(&head) || head.len() <= LEAST && head.iter().all(|byte| *byte == 0) && named()
}

/// Returns the beginning of a file: at most one byte more than the smallest trace has.
fn begins(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(LEAST as u64 + 1).read_to_end(&mut head)?;
    Ok(head)
}

fn is_magic(head: &[u8]) -> bool {
    head.starts_with(&format::MAGIC)
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
    if let Err(error) = written.and(removed) {
        bail!("cannot write to {}: {error}. {CHOOSE}", parts.display());
    }
    Ok(())
}

/// Returns the limit on the size of files in bytes, which child processes inherit. Returns `None`
/// if there is no limit.
fn most_bytes_of_a_file() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file size"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns `path` with `suffix` after its name.
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

    #[test]
    fn an_unfinished_trace_is_recognised_by_its_name_and_its_zeros() {
        let dir = std::env::temp_dir().join(format!("ephemera-place-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let ours = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, bytes).unwrap();
            let ours = is_ours(&path, OsStr::new(name));
            fs::remove_file(&path).unwrap();
            ours
        };
        assert!(ours("p.12", b"") && ours("p.12.3", &[0; LEAST]) && ours("anything", b"EPHTRACE..."));
        assert!(
            !ours("notes", b"")
                && !ours("p.", b"")
                && !ours("p.12", b"text")
                && !ours("p.1", &[0; LEAST + 1])
        );
        fs::remove_dir(&dir).unwrap();
    }
}
