//! Limits the length of a Rust file, and requires a `//!` comment at the start of the file.

use super::{Finding, SourceFile};

/// The number of lines above which a file gets a warning.
const SOFT: usize = 400;

/// The number of lines above which a file gets an error.
const HARD: usize = 600;

/// The maximum number of lines of code in a `lib.rs`, which is a table of contents.
const LIB: usize = 150;

/// Checks every Rust file of a package.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_package_code()) {
        let lines = file.lines.len();
        if lines > HARD {
            let text = format!("{lines} lines, the limit is {HARD}: split the file by topic");
            findings.push(Finding::error(&file.path, lines, text));
        } else if lines > SOFT {
            let text = format!("{lines} lines, aim at {SOFT}: consider a split");
            findings.push(Finding::warning(&file.path, lines, text));
        }
        let code = file.lines.iter().filter(|line| !line.code.trim().is_empty()).count();
        if file.name() == "lib.rs" && code > LIB {
            let text = format!("{code} lines of code in a lib.rs, the limit is {LIB}: move items to modules");
            findings.push(Finding::error(&file.path, 1, text));
        }
        let first = file.lines.iter().find(|line| !line.code.trim().is_empty() || !line.comment.is_empty());
        if !first.is_some_and(|line| line.comment.starts_with("//!")) {
            let text = "no `//!` at the start: begin the file with one sentence that says its purpose";
            findings.push(Finding::error(&file.path, 1, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::SourceFile;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[SourceFile::new(path, text)]).iter().map(ToString::to_string).collect()
    }

    fn long(lines: usize, line: &str) -> String {
        format!("//! Docs.\n{}", format!("{line}\n").repeat(lines - 1))
    }

    #[test]
    fn a_long_file_is_a_warning_and_a_very_long_one_an_error() {
        assert!(found("crates/a/src/b.rs", &long(400, "// x")).is_empty());
        assert!(found("crates/a/src/b.rs", &long(401, "// x"))[0].contains("warning: 401 lines"));
        assert!(
            found("crates/a/src/b.rs", &long(601, "// x"))[0].starts_with("crates/a/src/b.rs:601: 601 lines")
        );
        assert!(found("elsewhere/b.rs", &long(601, "// x")).is_empty());
    }

    #[test]
    fn the_limit_of_a_lib_counts_code_and_not_comments() {
        assert!(found("crates/a/src/lib.rs", &long(390, "//! more")).is_empty());
        assert!(found("crates/a/src/lib.rs", &long(151, "fn f() {}")).is_empty());
        assert!(found("crates/a/src/lib.rs", &long(152, "fn f() {}"))[0].contains("151 lines of code"));
    }

    #[test]
    fn a_file_without_a_module_comment_at_its_start_is_reported() {
        assert!(found("xtask/src/a.rs", "\n//! Docs.\n#![no_std]\n").is_empty());
        assert_eq!(found("xtask/src/a.rs", "#![no_std]\n//! Docs.\n").len(), 1);
        assert_eq!(found("xtask/src/a.rs", "// Docs.\nfn f() {}\n").len(), 1);
        assert_eq!(found("xtask/src/a.rs", "").len(), 1);
    }
}
