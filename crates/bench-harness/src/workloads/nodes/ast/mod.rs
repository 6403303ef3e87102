//! R4, AST: Rust sources lowered into a tree of twelve types of node, visited and dropped.
//!
//! `syn` parses the files beforehand, and what it found is laid out as a list of events: a node begins, a node ends. The
//! timed part reads them in order, so that it pays for its own nodes and not for finding those of `syn`. Nodes of a kind
//! hang below their parent in a list through themselves; there is no memory but the nodes'.

mod events;
mod tree;

pub(crate) use self::events::Syntax;

use core::mem;
use std::sync::Arc;

use self::tree::{Item, List, Pools, TreeWalk};
use crate::nodes::NodeFamily;
use crate::workloads::{Cell, Context, litter, mix};

/// Lowers all files; the trees' roots.
#[inline(never)]
fn lower<F: NodeFamily>(pools: &Pools<F>, syntax: &Syntax) -> List<F, Item<F>> {
    tree::build(pools, &syntax.events)
}

/// Visits every node in the order of the source, kind by kind.
#[inline(never)]
fn visit<F: NodeFamily>(roots: &List<F, Item<F>>) -> TreeWalk {
    let mut walk = TreeWalk::default();
    tree::visit::<F>(roots, &mut walk);
    walk
}

/// Gives every node back, children after their parent.
///
/// # Safety
///
/// The roots came from these pools.
#[inline(never)]
unsafe fn release<F: NodeFamily>(pools: &Pools<F>, roots: List<F, Item<F>>) {
    // SAFETY: the caller's duty is the callee's.
    unsafe { tree::release(pools, roots) };
}

struct Lowering<F: NodeFamily> {
    /// Always there, but for the moment of a reset. Before the family, which the pools are of.
    pools: Option<Pools<F>>,
    family: F,
    syntax: Arc<Syntax>,
}

impl<F: NodeFamily> Cell for Lowering<F> {
    fn run(&mut self, units: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..units {
            let pools = self.pools.get_or_insert_with(|| Pools::of(&self.family));
            let roots = lower(pools, &self.syntax);
            let walk = visit::<F>(&roots);
            sum = mix(sum, walk.sum ^ walk.nodes);
            if F::INFO.caps.free_individually {
                // SAFETY: the roots came from these pools.
                unsafe { release(pools, roots) };
            } else {
                // As arenas are used: nothing is walked, all goes at once.
                mem::forget(roots);
                self.pools = None;
                // SAFETY: the pools are gone, and the nodes were forgotten.
                unsafe { self.family.reset() };
            }
        }
        sum
    }

    fn ops_per_unit(&self) -> u64 {
        self.syntax.nodes()
    }
}

/// A tree that stays, and is visited again and again.
struct TreeVisits<F: NodeFamily> {
    roots: List<F, Item<F>>,
    // Before the family, which the pools are of.
    pools: Pools<F>,
    _family: F,
    nodes: u64,
}

impl<F: NodeFamily> Cell for TreeVisits<F> {
    fn run(&mut self, units: u64) -> u64 {
        (0..units).fold(0, |sum, _| mix(sum, visit::<F>(&self.roots).sum))
    }

    fn ops_per_unit(&self) -> u64 {
        self.nodes
    }
}

impl<F: NodeFamily> Drop for TreeVisits<F> {
    fn drop(&mut self) {
        let roots = self.roots.take();
        if F::INFO.caps.free_individually {
            // SAFETY: the roots came from these pools.
            unsafe { release(&self.pools, roots) };
        } else {
            mem::forget(roots);
        }
    }
}

/// The sources of a context, on ground that is littered if wanted.
fn prepare<F: NodeFamily>(littered: bool, context: &Context) -> Arc<Syntax> {
    let syntax = context.sources.syntax();
    if littered {
        litter::scatter::<F::Backing>(|| tree::histogram::<F>(&syntax.counts), context.seed);
    }
    syntax
}

/// A cell that lowers, visits and drops the context's sources.
pub(crate) fn cell<F: NodeFamily>(littered: bool, context: &Context) -> Box<dyn Cell> {
    let syntax = prepare::<F>(littered, context);
    Box::new(Lowering { pools: None, family: F::create(), syntax })
}

/// A cell that visits them, lowered once: how near to one another the nodes lie.
pub(crate) fn visits<F: NodeFamily>(littered: bool, context: &Context) -> Box<dyn Cell> {
    let syntax = prepare::<F>(littered, context);
    let family = F::create();
    let pools = Pools::of(&family);
    let roots = lower(&pools, &syntax);
    Box::new(TreeVisits { roots, pools, _family: family, nodes: syntax.nodes() })
}

#[cfg(test)]
mod tests;
