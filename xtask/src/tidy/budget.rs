//! How long a file may be, and that each says at its start what it is for.

use super::{File, Finding};

/// More lines than this are a warning.
const SOFT: usize = 400;

/// More lines than this are an error.
const HARD: usize = 600;

/// Lines of code in a `lib.rs`, which is a table of contents.
const LIB: usize = 150;

/// Checks every Rust file of a package.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_package_code()) {
        let lines = file.lines.len();
        if lines > HARD {
            let text = format!("{lines} lines, the limit is {HARD}: split the file by what it is about");
            findings.push(Finding::error(&file.path, lines, text));
        } else if lines > SOFT {
            let text = format!("{lines} lines, aim at {SOFT}: think of a split");
            findings.push(Finding::warning(&file.path, lines, text));
        }
        let code = file.lines.iter().filter(|line| !line.code.trim().is_empty()).count();
        if file.name() == "lib.rs" && code > LIB {
            let text = format!("{code} lines of code in a lib.rs, the limit is {LIB}: move items to modules");
            findings.push(Finding::error(&file.path, 1, text));
        }
        let first = file.lines.iter().find(|line| !line.code.trim().is_empty() || !line.comment.is_empty());
        if !first.is_some_and(|line| line.comment.starts_with("//!")) {
            let text = "no `//!` at the start: say in a sentence what the file is for, before anything else";
            findings.push(Finding::error(&file.path, 1, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::File;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[File::new(path, text)]).iter().map(ToString::to_string).collect()
    }

    fn long(lines: usize, line: &str) -> String {
        format!("//! Docs.\n{}", format!("{line}\n").repeat(lines - 1))
    }

    #[test]
    fn length_is_bounded_twice() {
        assert!(found("crates/a/src/b.rs", &long(400, "// x")).is_empty());
        assert!(found("crates/a/src/b.rs", &long(401, "// x"))[0].contains("warning: 401 lines"));
        assert!(
            found("crates/a/src/b.rs", &long(601, "// x"))[0].starts_with("crates/a/src/b.rs:601: 601 lines")
        );
        assert!(found("elsewhere/b.rs", &long(601, "// x")).is_empty());
    }

    #[test]
    fn a_lib_is_bounded_by_its_code_alone() {
        assert!(found("crates/a/src/lib.rs", &long(390, "//! more")).is_empty());
        assert!(found("crates/a/src/lib.rs", &long(151, "fn f() {}")).is_empty());
        assert!(found("crates/a/src/lib.rs", &long(152, "fn f() {}"))[0].contains("151 lines of code"));
    }

    #[test]
    fn a_file_begins_with_what_it_is_for() {
        assert!(found("xtask/src/a.rs", "\n//! Docs.\n#![no_std]\n").is_empty());
        assert_eq!(found("xtask/src/a.rs", "#![no_std]\n//! Docs.\n").len(), 1);
        assert_eq!(found("xtask/src/a.rs", "// Docs.\nfn f() {}\n").len(), 1);
        assert_eq!(found("xtask/src/a.rs", "").len(), 1);
    }
}
