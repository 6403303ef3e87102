//! Extracts the prose of a file: comments of code, and the text of Markdown pages.

use crate::tidy::SourceFile;

/// A run of prose without a break: several lines joined, with code replaced by underscores.
#[derive(Debug, Default)]
pub(super) struct Paragraph {
    pub(super) text: String,
    /// The offset in `text` and the number of each line in the file, in order.
    lines: Vec<(usize, usize)>,
}

impl Paragraph {
    /// Returns the line that contains the byte at `offset`.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        let starts = self.lines.iter().rev().find(|(start, _)| *start <= offset);
        starts.map_or(1, |(_, line)| *line)
    }

    fn push(&mut self, text: &str, line: usize) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.lines.push((self.text.len(), line));
        self.text.push_str(text);
    }
}

/// Returns the mark that begins a comment in a file that is not Rust, or `None` if the file's
/// comments are not checked.
fn mark(path: &str) -> Option<&'static str> {
    let is = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
    if is(&[".toml", ".yml", ".yaml", ".sh"]) || path.starts_with(".ci/") {
        return Some("#");
    }
    is(&[".c", ".h", ".cpp"]).then_some("//")
}

/// Returns the comment of each line without its marker, or `None` for a line without a comment.
pub(super) fn comments(file: &SourceFile) -> impl Iterator<Item = Option<&str>> {
    let mark = mark(&file.path);
    file.text.lines().enumerate().map(move |(index, line)| {
        if let Some(line) = file.lines.get(index) {
            let comment = line.comment.trim_start_matches(['/', '!', '*']);
            return (!line.comment.is_empty()).then(|| comment.trim());
        }
        let mark = mark?;
        let whole = line.trim_start().starts_with(mark);
        let at = if whole { line.find(mark) } else { line.find(&format!(" {mark} ")) };
        at.map(|at| line[at..].trim_start_matches([' ', '#', '/', '!']).trim())
    })
}

/// Returns the paragraphs of a file. Each item of a list and each cell of a table is a separate
/// paragraph. Skips blocks of code.
pub(super) fn paragraphs(file: &SourceFile) -> Vec<Paragraph> {
    let page = file.path.ends_with(".md");
    let prose: Vec<Option<&str>> = if page {
        file.text.lines().map(|line| Some(line.trim())).collect()
    } else {
        comments(file).collect()
    };
    let mut found = Vec::new();
    let mut open = Paragraph::default();
    let mut fenced = false;
    for (index, line) in prose.into_iter().enumerate() {
        let text = line.unwrap_or_default();
        let fence = text.starts_with("```");
        fenced ^= fence;
        if fenced || fence || text.is_empty() || begins_paragraph(text) {
            found.push(core::mem::take(&mut open));
        }
        if fenced || fence || text.is_empty() {
            continue;
        }
        if text.starts_with('|') {
            for cell in text.split('|') {
                open.push(cell.trim(), index + 1);
                found.push(core::mem::take(&mut open));
            }
        } else {
            open.push(text.trim_start_matches(['*', '-', '#', ' ']), index + 1);
        }
    }
    found.push(open);
    found.retain(|paragraph| !paragraph.text.is_empty());
    for paragraph in &mut found {
        paragraph.text = without_code(&paragraph.text);
    }
    found
}

/// Returns whether a line begins a list item, a heading or a row of a table.
fn begins_paragraph(line: &str) -> bool {
    let numbered = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    numbered || ["* ", "- ", "#", "|"].iter().any(|mark| line.starts_with(mark))
}

/// Replaces the contents of backticks with underscores, so that offsets stay the same.
fn without_code(text: &str) -> String {
    let mut inside = false;
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        inside ^= c == '`';
        if inside && c != '`' {
            plain.extend(core::iter::repeat_n('_', c.len_utf8()));
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{comments, paragraphs};
    use crate::tidy::SourceFile;

    fn texts(path: &str, text: &str) -> Vec<String> {
        paragraphs(&SourceFile::new(path, text)).into_iter().map(|paragraph| paragraph.text).collect()
    }

    #[test]
    fn comments_lose_their_markers() {
        let file = SourceFile::new("a.rs", "//! One.\n/// Two.\nf(); // Three.\ng();\n");
        let found: Vec<_> = comments(&file).collect();
        assert_eq!(found, [Some("One."), Some("Two."), Some("Three."), None]);
        let file = SourceFile::new("a.toml", "# One.\na = \"#\" # Two.\nb = 1\n");
        assert_eq!(comments(&file).collect::<Vec<_>>(), [Some("One."), Some("Two."), None]);
        let file = SourceFile::new("a.cpp", "// One.\nf(\"http://\"); // Two.\ng();\n");
        assert_eq!(comments(&file).collect::<Vec<_>>(), [Some("One."), Some("Two."), None]);
    }

    #[test]
    fn lines_of_a_paragraph_are_joined_and_code_is_blanked() {
        assert_eq!(
            texts("a.rs", "/// One `two`\n/// three.\n///\n/// Four.\n"),
            ["One `___` three.", "Four."]
        );
        assert_eq!(texts("a.rs", "// One.\nf();\n// Two.\n"), ["One.", "Two."]);
    }

    #[test]
    fn items_cells_and_headings_are_paragraphs() {
        let page = "# One\nTwo\n* three\n  four\n1. five\n\n| six | seven |\n";
        assert_eq!(texts("a.md", page), ["One Two", "three four", "1. five", "six", "seven"]);
    }

    #[test]
    fn blocks_of_code_are_skipped() {
        assert_eq!(texts("a.md", "One\n```text\ntwo\n```\nthree\n"), ["One", "three"]);
        assert_eq!(texts("a.rs", "/// One\n/// ```\n/// two\n/// ```\n"), ["One"]);
    }

    #[test]
    fn an_offset_belongs_to_the_line_that_it_came_from() {
        let paragraph = paragraphs(&SourceFile::new("a.md", "\none\ntwo\n")).remove(0);
        assert_eq!((paragraph.line_of(0), paragraph.line_of(2), paragraph.line_of(4)), (2, 2, 3));
    }
}
