//! R1, JSON: a document parsed into a tree, walked and dropped. The contender holds the nodes, the
//! strings and the vectors of children.
//!
//! The harness has its own parser, which is generic over the allocator. A test compares it with
//! `serde_json`.

mod document;
mod parser;
mod tree;

pub(crate) use self::document::toolchains;
pub use self::document::{Document, generate};
pub use self::parser::{ParseError, parse};
pub use self::tree::{JsonNode, JsonWalk, Member, Storage, Text, walk};

use std::sync::Arc;

use crate::blocks::{Contender, Handle, RawAlloc};
use crate::tally;
use crate::workloads::litter::{self, Census, Histogram};
use crate::workloads::{Cell, Context};

/// Parses, walks and drops a document. The checksum is that of the walk.
///
/// # Errors
///
/// If the document is not JSON.
#[inline(never)]
pub fn round_trip<R: RawAlloc + Copy>(alloc: R, text: &[u8]) -> Result<u64, ParseError> {
    let tree = parse(text, Handle(alloc))?;
    Ok(walk(&tree).sum)
}

struct BlockJson<C> {
    alloc: C,
    document: Arc<Document>,
}

impl<C: Contender> Cell for BlockJson<C> {
    fn run(&mut self, units: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..units {
            match round_trip(self.alloc.by_ref(), &self.document.text) {
                Ok(walked) => sum = walked,
                // The document was valid when it was loaded, so its memory changed during the
                // parse.
                Err(_) => tally::damaged(),
            }
            self.alloc.reset();
        }
        sum
    }

    fn ops_per_unit(&self) -> u64 {
        self.document.nodes
    }
}

/// Returns the layouts of the document's tree, with their numbers.
fn held(document: &Document) -> Histogram {
    let census = Census::default();
    let tree = parse(&document.text, &census);
    let held = census.held();
    drop(tree);
    held
}

/// Builds a cell that parses the context's document, on a littered heap if `littered`.
pub fn cell<C: Contender>(littered: bool, context: &Context) -> Box<dyn Cell> {
    if littered {
        litter::scatter::<C::Backing>(|| held(&context.document), context.seed);
    }
    Box::new(BlockJson { alloc: C::create(), document: Arc::clone(&context.document) })
}
