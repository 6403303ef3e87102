//! Reads the files of the repository that are the programs' input, in a fixed order.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The names of directories that [`texts`] skips.
const SKIPPED: [&str; 3] = [".git", "programs", "target"];

/// Returns the text of every file with the extension `ending` below `dir`, in the order of the
/// paths. Skips the directories of `SKIPPED` and all symbolic links.
pub fn texts(dir: &Path, ending: &str) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    walk(dir, ending, &mut paths)?;
    paths.sort();
    paths.iter().map(fs::read_to_string).collect()
}

fn walk(dir: &Path, ending: &str, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            if !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                walk(&path, ending, paths)?;
            }
        } else if kind.is_file() && path.extension().is_some_and(|has| has == ending) {
            paths.push(path);
        }
    }
    Ok(())
}
