//! Builds the cell of a workload over one contender, for each class.

use super::Workload::{
    Ageing, Ast, AtOnce, Batch, Csv, Extend, Frames, Freeze, Generations, Grow, Handoff, Http, Idle, Json,
    Larson, Packets, Pair, Pairs, Pareto, Particles, Replay, Set, Sharing, Slots, Store, Straggler, Visit,
    Window,
};
use super::WorkloadSpec;
use crate::blocks::Contender;
use crate::buffers::Source;
use crate::contenders::objects::Boxes;
use crate::nodes::NodeFamily;
use crate::objects::Maker;
use crate::workloads::{self as all, Cell, Context, handoff};

/// Panics because the workload of a row cannot run over contenders of the row's class.
fn other_class(spec: &WorkloadSpec) -> ! {
    panic!("{} has no variant over {}", spec.id, spec.class.word())
}

/// Builds a cell over blocks.
pub(crate) fn blocks<C: Contender>(spec: &WorkloadSpec, context: &Context) -> Box<dyn Cell> {
    use all::blocks::{
        ageing, batch, frames, grow, idle, json, pair, pareto, replay, slots, stragglers, threads, window,
    };
    use all::objects::sharing;

    match spec.workload {
        Pair(size) => pair::cell::<C>(size),
        Batch(n, size) => batch::cell::<C>(n, size),
        Window(n, high) => window::cell::<C>(n, high, context),
        Slots(count, spread) => slots::<C>(count, spread, context),
        Pareto => pareto::cell::<C>(context),
        Grow(n, exact) => grow::cell::<C>(n, exact),
        Straggler(one_in) => stragglers::<C>(one_in, context),
        Handoff(n, _, in_flight) => handoff::blocks::<C>(n, in_flight, context),
        Pairs(n, _, in_flight) => handoff::pairs_of_blocks::<C>(n, in_flight, context),
        Larson(count) => threads::cell::<C>(count, context),
        Sharing(passive) => sharing::cell::<Boxes<C>>(passive, context),
        Frames => frames::cell::<C>(context),
        Idle(end) => idle::cell::<C>(end, context),
        Ageing => ageing::cell::<C>(context),
        Json(littered) => json::cell::<C>(littered, context),
        Replay(name, littered) => replay::cell::<C>(name, littered, context),
        _ => other_class(spec),
    }
}

/// Builds a cell over objects.
pub(crate) fn objects<M: Maker>(spec: &WorkloadSpec, context: &Context) -> Box<dyn Cell> {
    use all::objects::{batch, pair, particles, sharing, slots, stragglers, threads};

    match spec.workload {
        Pair(bytes) => pair::cell::<M>(bytes / 8),
        Batch(n, bytes) => batch::cell::<M>(n, bytes / 8),
        Slots(..) => slots::<M>(context),
        Straggler(one_in) => stragglers::<M>(one_in, context),
        Handoff(n, bytes, in_flight) => handoff::objects::<M>(n, bytes / 8, in_flight, context),
        Pairs(n, bytes, in_flight) => handoff::pairs_of_objects::<M>(n, bytes / 8, in_flight, context),
        AtOnce(n) => threads::at_once::<M>(n, context),
        Generations(n) => threads::generations::<M>(n, context),
        Sharing(passive) => sharing::cell::<M>(passive, context),
        Particles => particles::cell::<M>(context),
        _ => other_class(spec),
    }
}

/// Builds a cell over buffers.
pub(crate) fn buffers<S: Source>(spec: &WorkloadSpec, context: &Context) -> Box<dyn Cell> {
    use all::buffers::{csv, http, packets, single, slots, stragglers};

    match spec.workload {
        Pair(capacity) => single::fixed_cell::<S>(capacity),
        Extend => single::extend_cell::<S>(),
        Freeze => single::freeze_cell::<S>(),
        Slots(..) => slots::<S>(context),
        Straggler(one_in) => stragglers::<S>(one_in, context),
        Packets(held, longest, false) => packets::cell::<S, false>(held, longest, context),
        Packets(held, longest, true) => packets::cell::<S, true>(held, longest, context),
        Handoff(n, size, in_flight) => handoff::buffers::<S>(n, size, in_flight, context),
        Csv(littered) => csv::cell::<S>(littered, context),
        Http(littered) => http::cell::<S>(littered, context),
        _ => other_class(spec),
    }
}

/// Builds a cell over nodes.
pub(crate) fn nodes<F: NodeFamily>(spec: &WorkloadSpec, context: &Context) -> Box<dyn Cell> {
    use all::nodes::{ast, json, set, store};

    match spec.workload {
        Set(n, again) => set::cell::<F>(n, again, context),
        Ast(littered) => ast::cell::<F>(littered, context),
        Visit(littered) => ast::visits::<F>(littered, context),
        Store(littered) => store::cell::<F>(littered, context),
        Json(littered) => json::cell::<F>(littered, context),
        _ => other_class(spec),
    }
}
