//! Finds ignored tests that give no reason, including tests that are ignored only under a cfg that
//! the host does not have. Clippy does not see these.

use super::{Finding, SourceFile};

/// Checks every Rust file of a package.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_package_code()) {
        for (index, line) in file.lines.iter().enumerate() {
            if ["#[ignore]", ", ignore)]"].iter().any(|ignore| line.code.contains(ignore)) {
                let text =
                    "a test is ignored without a reason: write `#[ignore = \"why, and how to run it\"]`";
                findings.push(Finding::error(&file.path, index + 1, text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::SourceFile;

    fn found(text: &str) -> Vec<String> {
        check(&[SourceFile::new("crates/a/src/b.rs", text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_ignored_test_without_a_reason_is_reported() {
        assert_eq!(
            found("#[test]\n#[ignore]\nfn f() {}\n"),
            ["crates/a/src/b.rs:2: a test is ignored without a reason: \
            write `#[ignore = \"why, and how to run it\"]`"]
        );
        assert_eq!(found("#[cfg_attr(miri, ignore)]\nfn f() {}\n").len(), 1);
        assert!(
            found("#[ignore = \"slow\"]\n#[cfg_attr(miri, ignore = \"starts a process\")]\nfn f() {}\n")
                .is_empty()
        );
        assert!(found("fn ignore() { let x = [1]; ignore(x[0]); }\n").is_empty());
    }
}
