//! R1 over nodes: parses the document of R1, walks its tree and drops it. The contender holds the
//! nodes, and the system's heap holds strings and lists. The parser and the walk are the same as in
//! R1.

use core::alloc::Layout;
use core::mem;
use std::rc::Rc;

use allocator_api2::alloc::Global;

use crate::nodes::NodeFamily;
use crate::pools::RawPool;
use crate::workloads::blocks::json::{JsonNode, ParseError, Storage, parse, trips, walk};
use crate::workloads::{Cell, Context, litter};

/// The storage of a tree: a pool for the nodes, and the system's heap for the rest.
struct NodeStorage<F: NodeFamily>(Rc<F::Pool<JsonNode<Self>>>);

impl<F: NodeFamily> Clone for NodeStorage<F> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<F: NodeFamily> NodeStorage<F> {
    /// Frees all nodes below `node`, and drops `node` itself.
    ///
    /// # Safety
    ///
    /// The nodes must be from this pool.
    unsafe fn release(&self, node: JsonNode<Self>) {
        match node {
            JsonNode::Null | JsonNode::Bool(_) | JsonNode::Number(_) | JsonNode::Text(_) => {}
            JsonNode::List(items) => {
                for item in items {
                    // SAFETY: the caller passes a node of this pool, so its children are too.
                    unsafe { self.free_node(item) };
                }
            }
            JsonNode::Map(members) => {
                for member in members {
                    // SAFETY: the caller passes a node of this pool, so its children are too.
                    unsafe { self.free_node(member.value) };
                }
            }
        }
    }

    /// Frees a node and all nodes below it.
    ///
    /// # Safety
    ///
    /// The nodes must be from this pool.
    unsafe fn free_node(&self, mut boxed: F::Box<JsonNode<Self>>) {
        let node = mem::replace(&mut *boxed, JsonNode::Null);
        // SAFETY: the caller passes a node of this pool, so its children are too.
        unsafe { self.release(node) };
        // SAFETY: the caller passes a node of this pool, and nothing uses it after this call.
        unsafe { self.0.take(boxed) };
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
        // SAFETY: the cell frees every tree before the pool ends. A tree that the parser abandons
        // is dropped at once with its handles.
        unsafe { self.0.put(node) }
    }
}

/// Parses, walks and drops a document, and returns the checksum of the walk.
#[inline(never)]
fn round_trip<F: NodeFamily>(pool: &NodeStorage<F>, text: &[u8]) -> Result<u64, ParseError> {
    let tree = parse(text, pool.clone())?;
    let sum = walk(&tree).sum;
    // SAFETY: the tree is from this pool.
    unsafe { pool.release(tree) };
    Ok(sum)
}

/// Builds a cell that parses the context's document, on a littered heap if `littered`.
pub(crate) fn cell<F: NodeFamily>(littered: bool, context: &Context) -> Box<dyn Cell> {
    // The root is not in a node, so there is one node fewer than there are values.
    let held = || vec![(Layout::new::<JsonNode<NodeStorage<F>>>(), context.document.nodes - 1)];
    litter::scatter::<F::Backing>(littered, held, context.seed);
    trips(NodeStorage::<F>(Rc::new(F::create().pool())), context, |pool, text| {
        let walked = round_trip(pool, text);
        if !F::INFO.caps.free_individually {
            Rc::get_mut(&mut pool.0).expect("the tree was dropped, so nothing else has the pool").reset();
        }
        walked
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::contenders::blocks::{Bumpalo, System};
    use crate::contenders::nodes::NodeHeap;
    use crate::contenders::objects::{Textbook, TypedArena, UpstreamPool};
    use crate::workloads::{Document, Sources};

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
