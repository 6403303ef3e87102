//! The workloads over nodes of data structures, with their parameters.

use super::{Facts, Kind, Need, Spec};
use crate::nodes::Family;
use crate::workloads::nodes::{ast, json, set, store};
use crate::workloads::{Cell, Context};

/// A workload over nodes of data structures, and its parameters.
#[derive(Clone, Copy, Debug)]
pub enum NodeWorkload {
    /// S2: elements, and whether they are erased one by one and inserted again.
    Set(usize, bool),
    /// R4: whether the heap is littered.
    Ast(bool),
    /// R4's tree visited: whether the heap is littered.
    Visit(bool),
    /// R5: whether the heap is littered.
    Store(bool),
    /// R1: whether the heap is littered.
    Json(bool),
}

impl NodeWorkload {
    /// Builds the workload's cell over a contender.
    pub fn build<F: Family>(&self, context: &Context) -> Box<dyn Cell> {
        match *self {
            Self::Set(n, again) => set::cell::<F>(n, again, context),
            Self::Ast(littered) => ast::cell::<F>(littered, context),
            Self::Visit(littered) => ast::visits::<F>(littered, context),
            Self::Store(littered) => store::cell::<F>(littered, context),
            Self::Json(littered) => json::cell::<F>(littered, context),
        }
    }

    /// Whether it works on Rust sources.
    #[must_use]
    pub fn reads_sources(&self) -> bool {
        matches!(self, Self::Ast(_) | Self::Visit(_) | Self::Store(_))
    }

    /// What a table needs to know about it.
    pub(super) fn facts(&self) -> Facts {
        // Litter would count as the contender's memory.
        let (op, need, memory_units, holds_memory) = match *self {
            Self::Set(_, again) => ("element", Need::OneType, 10, !again),
            Self::Ast(littered) => ("node", Need::Tree, 3, !littered),
            Self::Visit(_) => ("node", Need::Tree, 8, false),
            Self::Store(littered) => ("access", Need::Nodes, 5, !littered),
            Self::Json(littered) => ("node", Need::Tree, 2, !littered),
        };
        Facts { op, need, memory_units, holds_memory }
    }

    /// Nodes that a fresh cell and `units` units make, where that is a matter of arithmetic.
    pub(super) fn asked(&self, units: u64) -> Option<u64> {
        match *self {
            Self::Set(n, again) => Some(n as u64 * (units + u64::from(again))),
            Self::Ast(_) | Self::Visit(_) | Self::Store(_) | Self::Json(_) => None,
        }
    }
}

/// The workloads over nodes, in the order of the report. Littered heaps come last: what runs in the same process afterwards
/// would run on litter too.
pub(super) fn all() -> Vec<Spec> {
    const N: usize = set::ELEMENTS;
    let mut all = Vec::new();
    for (name, again, how) in [
        ("insert", false, "inserted, then all cleared"),
        ("erase-insert", true, "erased, then inserted again"),
    ] {
        let title = format!("a chained hash set of {N} random numbers, {how}");
        all.push(spec(format!("S2-set/{name}"), title, NodeWorkload::Set(N, again)));
    }
    for littered in [false, true] {
        let (name, ground) = if littered { ("littered", ", on a littered heap") } else { ("clean", "") };
        let title = format!("Rust sources lowered to a tree of twelve types, visited, dropped{ground}");
        all.push(spec(format!("R4/ast/{name}"), title, NodeWorkload::Ast(littered)));
        let title = format!("the tree of R4/ast, visited alone{ground}");
        all.push(spec(format!("R4/visit/{name}"), title, NodeWorkload::Visit(littered)).full());
        let title =
            format!("identifiers looked up in a treap, one in ten replaced, then all deleted{ground}");
        let store = spec(format!("R5/store/{name}"), title, NodeWorkload::Store(littered));
        all.push(if littered { store.full() } else { store });
        let title =
            format!("a JSON document parsed, walked and dropped, its nodes alone in the contender{ground}");
        all.push(spec(format!("R1-nodes/json/{name}"), title, NodeWorkload::Json(littered)).full());
    }
    all
}

fn spec(id: String, title: String, workload: NodeWorkload) -> Spec {
    Spec::new(id, title, Kind::Nodes(workload))
}
