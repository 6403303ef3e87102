//! What R4 and R5 work on, made once a process from the corpus, outside of every time and every memory measured.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::ast::Syntax;
use super::corpus::Corpus;
use super::words::SourceWords;
use crate::workloads::buffers::csv::CsvTable;
use crate::workloads::{Workload, WorkloadSpec};

/// Files of the corpus: so many that a tree of them outgrows the first caches, so few that a quick run stays one.
const FILES: usize = 60;

/// The library's sources, read when they are first asked for.
#[derive(Debug, Default)]
pub struct Sources {
    root: Option<PathBuf>,
    words: OnceLock<Arc<SourceWords>>,
    syntax: OnceLock<Arc<Syntax>>,
}

impl Sources {
    /// Those below `root`, else the sample.
    #[must_use]
    pub fn new(root: Option<&Path>) -> Self {
        Self { root: root.map(Path::to_path_buf), ..Self::default() }
    }

    /// Makes what a workload needs.
    pub(crate) fn prepare(&self, spec: &WorkloadSpec, seed: u64) {
        match spec.workload {
            Workload::Ast(_) | Workload::Visit(_) => drop(self.syntax()),
            Workload::Store(_) => drop(self.words(seed)),
            // Kept by itself; made now, so that no time and no memory of its making is measured.
            Workload::Replay(recorded, _) => _ = recorded.program(),
            Workload::Csv(_) => drop(CsvTable::shared()),
            _ => {}
        }
    }

    /// The files themselves.
    #[must_use]
    pub fn corpus(root: Option<&Path>) -> Corpus {
        Corpus::load(root, FILES)
    }

    /// Their words.
    pub(super) fn words(&self, seed: u64) -> Arc<SourceWords> {
        let words = || Arc::new(SourceWords::new(&Self::corpus(self.root.as_deref()).files, seed));
        Arc::clone(self.words.get_or_init(words))
    }

    /// Their syntax.
    pub(super) fn syntax(&self) -> Arc<Syntax> {
        let syntax = || Arc::new(Syntax::of(&Self::corpus(self.root.as_deref()).files));
        Arc::clone(self.syntax.get_or_init(syntax))
    }
}
