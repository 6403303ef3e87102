//! Checks comments and Markdown pages: the width of comments, ruled-out phrases, sentences without
//! a subject, and terms that the glossary lacks.

mod glossary;
mod phrases;
mod text;

use super::{Finding, SourceFile};

/// The last column of a comment.
const WIDTH: usize = 100;

/// Checks all files and the glossary.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = glossary::check(files);
    findings.extend(files.iter().flat_map(check_file));
    findings
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut findings: Vec<_> = too_wide(file).collect();
    for paragraph in text::paragraphs(file) {
        for (at, advice) in phrases::found(&paragraph.text) {
            findings.push(Finding::error(&file.path, paragraph.line_of(at), advice));
        }
    }
    findings
}

/// Returns a finding for each line of a comment that exceeds [`WIDTH`]. A line that cannot be
/// broken is accepted: a row of a table, or a single word such as an address.
fn too_wide(file: &SourceFile) -> impl Iterator<Item = Finding> {
    let numbered = file.text.lines().zip(text::comments(file)).enumerate();
    numbered.filter_map(|(index, (line, comment))| {
        let comment = comment?;
        let breakable = comment.contains(' ') && !comment.starts_with('|');
        let columns = line.trim_end().chars().count();
        (breakable && columns > WIDTH).then(|| {
            let advice = format!("the comment ends at column {columns}: break it by column {WIDTH}");
            Finding::error(&file.path, index + 1, advice)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::check_file;
    use crate::tidy::SourceFile;

    fn found(path: &str, text: &str) -> Vec<String> {
        check_file(&SourceFile::new(path, text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_comment_beyond_the_width_is_reported() {
        let comment = |columns: usize| format!("///{}\n", " a".repeat(columns / 2 - 2) + "b");
        assert_eq!(comment(100).trim_end().len(), 100);
        assert!(found("crates/a/src/b.rs", &comment(100)).is_empty());
        let wide = found("crates/a/src/b.rs", &format!("fn f() {{}}\n{}", comment(102)));
        assert_eq!(wide, ["crates/a/src/b.rs:2: the comment ends at column 102: break it by column 100"]);
        for (path, mark) in [("a/Cargo.toml", "#"), (".ci/run", "#"), ("a/b.yml", "#"), ("a/b.cpp", "//")] {
            assert_eq!(found(path, &format!("{mark} {}\n", "a ".repeat(60))).len(), 1, "{path}");
        }
    }

    #[test]
    fn code_pages_tables_and_single_words_may_be_wider() {
        let wide = "a ".repeat(60);
        assert!(found("crates/a/src/b.rs", &format!("f(\"{wide}\");\n")).is_empty());
        assert!(found("docs/a.md", &format!("{wide}\n")).is_empty());
        assert!(found("crates/a/src/b.rs", &format!("/// | {wide} |\n")).is_empty());
        assert!(found("crates/a/src/b.rs", &format!("/// {}\n", "a".repeat(120))).is_empty());
    }

    #[test]
    fn a_phrase_is_reported_in_its_line_also_across_a_line_break() {
        let text = "fn f() {}\n/// A look in vain.\n/// It stays for\n/// ever.\n";
        let lines = found("crates/a/src/b.rs", text);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("crates/a/src/b.rs:2: \"in vain\""), "{lines:?}");
        assert!(lines[1].starts_with("crates/a/src/b.rs:3: \"for ever\""), "{lines:?}");
        assert!(found("docs/a.md", "Text.\n\n* built anew\n")[0].starts_with("docs/a.md:3: \"anew\""));
        assert_eq!(found(".github/workflows/a.yml", "a: b # built anew\n").len(), 1);
    }

    #[test]
    fn code_and_names_are_not_prose() {
        assert!(found("crates/a/src/b.rs", "fn in_vain() { f(\"in vain\"); }\n").is_empty());
        assert!(found("docs/a.md", "The control `arena_look in vain`.\n").is_empty());
        assert!(found("docs/a.md", "```text\nWho frees: in vain\n```\n").is_empty());
    }
}
