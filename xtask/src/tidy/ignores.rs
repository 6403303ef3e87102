//! Finds ignored tests that give no reason. Unlike Clippy, the check also sees tests that are
//! ignored only under a cfg that the host does not have.

use super::source::Token;
use super::{Finding, SourceFile};

/// Checks every Rust file of a package.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_package_code()) {
        findings.extend(ignored(&file.tokens()).into_iter().map(|line| {
            let text = "a test is ignored without a reason: write `#[ignore = \"why, and how to run it\"]`";
            Finding::error(&file.path, line, text)
        }));
    }
    findings
}

/// Returns the lines of attributes with `ignore` but no `= "…"`, including `cfg_attr(…, ignore)`.
fn ignored(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut depth = 0_u32;
    for (index, token) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1).map_or("", |token| token.text);
        match token.text {
            "#" if depth == 0 && next == "[" => depth = 1,
            "[" if depth > 0 && tokens[index - 1].text != "#" => depth += 1,
            "]" if depth > 0 => depth -= 1,
            "ignore" if depth > 0 && next != "=" && tokens[index - 1].text != "::" => lines.push(token.line),
            _ => {}
        }
    }
    lines
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
        assert_eq!(found("#[cfg_attr(\n    all(a, b),\n    ignore\n)]\nfn f() {}\n").len(), 1);
        assert_eq!(found("#[cfg_attr(x, ignore, should_panic)]\nfn f() {}\n").len(), 1);
        assert!(
            found("#[ignore = \"slow\"]\n#[cfg_attr(miri, ignore = \"starts a process\")]\nfn f() {}\n")
                .is_empty()
        );
        assert!(found("fn ignore() { let x = [1]; ignore(x[0]); }\n").is_empty());
    }
}
