//! Finds paths that exist only on the author's machine.

use super::{Finding, SourceFile};

/// Directories of one machine. The array concatenates their parts, so that this file does not
/// contain them.
const DIRS: [&str; 3] = [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];

/// Checks all text files.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(dir) = DIRS.iter().find(|dir| begins_path(line, dir)) {
                let text =
                    format!("`{dir}` exists on one machine only: write the path from the repository's root");
                findings.push(Finding::error(&file.path, index + 1, text));
            }
        }
    }
    findings
}

/// Returns whether `line` contains a path that begins with `dir`.
fn begins_path(line: &str, dir: &str) -> bool {
    line.match_indices(dir).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::{DIRS, check};
    use crate::tidy::SourceFile;

    #[test]
    fn a_path_that_begins_with_such_a_directory_is_reported() {
        for dir in DIRS {
            for text in
                [format!("see {dir}x"), format!("{dir}x"), format!("file://{dir}x"), format!("(\"{dir}\")")]
            {
                assert_eq!(check(&[SourceFile::new("docs/a.md", text.clone())]).len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn a_longer_path_that_contains_such_a_directory_is_accepted() {
        for dir in DIRS {
            for text in
                [format!("https://example.org{dir}x"), format!("target{dir}x"), format!("${{X}}{dir}x")]
            {
                assert!(check(&[SourceFile::new("docs/a.md", text.clone())]).is_empty(), "{text}");
            }
        }
    }
}
