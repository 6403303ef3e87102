//! R1, nodes: the document of R1 parsed, walked and dropped; its nodes live in the contender, strings and lists in the
//! system's heap. The parser and the walk are those of R1.

use core::alloc::Layout;
use core::mem;
use std::rc::Rc;
use std::sync::Arc;

use allocator_api2::alloc::Global;

use crate::nodes::NodeFamily;
use crate::tally;
use crate::workloads::blocks::json::{Document, JsonNode, ParseError, Storage, parse, walk};
use crate::workloads::{Cell, Context, litter};

/// Nodes in a pool, the rest elsewhere.
struct NodeStorage<F: NodeFamily>(Rc<F::Pool<JsonNode<Self>>>);

impl<F: NodeFamily> Clone for NodeStorage<F> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<F: NodeFamily> NodeStorage<F> {
    fn of(family: &F) -> Self {
        Self(Rc::new(family.pool()))
    }

    /// Gives back all nodes below one, and drops it.
    ///
    /// # Safety
    ///
    /// They are this pool's.
    unsafe fn release(&self, node: JsonNode<Self>) {
        match node {
            JsonNode::Null | JsonNode::Bool(_) | JsonNode::Number(_) | JsonNode::Text(_) => {}
            JsonNode::List(items) => {
                for item in items {
                    // SAFETY: the caller's duty is the callee's.
                    unsafe { self.give_back(item) };
                }
            }
            JsonNode::Map(members) => {
                for member in members {
                    // SAFETY: the caller's duty is the callee's.
                    unsafe { self.give_back(member.value) };
                }
            }
        }
    }

    /// Gives a node back, and all below it.
    ///
    /// # Safety
    ///
    /// They are this pool's.
    unsafe fn give_back(&self, mut boxed: F::Box<JsonNode<Self>>) {
        let node = mem::replace(&mut *boxed, JsonNode::Null);
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.release(node) };
        // SAFETY: as above.
        unsafe { F::take(&self.0, boxed) };
    }
}

impl<F: NodeFamily> Storage for NodeStorage<F> {
    type Alloc = Global;
    type Boxed = F::Box<JsonNode<Self>>;

    #[inline(always)]
    fn alloc(&self) -> Global {
        Global
    }

    #[inline(always)]
    fn boxed(&self, node: JsonNode<Self>) -> Self::Boxed {
        // SAFETY: the cell gives every tree back before the pool ends; a tree that the parser gave up is dropped with its
        // handles at once.
        unsafe { F::put(&self.0, node) }
    }
}

/// Parses, walks and drops; the checksum is the walk's.
#[inline(never)]
fn round_trip<F: NodeFamily>(pool: &NodeStorage<F>, text: &[u8]) -> Result<u64, ParseError> {
    let tree = parse(text, pool.clone())?;
    let sum = walk(&tree).sum;
    // SAFETY: the tree is this pool's.
    unsafe { pool.release(tree) };
    Ok(sum)
}

struct NodeJson<F: NodeFamily> {
    /// Always there, but for the moment of a reset. Before the family, which the pool is of.
    pool: Option<NodeStorage<F>>,
    family: F,
    document: Arc<Document>,
}

impl<F: NodeFamily> Cell for NodeJson<F> {
    fn run(&mut self, units: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..units {
            let pool = self.pool.get_or_insert_with(|| NodeStorage::of(&self.family));
            match round_trip(pool, &self.document.text) {
                Ok(walked) => sum = walked,
                // The document was parsed when it was loaded; only memory that changed under the parser leads here.
                Err(_) => tally::damaged(),
            }
            if !F::INFO.caps.free_individually {
                self.pool = None;
                // SAFETY: the pool is gone, and its nodes were given back.
                unsafe { self.family.reset() };
            }
        }
        sum
    }

    fn ops_per_unit(&self) -> u64 {
        self.document.nodes
    }
}

/// A cell that parses the document of the context.
pub(crate) fn cell<F: NodeFamily>(littered: bool, context: &Context) -> Box<dyn Cell> {
    let document = Arc::clone(&context.document);
    if littered {
        // The root lies in no node of its own.
        let held = || vec![(Layout::new::<JsonNode<NodeStorage<F>>>(), document.nodes - 1)];
        litter::scatter::<F::Backing>(held, context.seed);
    }
    Box::new(NodeJson { pool: None, family: F::create(), document })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::blocks::{Bumpalo, System};
    use crate::contenders::nodes::NodeHeap;
    use crate::contenders::objects::{Textbook, TypedArena, UpstreamPool};
    use crate::workloads::nodes::Sources;

    #[test]
    fn the_document_is_the_one_that_r1_reads() {
        let document = Arc::new(Document::generated(2, 20_000));
        let sources = Arc::new(Sources::default());
        let context = Context { seed: 2, document: Arc::clone(&document), sources, second_cpu: None };
        let expected = walk(&parse(&document.text, Global).expect("the generator writes JSON")).sum;
        for mut cell in [
            cell::<NodeHeap<System>>(false, &context),
            cell::<NodeHeap<Bumpalo>>(false, &context),
            cell::<Textbook>(false, &context),
            cell::<TypedArena>(false, &context),
            cell::<UpstreamPool>(false, &context),
        ] {
            assert_eq!(cell.run(2), expected);
        }
    }
}
