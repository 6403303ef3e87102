//! R4, AST: lowers Rust sources into a tree of twelve types of node, visits it and drops it.
//!
//! `syn` parses the files in advance, and the result is a list of events, the starts and ends of
//! nodes. The timed part reads only this list, so the time includes the nodes of R4's tree but not
//! the nodes of `syn`. Nodes of one kind are linked in a list below their parent. The tree
//! allocates only nodes.

mod events;
mod tree;

pub(crate) use self::events::Syntax;

use core::mem;
use std::sync::Arc;

use self::tree::{Item, List, Pools, lower, release, visit};
use crate::nodes::NodeFamily;
use crate::workloads::{Cell, Context, StateCell, each, litter};

/// A tree that is built once and visited in every unit.
struct TreeVisits<F: NodeFamily> {
    roots: List<F, Item<F>>,
    pools: Pools<F>,
}

impl<F: NodeFamily> Drop for TreeVisits<F> {
    fn drop(&mut self) {
        let roots = self.roots.take();
        if F::INFO.caps.free_individually {
            // SAFETY: the roots are from these pools.
            unsafe { release(&self.pools, roots) };
        } else {
            mem::forget(roots);
        }
    }
}

/// Returns the events of the context's sources, and litters the heap if `littered`.
fn prepare<F: NodeFamily>(littered: bool, context: &Context) -> Arc<Syntax> {
    let syntax = context.sources.syntax();
    litter::scatter::<F::Backing>(littered, || tree::histogram::<F>(&syntax.counts), context.seed);
    syntax
}

/// Builds a cell that lowers, visits and drops the context's sources, on a littered heap if
/// `littered`.
pub(crate) fn cell<F: NodeFamily>(littered: bool, context: &Context) -> Box<dyn Cell> {
    let syntax = prepare::<F>(littered, context);
    let nodes = syntax.nodes() as usize;
    // The pools are made on first use and again after each reset.
    let state = (None::<Pools<F>>, F::create(), syntax);
    StateCell::boxed(nodes, state, |(pools, family, syntax), units| {
        each(units, || {
            let present = pools.get_or_insert_with(|| Pools::of(family));
            let roots = lower(present, &syntax.events);
            let walk = visit::<F>(&roots);
            if F::INFO.caps.free_individually {
                // SAFETY: the roots are from these pools.
                unsafe { release(present, roots) };
            } else {
                // Uses an arena as intended: does not free single nodes, because the reset frees
                // everything.
                mem::forget(roots);
                *pools = None;
                family.reset();
            }
            walk.sum ^ walk.nodes
        })
    })
}

/// Builds a cell that lowers the context's sources once, on a littered heap if `littered`, and
/// visits the tree in each unit. The time of a visit shows how close together the nodes are.
pub(crate) fn visits<F: NodeFamily>(littered: bool, context: &Context) -> Box<dyn Cell> {
    let syntax = prepare::<F>(littered, context);
    let pools = Pools::of(&F::create());
    let roots = lower(&pools, &syntax.events);
    let tree = TreeVisits { roots, pools };
    StateCell::boxed(syntax.nodes() as usize, tree, |tree, units| each(units, || visit::<F>(&tree.roots).sum))
}

#[cfg(test)]
mod tests;
