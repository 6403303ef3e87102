//! A parser: syn reads the repository's own Rust sources into syntax trees.

use std::path::Path;

use syn::visit::{self, Visit};

use crate::checksum::{Checksum, ProgramResult};
use crate::files;

/// The number of times that the sources are parsed.
const PASSES: usize = 2;

/// Parses every source file [`PASSES`] times. All trees of a pass live until the end of the pass.
pub(crate) fn run(root: &Path) -> ProgramResult {
    let sources = files::texts(&root.join("crates"), "rs")?;
    let mut found = Names(Checksum::new());
    for _ in 0..PASSES {
        let trees = sources.iter().map(|text| syn::parse_file(text)).collect::<Result<Vec<_>, _>>()?;
        trees.iter().for_each(|tree| found.visit_file(tree));
    }
    Ok(found.0)
}

/// Computes the checksum of the identifiers in the trees that it visits.
struct Names(Checksum);

impl<'tree> Visit<'tree> for Names {
    fn visit_ident(&mut self, name: &'tree syn::Ident) {
        self.0.bytes(name.to_string().as_bytes());
        visit::visit_ident(self, name);
    }
}
