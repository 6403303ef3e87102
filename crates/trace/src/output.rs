//! Prints the text of a command, and writes regular files that are either complete or unchanged.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ephemera_recorder::format::MAGIC;
use tempfile::{Builder, NamedTempFile};

/// Prints text to the standard output. A closed pipe is not an error, because the reader needs no
/// more text.
///
/// # Errors
///
/// Returns an error if the output cannot be written, for instance because its disk is full.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => named(Path::new("the standard output"), done),
    }
}

/// Prints a line to the standard error.
pub fn note(line: &str) {
    // Best effort: there is no other place for the line.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Adds a path to the message of an error.
pub(crate) fn named<T>(path: &Path, done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Returns the directory of a file.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the path of the regular file that a write replaces or creates, or `None` if `path` names
/// a device or a pipe, which is written directly. Fails for a directory, and for a file that the
/// user may not write.
fn target(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if found.is_file() => {
            // Opening the file checks its permissions: a rename would replace even a file that
            // the user may not write.
            File::options().write(true).open(path)?;
            fs::canonicalize(path).map(Some)
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(path.to_owned())),
        Err(error) => Err(error),
    }
}

/// The start of the name of a temporary file.
const DRAFT: &str = ".ephemera-";

/// Creates a temporary file that can take the place of `target`. It is removed when the value is
/// dropped.
fn draft(target: &Path) -> io::Result<NamedTempFile> {
    // `tempfile_in` would add the path of the temporary file to an error.
    Builder::new().prefix(DRAFT).make_in(directory_of(target), |path| {
        File::options().write(true).create_new(true).mode(0o666).open(path)
    })
}

fn fill(draft: &NamedTempFile, text: &str) -> io::Result<()> {
    // `NamedTempFile` would add its path to an error, and `File` does not.
    draft.as_file().write_all(text.as_bytes())
}

/// Checks that [`replace`] can write a file, without changing any file.
///
/// # Errors
///
/// Returns an error with the path if the file or its directory cannot be written. A device or a
/// pipe is not checked.
pub fn check(path: &Path) -> io::Result<()> {
    let checked = target(path).and_then(|target| {
        let Some(target) = target else { return Ok(()) };
        draft(&target)?.close()
    });
    named(path, checked)
}

/// Writes a file. If that fails, an existing regular file stays unchanged.
///
/// # Errors
///
/// Returns an error with the path if the file or its directory cannot be written, or if the disk is
/// full.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let replaced = target(path).and_then(|target| {
        let Some(target) = target else { return fs::write(path, text) };
        let draft = draft(&target)?;
        fill(&draft, text)?;
        if let Ok(before) = fs::metadata(&target) {
            draft.as_file().set_permissions(before.permissions())?;
        }
        // Some file systems report a full disk only at this call.
        draft.as_file().sync_all()?;
        draft.persist(&target)?;
        Ok(())
    });
    named(path, replaced)
}

/// Returns whether two paths name the same file, or would if the file existed.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let place =
        |path: &Path| Some((fs::canonicalize(directory_of(path)).ok()?, path.file_name()?.to_owned()));
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => place(one).is_some_and(|found| Some(found) == place(other)),
        _ => false,
    }
}

/// Returns whether a path names a regular file that begins like a trace.
pub fn is_trace(path: &Path) -> bool {
    use std::io::Read as _;
    let begins = || -> io::Result<bool> {
        let mut start = [0; MAGIC.len()];
        File::open(path)?.read_exact(&mut start)?;
        Ok(start == MAGIC)
    };
    fs::metadata(path).is_ok_and(|found| found.is_file()) && begins().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use tempfile::TempDir;

    fn scratch() -> TempDir {
        tempfile::tempdir().expect("the directory for temporary files is writable")
    }

    #[test]
    fn a_written_file_has_the_new_text_and_the_old_mode() {
        let dir = scratch();
        let path = dir.path().join("page");
        replace(&path, "old").expect("the directory is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("the file belongs to this user");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("the directory is writable");
        check(&link).expect("the directory is writable");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "old", "a check changes nothing");
        replace(&link, "new").expect("the directory is writable");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "new", "the link stays a link");
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        let entries = fs::read_dir(dir.path()).expect("the test made it").count();
        assert_eq!((mode & 0o777, entries), (0o640, 2), "no temporary file stays");
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        for path in ["/no/such/place", "/"] {
            for error in [check(Path::new(path)), replace(Path::new(path), "text")] {
                let said = error.expect_err("the path cannot be written").to_string();
                assert!(said.starts_with(&format!("{path}: ")) && !said.contains(DRAFT), "{said}");
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_of_writing_does_not_name_the_temporary_file() {
        let full = |_: &Path| File::options().write(true).open("/dev/full");
        let draft = Builder::new().prefix(DRAFT).make_in(scratch(), full).expect("`/dev/full` can be opened");
        let said = fill(&draft, "text").expect_err("`/dev/full` is always full").to_string();
        assert!(!said.contains(DRAFT), "{said}");
    }

    /// A device must not become a regular file.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_directly() {
        let full = Path::new("/dev/full");
        check(full).expect("`/dev/full` can be opened");
        let said = replace(full, "text").expect_err("`/dev/full` is always full").to_string();
        assert!(said.starts_with("/dev/full: "), "{said}");
        assert!(!fs::metadata(full).expect("`/dev/full` still exists").is_file());
    }

    #[test]
    fn two_names_of_a_file_are_recognised_as_the_same_file() {
        let dir = scratch();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        assert!(is_same(&one, &dir.path().join(".").join("one")) && !is_same(&one, &other), "no file yet");
        fs::write(&one, "text").expect("the directory is writable");
        assert!(!is_same(&one, &other));
        fs::hard_link(&one, &other).expect("the directory is writable");
        assert!(is_same(&one, &other));
    }
}
