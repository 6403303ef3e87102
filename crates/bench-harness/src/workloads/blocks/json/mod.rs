//! R1, JSON: a document parsed into a tree, walked and dropped; nodes, strings and child vectors live in the contender.
//!
//! The parser is the harness's own, so that it is generic over the allocator; it is checked against `serde_json`.

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

/// Parses, walks and drops; the checksum is the walk's.
///
/// # Errors
///
/// Where the document is not JSON.
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
                // The document was parsed when it was loaded; only memory that changed under the parser leads here.
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

/// What the document's tree holds, by layout.
fn held(document: &Document) -> Histogram {
    let census = Census::default();
    let tree = parse(&document.text, &census);
    let held = census.held();
    drop(tree);
    held
}

/// A cell that parses the document of the context, on ground that is littered if wanted.
pub fn cell<C: Contender>(littered: bool, context: &Context) -> Box<dyn Cell> {
    if littered {
        litter::scatter::<C::Backing>(|| held(&context.document), context.seed);
    }
    Box::new(BlockJson { alloc: C::create(), document: Arc::clone(&context.document) })
}
