//! The workloads over nodes of data structures.

use super::Workload::{Ast, Json, Set, Store, Visit};
use super::{Need, Workload, WorkloadSpec, ground, other_class};
use crate::card::ContenderClass;
use crate::nodes::NodeFamily;
use crate::workloads::nodes::{ast, json, set, store};
use crate::workloads::{Cell, Context};

/// Builds the workload's cell over a contender.
pub(crate) fn build<F: NodeFamily>(spec: &WorkloadSpec, context: &Context) -> Box<dyn Cell> {
    match spec.workload {
        Set(n, again) => set::cell::<F>(n, again, context),
        Ast(littered) => ast::cell::<F>(littered, context),
        Visit(littered) => ast::visits::<F>(littered, context),
        Store(littered) => store::cell::<F>(littered, context),
        Json(littered) => json::cell::<F>(littered, context),
        _ => other_class(spec),
    }
}

/// Returns the rows in the order of the report. Littered heaps come last: later rows in the same
/// process would run on litter too.
pub(super) fn rows() -> Vec<WorkloadSpec> {
    const N: usize = set::ELEMENTS;
    let mut rows = Vec::new();
    let mut add = |spec: WorkloadSpec| rows.push(spec);
    let row = |id: String, title: String, workload: Workload, op, need, memory_units| {
        WorkloadSpec::new(ContenderClass::Nodes, (id, title), workload, op, need, memory_units)
    };
    for (name, again, how) in [
        ("insert", false, "inserted, then all cleared"),
        ("erase-insert", true, "erased, then inserted again"),
    ] {
        let title = format!("a chained hash set of {N} random numbers, {how}");
        let set = row(format!("S2-set/{name}"), title, Set(N, again), "element", Need::OneType, 10);
        add(set.holding(!again).allocating(N as u64 * u64::from(again), N as u64));
    }
    for littered in [false, true] {
        let (name, ground) = (if littered { "littered" } else { "clean" }, ground(littered).1);
        let title = format!("Rust sources lowered to a tree of twelve types, visited, dropped{ground}");
        let ast = row(format!("R4/ast/{name}"), title, Ast(littered), "node", Need::Tree, 3);
        add(ast.holding(!littered));
        let title = format!("the tree of R4/ast, visited alone{ground}");
        let visit = row(format!("R4/visit/{name}"), title, Visit(littered), "node", Need::Tree, 8);
        add(visit.holding(false).quick_if(false));
        let title =
            format!("identifiers looked up in a treap, one in ten replaced, then all deleted{ground}");
        let store = row(format!("R5/store/{name}"), title, Store(littered), "access", Need::Nodes, 5);
        add(store.holding(!littered).quick_if(!littered));
        let title =
            format!("a JSON document parsed, walked and dropped, its nodes alone in the contender{ground}");
        let json = row(format!("R1-nodes/json/{name}"), title, Json(littered), "node", Need::Tree, 2);
        add(json.holding(!littered).quick_if(false));
    }
    rows
}
