//! No committed text names a directory of the machine it was written on.

use super::{File, Finding};

/// Directories that mean one machine, put together here so that this file does not name them.
const DIRS: [&str; 3] = [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];

/// Checks all text files.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(dir) = DIRS.iter().find(|dir| begins_path(line, dir)) {
                let text = format!(
                    "`{dir}` is a directory of one machine: write the path from the repository's root"
                );
                findings.push(Finding::error(&file.path, index + 1, text));
            }
        }
    }
    findings
}

/// Whether `dir` stands in `line` as the beginning of a path, and not inside one.
fn begins_path(line: &str, dir: &str) -> bool {
    line.match_indices(dir).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::{DIRS, check};
    use crate::tidy::File;

    #[test]
    fn a_path_of_one_machine_is_found_anywhere() {
        for dir in DIRS {
            for text in
                [format!("see {dir}x"), format!("{dir}x"), format!("file://{dir}x"), format!("(\"{dir}\")")]
            {
                assert_eq!(check(&[File::new("docs/a.md", text.clone())]).len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn the_same_word_inside_a_path_is_none() {
        for dir in DIRS {
            for text in
                [format!("https://example.org{dir}x"), format!("target{dir}x"), format!("${{X}}{dir}x")]
            {
                assert!(check(&[File::new("docs/a.md", text.clone())]).is_empty(), "{text}");
            }
        }
    }
}
