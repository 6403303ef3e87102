//! The inputs of R4 and R5, made from the corpus once per process, outside of all measurements.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::ast::Syntax;
use super::corpus::Corpus;
use super::words::SourceWords;

/// The number of files in the corpus. Their syntax tree exceeds the first-level caches, but is
/// small enough for a quick run.
const FILES: usize = 60;

/// The inputs of R4 and R5, made from the corpus on first use.
#[derive(Debug, Default)]
pub struct Sources {
    root: Option<PathBuf>,
    words: OnceLock<Arc<SourceWords>>,
    syntax: OnceLock<Arc<Syntax>>,
}

impl Sources {
    /// Creates inputs whose corpus is below `root`, or is the sample if `root` is `None`.
    pub fn new(root: Option<&Path>) -> Self {
        Self { root: root.map(Path::to_path_buf), ..Self::default() }
    }

    /// Returns the corpus below `root`, or the sample if there are no Rust files.
    pub fn corpus(root: Option<&Path>) -> Corpus {
        Corpus::load(root, FILES)
    }

    pub(crate) fn words(&self, seed: u64) -> Arc<SourceWords> {
        let words = || Arc::new(SourceWords::new(&Self::corpus(self.root.as_deref()).files, seed));
        Arc::clone(self.words.get_or_init(words))
    }

    pub(crate) fn syntax(&self) -> Arc<Syntax> {
        let syntax = || Arc::new(Syntax::of(&Self::corpus(self.root.as_deref()).files));
        Arc::clone(self.syntax.get_or_init(syntax))
    }
}
