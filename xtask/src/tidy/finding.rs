//! The finding that a check reports.

/// A fault that a check found, with its file and line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    path: String,
    line: usize,
    text: String,
    pub(super) warning: bool,
}

impl Finding {
    /// Creates an error. `text` says what is wrong and how to correct it.
    pub(super) fn error(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into(), warning: false }
    }

    /// Creates a warning, which does not fail the check.
    pub(super) fn warning(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { warning: true, ..Self::error(path, line, text) }
    }
}

impl core::fmt::Display for Finding {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mark = if self.warning { "warning: " } else { "" };
        write!(f, "{}:{}: {mark}{}", self.path, self.line, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn a_finding_is_printed_like_a_compiler_message() {
        assert_eq!(Finding::error("a/b.rs", 7, "what").to_string(), "a/b.rs:7: what");
        assert_eq!(Finding::warning("a/b.rs", 7, "what").to_string(), "a/b.rs:7: warning: what");
    }
}
