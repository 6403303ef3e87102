//! The files that are, or would be, committed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::lexer::{Line, lex};

/// A text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Its path from the root, with `/`.
    pub(crate) path: String,
    /// What it holds.
    pub(crate) text: String,
    /// Its lines with code and comments apart, if it is Rust; else empty.
    pub(crate) lines: Vec<Line>,
}

impl File {
    /// A file of these contents.
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let lines = if path.ends_with(".rs") { lex(&text) } else { Vec::new() };
        Self { path, text, lines }
    }

    /// Whether it is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it is Rust in one of the directories of packages.
    pub(crate) fn is_package_code(&self) -> bool {
        self.is_rust() && ["crates/", "xtask/", "benches/"].iter().any(|dir| self.path.starts_with(dir))
    }

    /// The last part of its path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Its code as tokens.
    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        self.lines.iter().enumerate().flat_map(|(index, line)| tokens(&line.code, index + 1)).collect()
    }
}

/// A word, `::`, or any other single character of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// The token.
    pub(crate) text: &'a str,
    /// Its line, from 1.
    pub(crate) line: usize,
}

fn tokens(code: &str, line: usize) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (text, after) = rest.split_at(length);
        if !first.is_whitespace() {
            found.push(Token { text, line });
        }
        rest = after;
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Reads all of them. Files that are no text are left out.
pub(super) fn load(root: &Path) -> Result<Vec<File>> {
    let mut paths = listed_by_git(root).map_or_else(|| walk(root), Ok)?;
    paths.sort();
    paths.dedup();
    let mut files = Vec::new();
    for path in paths {
        let bytes = match std::fs::read(root.join(&path)) {
            Ok(bytes) => bytes,
            // Deleted and not yet committed, or a link to nowhere.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File::new(path, text));
        }
    }
    Ok(files)
}

/// What git tracks, and what it would if everything here were added.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let asked = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(asked.stdout).ok()?;
    let paths: Vec<_> = text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    (asked.status.success() && !paths.is_empty()).then_some(paths)
}

/// All files but output and git's own: for a copy without git.
fn walk(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
                open.push(path);
            } else if kind.is_file() {
                let inner = path.strip_prefix(root)?;
                let parts: Vec<_> = inner.iter().map(|part| part.to_string_lossy()).collect();
                found.push(parts.join("/"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{File, listed_by_git, walk};
    use std::path::Path;

    #[test]
    fn code_falls_into_words_and_signs() {
        let file = File::new("a.rs", "let x = a::b(\"c d\"); // e\n");
        let texts: Vec<_> = file.tokens().iter().map(|token| token.text).collect();
        assert_eq!(texts, ["let", "x", "=", "a", "::", "b", "(", "\"", "\"", ")", ";"]);
    }

    #[test]
    fn both_ways_of_listing_find_this_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let this = "xtask/src/tidy/source.rs".to_owned();
        assert!(walk(root).unwrap().contains(&this));
        if let Some(paths) = listed_by_git(root) {
            assert!(paths.contains(&this));
        }
    }
}
