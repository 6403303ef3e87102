//! Finds the test targets of a package that Miri can run, and the targets that have threaded tests.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::libtest::THREADED;
use crate::workspace::{Package, Workspace};

/// Returns the arguments that select the targets with threaded tests. With one command for all
/// targets, cargo starts only once.
pub(super) fn threaded_targets(ws: &Workspace, package: &Package) -> Result<Vec<String>> {
    let folder = package_folder(ws, package);
    // Several targets may include a file of this folder.
    let shared = folder.join("tests/support");
    let everywhere = shared.is_dir() && has_threaded(&shared)?;
    let mut targets = Vec::new();
    if has_threaded(&folder.join("src"))? {
        targets.push("--lib".to_owned());
    }
    for name in &package.tests {
        if everywhere || has_threaded(&folder.join("tests").join(format!("{name}.rs")))? {
            targets.extend(["--test".to_owned(), name.clone()]);
        }
    }
    Ok(targets)
}

/// Returns the arguments that select the unit tests, and the integration tests that Miri can run,
/// except those in `left_out`. A test program without a test would cost a few seconds to start.
pub(super) fn targets(ws: &Workspace, package: &Package, left_out: &[&str]) -> Result<Vec<String>> {
    let folder = package_folder(ws, package).join("tests");
    let mut targets = vec!["--lib".to_owned()];
    for name in package.tests.iter().filter(|name| !left_out.contains(&name.as_str())) {
        if !is_empty_under_miri(&folder.join(format!("{name}.rs")))? {
            targets.extend(["--test".to_owned(), name.clone()]);
        }
    }
    Ok(targets)
}

/// Returns whether the first inner attribute of a source file removes the whole file under Miri.
fn is_empty_under_miri(path: &Path) -> Result<bool> {
    let source = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let first = source.lines().find(|line| line.starts_with("#!["));
    Ok(first.is_some_and(|line| {
        line.starts_with("#![cfg(") && ["not(miri", "not(any(miri"].iter().any(|not| line.contains(not))
    }))
}

/// Returns the folder of a library crate.
fn package_folder(ws: &Workspace, package: &Package) -> PathBuf {
    ws.root.join("crates").join(package.short())
}

/// Returns whether a source file, or a file below a folder, defines a threaded test.
fn has_threaded(path: &Path) -> Result<bool> {
    contains(path, &format!("fn {THREADED}"))
}

/// Returns whether a source file, or a file below a folder, contains `text`.
pub(super) fn contains(path: &Path, text: &str) -> Result<bool> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            if contains(&entry?.path(), text)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let source = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(source.contains(text))
}

#[cfg(test)]
mod tests {
    use super::{has_threaded, is_empty_under_miri, package_folder};
    use crate::workspace::Workspace;

    #[test]
    fn targets_with_threaded_tests_are_found_in_the_source() {
        let ws = Workspace::load().unwrap();
        let folder = package_folder(&ws, ws.package("typed-pool").unwrap());
        assert!(has_threaded(&folder.join("src")).unwrap());
        assert!(has_threaded(&folder.join("tests/threads.rs")).unwrap());
        assert!(!has_threaded(&folder.join("tests/traits.rs")).unwrap());
        assert!(has_threaded(&folder.join("tests/none.rs")).is_err());
    }

    #[test]
    fn files_that_miri_cannot_run_are_recognised_by_their_first_attribute() {
        let ws = Workspace::load().unwrap();
        let tests = package_folder(&ws, ws.package("typed-pool").unwrap()).join("tests");
        assert!(is_empty_under_miri(&tests.join("forked.rs")).unwrap());
        assert!(!is_empty_under_miri(&tests.join("threads.rs")).unwrap());
        assert!(is_empty_under_miri(&tests.join("none.rs")).is_err());
    }
}
