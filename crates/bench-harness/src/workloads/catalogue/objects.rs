//! The workloads over objects of one type.

use super::Workload::{
    AtOnce, Batch, Generations, Handoff, Pair, Pairs, Particles, Sharing, Slots, Straggler,
};
use super::{Need, SHARES, Workload, WorkloadSpec, other_class};
use crate::card::ContenderClass;
use crate::objects::Maker;
use crate::workloads::objects::{
    SLOTS, batch, handoff, pair, particles, sharing, slots, stragglers, threads,
};
use crate::workloads::slots::SizeSpread;
use crate::workloads::stragglers::made_beforehand;
use crate::workloads::{Cell, Context};

/// Builds the workload's cell over a contender.
pub(crate) fn build<M: Maker>(spec: &WorkloadSpec, context: &Context) -> Box<dyn Cell> {
    match spec.workload {
        Pair(bytes) => pair::cell::<M>(bytes / 8),
        Batch(n, bytes) => batch::cell::<M>(n, bytes / 8),
        Slots(..) => slots::<M>(context),
        Straggler(one_in) => stragglers::<M>(one_in, context),
        Handoff(n, bytes, in_flight) => handoff::cell::<M>(n, bytes / 8, in_flight, context),
        Pairs(n, bytes, in_flight) => handoff::pairs::<M>(n, bytes / 8, in_flight, context),
        AtOnce(n) => threads::at_once::<M>(n, context),
        Generations(n) => threads::generations::<M>(n, context),
        Sharing(passive) => sharing::cell::<M>(passive, context),
        Particles => particles::cell::<M>(context),
        _ => other_class(spec),
    }
}

/// Returns the rows in the order of the report.
pub(super) fn rows() -> Vec<WorkloadSpec> {
    let mut rows = Vec::new();
    let mut add = |spec: WorkloadSpec| rows.push(spec);
    let row = |id: String, title: String, workload: Workload, need, memory_units| {
        WorkloadSpec::new(ContenderClass::Objects, (id, title), workload, "object", need, memory_units)
    };
    for bytes in pair::WORDS.map(|words| words * 8) {
        let title = format!("make and drop one object of {bytes} bytes");
        let id = format!("S1-objects/pair/{bytes}");
        let pair = row(id, title, Pair(bytes), Need::FreeOrReset, 20_000);
        let pair = WorkloadSpec { op: "pair", ..pair };
        add(pair.holding(false).allocating(0, 1).quick_if(matches!(bytes, 32 | 40)));
    }
    for (n, bytes) in [(100, 40), (20_000, 32), (100_000, 40), (126_000, 8)] {
        let title = format!("{n} objects of {bytes} bytes alive, then all dropped, the oldest first");
        let (id, each) = (format!("S2-objects/batch/{n}x{bytes}"), n as u64);
        let batch = row(id, title, Batch(n, bytes), Need::FreeOrReset, (200_000 / each).max(2));
        add(batch.allocating(0, each).quick_if(n != 100));
    }
    let title = format!("{SLOTS} objects of 64 bytes alive, a random one replaced");
    let slots = Slots(SLOTS, SizeSpread::Fixed(64));
    let slots = row("S3-objects/slots".into(), title, slots, Need::Free, 200_000);
    add(slots.allocating(SLOTS.into(), 1));
    for (name, one_in, share) in SHARES.into_iter().filter(|share| share.0 != "1e-4") {
        let title = format!(
            "4,096 objects of 64 bytes alive, the oldest dropped first, {share} stays 100 times longer"
        );
        let id = format!("S6-objects/straggler/{name}");
        let straggler = row(id, title, Straggler(one_in), Need::Free, 1_000_000);
        add(straggler.allocating(made_beforehand(one_in), 1).quick_if(one_in == 100));
    }
    for (n, bytes, in_flight) in [(64, 40, 100), (4096, 40, 4), (4096, 32, 4)] {
        let title = format!(
            "{bytes} bytes made here, dropped there, batches of {n}, at most {in_flight} on their way"
        );
        let (id, each) = (format!("S8-objects/handoff/{n}x{bytes}"), n as u64);
        let handoff = row(id, title, Handoff(n, bytes, in_flight), Need::OtherThread, 400_000 / each);
        add(handoff.allocating(0, each).with_channel(in_flight));
    }
    let title = "32 bytes made by two threads, dropped by two others, each pair with batches of 4,096; more threads than processors";
    let pairs = Pairs(4096, 32, 4);
    let pairs = row("S8-objects/pairs/4096x32".into(), title.into(), pairs, Need::Shared, 200_000 / 4096);
    add(pairs.allocating(0, 2 * 4096).with_channel(4).quick_if(false));
    let title =
        "two threads at once, each with 10,000 objects of 40 bytes, then all dropped; ns of one thread";
    let at_once = row("S9-objects/at-once/10000".into(), title.into(), AtOnce(10_000), Need::Shared, 20);
    add(at_once.allocating(0, 20_000));
    let title = "thread after thread replaces the 5,000 objects of 40 bytes that the one before made";
    let id = "S9-objects/generations/5000".into();
    let generations = row(id, title.into(), Generations(5000), Need::Shared, 40);
    add(generations.allocating(5000, 5000).quick_if(false));
    for (name, passive, how) in
        [("active", false, "each makes its own"), ("passive", true, "one makes both threads' first")]
    {
        let title = format!("two threads replace an object of 8 bytes and count in it to 100; {how}");
        let sharing = row(format!("S10-objects/sharing/{name}"), title, Sharing(passive), Need::Shared, 1000);
        add(sharing.holding(false).allocating(2 * u64::from(passive), sharing::MADE).quick_if(passive));
    }
    let (alive, born) = (particles::ALIVE, particles::BORN);
    let title =
        format!("a frame: of {alive} objects of 64 bytes, {born} die, as many are made, all are looked at");
    let frame = row("S11-objects/particles".into(), title, Particles, Need::Free, 400);
    add(WorkloadSpec { op: "frame", ..frame }.allocating(alive.into(), born as u64));
    rows
}
