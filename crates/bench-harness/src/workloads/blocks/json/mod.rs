//! R1, JSON: parses a document into a tree, walks the tree and drops it. The contender holds the
//! nodes, the strings and the vectors of children.
//!
//! The harness has its own parser, which is generic over the allocator. A test compares it with
//! `serde_json`.

mod document;
mod parser;
mod tree;

pub use self::document::Document;
pub(crate) use self::document::toolchains;
pub(crate) use self::parser::{ParseError, parse};
pub(crate) use self::tree::{JsonNode, Storage, walk};

use std::sync::Arc;

use crate::blocks::{BlockHandle, Contender, RawAlloc};
use crate::tally;
use crate::workloads::litter::{self, Census, Histogram};
use crate::workloads::{Cell, Context, StateCell};

/// Parses, walks and drops a document, and returns the checksum of the walk.
///
/// # Errors
///
/// Returns an error if the document is not JSON.
#[inline(never)]
pub(crate) fn round_trip<R: RawAlloc + Copy>(alloc: R, text: &[u8]) -> Result<u64, ParseError> {
    let tree = parse(text, BlockHandle::<_, true>(alloc))?;
    Ok(walk(&tree).sum)
}

/// Returns the layouts of the blocks in the document's tree, each with the number of blocks.
fn held(document: &Document) -> Histogram {
    let census = Census::default();
    let tree = parse(&document.text, &census);
    let held = census.held();
    drop(tree);
    held
}

/// Builds a cell that parses the context's document, on a littered heap if `littered`.
pub(crate) fn cell<C: Contender>(littered: bool, context: &Context) -> Box<dyn Cell> {
    litter::scatter::<C::Backing>(littered, || held(&context.document), context.seed);
    trips(C::create(), context, |alloc, text| {
        let walked = round_trip(alloc.by_ref(), text);
        alloc.reset();
        walked
    })
}

/// A function that parses a document, walks its tree and drops it. Returns the checksum of the
/// walk.
type RoundTrip<S> = fn(&mut S, &[u8]) -> Result<u64, ParseError>;

/// Builds a cell that makes a round trip with the context's document in each unit.
pub(crate) fn trips<S: 'static>(state: S, context: &Context, trip: RoundTrip<S>) -> Box<dyn Cell> {
    let document = Arc::clone(&context.document);
    let nodes = document.nodes as usize;
    StateCell::boxed(nodes, (state, document, trip), |(state, document, trip), units| {
        let mut sum = 0;
        for _ in 0..units {
            match trip(state, &document.text) {
                Ok(walked) => sum = walked,
                // The document was valid when it was loaded, so its memory changed during the
                // parse.
                Err(_) => tally::damaged(),
            }
        }
        sum
    })
}
