//! Finds macros and words that a draft leaves behind, and ignored tests that give no reason.

use super::source::Token;
use super::{Finding, SourceFile};

/// Macros that may not be committed, each with the advice for it.
const MACROS: [(&str, &str); 3] = [
    ("todo", "write the code, or leave the function out"),
    ("unimplemented", "write the code, or return an error that says what is not supported"),
    ("dbg", "remove it"),
];

/// Words that may not be committed in a comment. The array concatenates them so that this file does
/// not contain them.
const WORDS: [&str; 2] = [concat!("FIX", "ME"), concat!("X", "XX")];

/// Checks every Rust file of a package.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_package_code()) {
        let tokens = file.tokens();
        for pair in tokens.windows(2) {
            if let Some((name, way)) =
                MACROS.iter().find(|(name, _)| pair[0].text == *name && pair[1].text == "!")
            {
                findings.push(Finding::error(
                    &file.path,
                    pair[0].line,
                    format!("`{name}!` marks unfinished code: {way}"),
                ));
            }
        }
        for (index, line) in file.lines.iter().enumerate() {
            let mut words = line.comment.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(word) = words.find(|word| WORDS.contains(word)) {
                let text =
                    format!("`{word}` marks unfinished code: finish it, or describe the fault in an issue");
                findings.push(Finding::error(&file.path, index + 1, text));
            }
        }
        findings.extend(ignored(&tokens).into_iter().map(|line| {
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
    use super::{WORDS, check};
    use crate::tidy::SourceFile;

    fn found(text: &str) -> Vec<String> {
        check(&[SourceFile::new("crates/a/src/b.rs", text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn macros_that_mark_unfinished_code_are_reported() {
        assert!(found("fn f() {\n    todo!()\n}\n")[0].starts_with("crates/a/src/b.rs:2: `todo!` marks"));
        assert_eq!(found("unimplemented!(); dbg!(x);").len(), 2);
        assert!(found("let todo = 1; if todo != 2 {} // todo! is a macro\nf(\"dbg!\");").len() <= 1);
        assert!(found("fn dbg() {} f(\"todo!()\");").is_empty());
    }

    #[test]
    fn words_that_mark_unfinished_code_are_reported_in_comments_only() {
        for word in WORDS {
            assert_eq!(found(&format!("x(); // {word}: later\n")).len(), 1);
            assert!(found(&format!("x(); // A{word}\nf(\"{word}\");\n")).is_empty());
        }
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
