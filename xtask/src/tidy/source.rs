//! Reads the files that git tracks, or would track after `git add`, and splits Rust files into
//! tokens.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::lexer::{SourceLine, lex};

/// A text file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// The file's path from the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The file's lines, with code and comments separated. Empty unless the file is Rust.
    pub(crate) lines: Vec<SourceLine>,
}

impl SourceFile {
    /// Creates a file with these contents.
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let lines = if path.ends_with(".rs") { lex(&text) } else { Vec::new() };
        Self { path, text, lines }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether the file is Rust and belongs to a package.
    pub(crate) fn is_package_code(&self) -> bool {
        self.is_rust() && ["crates/", "xtask/", "benches/"].iter().any(|dir| self.path.starts_with(dir))
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        self.lines.iter().enumerate().flat_map(|(index, line)| tokens(&line.code, index + 1)).collect()
    }
}

/// A word, `::`, or any other single character of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    /// The token's line, counted from 1.
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

/// Reads all files of the repository. Skips files that are not UTF-8.
pub(super) fn load(root: &Path) -> Result<Vec<SourceFile>> {
    let mut paths = listed_by_git(root).map_or_else(|| walk(root), Ok)?;
    paths.sort();
    paths.dedup();
    let mut files = Vec::new();
    for path in paths {
        let bytes = match std::fs::read(root.join(&path)) {
            Ok(bytes) => bytes,
            // The file's deletion is not committed yet, or the file is a dangling link.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(SourceFile::new(path, text));
        }
    }
    Ok(files)
}

/// Returns the paths that git tracks or would track after `git add`. Returns `None` if git fails or
/// lists no file.
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

/// Returns all paths except cargo's output and git's own files, for a copy without git.
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
    use super::{SourceFile, listed_by_git, walk};
    use std::path::Path;

    #[test]
    fn tokens_are_words_double_colons_and_single_characters() {
        let file = SourceFile::new("a.rs", "let x = a::b(\"c d\"); // e\n");
        let texts: Vec<_> = file.tokens().iter().map(|token| token.text).collect();
        assert_eq!(texts, ["let", "x", "=", "a", "::", "b", "(", "\"", "\"", ")", ";"]);
    }

    #[test]
    fn git_and_the_directory_walk_both_list_this_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let this = "xtask/src/tidy/source.rs".to_owned();
        assert!(walk(root).unwrap().contains(&this));
        if let Some(paths) = listed_by_git(root) {
            assert!(paths.contains(&this));
        }
    }
}
