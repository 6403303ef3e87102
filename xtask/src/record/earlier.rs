//! Finds and removes the traces of earlier recordings in the directory TRACE.processes.
//!
//! Except for its own files, a recording removes only these traces and their empty directories.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ephemera_recorder::format;

/// The size of the smallest trace in bytes: its file header and one packet.
pub(super) const LEAST: usize = format::FILE_HEADER + format::PACKET;

/// The number of digits in the name of a recording's directory.
pub(super) const DIGITS: usize = 16;

/// The output of earlier recordings.
#[derive(Debug, Default)]
pub(super) struct EarlierTraces {
    traces: Vec<PathBuf>,
    /// The directories of the recordings.
    directories: Vec<PathBuf>,
}

impl EarlierTraces {
    /// Finds the traces in the directory `all` that lie outside of `own`. Returns an error if there
    /// is any other file, except for the figures of replays.
    pub(super) fn find(all: &Path, own: &Path) -> Result<Self> {
        let mut found = Self::default();
        let mut unread = vec![all.to_owned()];
        while let Some(dir) = unread.pop() {
            let cannot = || format!("cannot read {}", dir.display());
            for entry in fs::read_dir(&dir).with_context(cannot)? {
                let entry = entry.with_context(cannot)?;
                let (path, name) = (entry.path(), entry.file_name());
                // Files with the figures of a replay remain. Each file contains the digest of its
                // trace, so its figures are not used for a later trace.
                if path == own || name.to_string_lossy().ends_with(".replay.json") {
                    continue;
                }
                let kind = entry.file_type().with_context(|| format!("cannot read {}", path.display()))?;
                if kind.is_dir() && dir == all && is_directory_name(&name) {
                    found.directories.push(path.clone());
                    unread.push(path);
                } else if kind.is_file() && is_trace(&path, &name) {
                    found.traces.push(path);
                } else {
                    bail!(
                        "{} is not a trace, so nothing was removed from {}. Move it away, or choose another --out",
                        path.display(),
                        all.display()
                    );
                }
            }
        }
        Ok(found)
    }

    /// Removes the traces, and the directories that are empty after that.
    pub(super) fn remove(&self) -> Result<()> {
        for old in &self.traces {
            fs::remove_file(old)
                .with_context(|| format!("cannot remove the earlier trace {}", old.display()))?;
        }
        for old in &self.directories {
            // A directory stays if it has figures of a replay, or if a process of the earlier
            // recording has just begun a trace. The next recording removes that trace.
            let _ = fs::remove_dir(old);
        }
        Ok(())
    }
}

/// Returns whether a name has the form of the names of recordings' directories.
fn is_directory_name(name: &OsStr) -> bool {
    let digits = |name: &str| name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.to_str().is_some_and(digits)
}

/// Returns whether a recording left the file at `path`: a trace, or the file of a process that was
/// killed before it wrote the header. A file without a header is named like a trace (`p.12.3`) and
/// has at most [`LEAST`] bytes, all of them zero.
fn is_trace(path: &Path, name: &OsStr) -> bool {
    let Ok(head) = begins(path) else { return false };
    let named = || {
        let numbers = name.to_str().and_then(|name| name.strip_prefix("p."));
        numbers.is_some_and(|numbers| {
            numbers.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    is_magic(&head) || head.len() <= LEAST && head.iter().all(|byte| *byte == 0) && named()
}

/// Returns an error if the file at `out` exists and is not a trace.
pub(super) fn replaceable(out: &Path) -> Result<()> {
    let Ok(data) = fs::symlink_metadata(out) else { return Ok(()) };
    if data.is_dir() {
        bail!("{} is a directory. Name a file in it: --out {}", out.display(), out.join("trace").display());
    }
    let is_trace =
        fs::metadata(out).is_ok_and(|data| data.is_file()) && begins(out).is_ok_and(|head| is_magic(&head));
    if !is_trace {
        bail!("{} exists and is not a trace, so it was not replaced: choose another --out", out.display());
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_trace_is_recognised_by_its_name_and_its_zeros() {
        let dir = std::env::temp_dir().join(format!("ephemera-place-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let ours = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, bytes).unwrap();
            let ours = is_trace(&path, OsStr::new(name));
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

    #[test]
    fn the_directory_of_a_recording_is_recognised_by_its_name() {
        assert!(is_directory_name(OsStr::new("00c0ffee12345678")));
        for other in ["", "inner", "00c0ffee1234567", "00c0ffee123456789", "00c0ffee1234567x"] {
            assert!(!is_directory_name(OsStr::new(other)), "{other}");
        }
    }
}
