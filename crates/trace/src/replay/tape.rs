//! Stores the packed operations of a program in memory or in a file without a name.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The packed operations of all lanes of a program.
#[derive(Debug)]
pub(super) struct Tape {
    /// The directory of the file, which the first append creates; `None` keeps the bytes in
    /// memory.
    directory: Option<PathBuf>,
    kept: Mutex<TapeContents>,
}

/// The bytes that were appended, in memory or in a file.
#[derive(Debug, Default)]
struct TapeContents {
    memory: Vec<u8>,
    file: Option<File>,
    /// The length of the file in bytes.
    length: u64,
}

impl Tape {
    /// Creates a tape in a file in `directory`; `None` means in memory.
    pub(super) fn new(directory: Option<&Path>) -> Self {
        Self { directory: directory.map(Path::to_owned), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, TapeContents> {
        // The length changes only after the bytes are written, so it is correct even if a thread
        // panicked.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the length of the file in bytes; 0 for a tape in memory.
    pub(super) fn on_disk(&self) -> u64 {
        self.kept().length
    }

    /// Returns the bytes of memory that the tape takes.
    pub(super) fn in_memory(&self) -> u64 {
        self.kept().memory.capacity() as u64
    }

    /// Appends bytes and returns their offset.
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<u64> {
        let mut kept = self.kept();
        let Some(directory) = &self.directory else {
            let offset = kept.memory.len() as u64;
            kept.memory.extend_from_slice(bytes);
            return Ok(offset);
        };
        let offset = kept.length;
        if kept.file.is_none() {
            // The file has no name, so the system deletes it when it is closed, at the latest when
            // this process ends.
            kept.file = Some(tempfile::tempfile_in(directory)?);
        }
        if let Some(file) = &kept.file {
            file.write_all_at(bytes, offset)?;
        }
        kept.length += bytes.len() as u64;
        Ok(offset)
    }

    /// Fills `out` with the bytes at `offset`.
    pub(super) fn read(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let kept = self.kept();
        if let Some(file) = &kept.file {
            return file.read_exact_at(out, offset);
        }
        out.copy_from_slice(&kept.memory[offset as usize..][..out.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_that_cannot_be_written_is_an_error() {
        let tape = Tape::new(Some(Path::new("/no/such/directory")));
        assert_eq!(
            tape.append(b"x").expect_err("there is no such directory").kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(tape.on_disk(), 0);
    }

    #[test]
    fn the_file_of_a_tape_has_no_name() {
        let dir = tempfile::tempdir().expect("the directory for temporary files is writable");
        let tape = Tape::new(Some(dir.path()));
        assert_eq!((tape.append(b"some").ok(), tape.append(b"more").ok()), (Some(0), Some(4)));
        let mut read = [0; 6];
        tape.read(&mut read, 2).expect("the test appended it");
        assert_eq!((&read, tape.on_disk(), tape.in_memory()), (b"memore", 8, 0));
        std::fs::remove_dir(dir.path()).expect("it is empty");
    }
}
