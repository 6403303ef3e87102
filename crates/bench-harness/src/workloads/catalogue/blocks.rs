//! The workloads over blocks.

use super::Workload::{
    Batch, Frames, Grow, Handoff, Json, Larson, Pair, Pairs, Pareto, Replay, Sharing, Slots, Straggler,
    Window,
};
use super::{Need, SHARES, Workload, WorkloadSpec, ground, other_class};
use crate::blocks::Contender;
use crate::card::ContenderClass;
use crate::contenders::objects::Boxes;
use crate::workloads::blocks::replay::RecordedHeap;
use crate::workloads::blocks::{
    batch, frames, grow, handoff, json, pair, pareto, replay, slots, stragglers, threads, window,
};
use crate::workloads::objects::sharing;
use crate::workloads::slots::SizeSpread;
use crate::workloads::stragglers::made_beforehand;
use crate::workloads::{Cell, Context};

/// Builds the workload's cell over a contender.
pub(crate) fn build<C: Contender>(spec: &WorkloadSpec, context: &Context) -> Box<dyn Cell> {
    match spec.workload {
        Pair(size) => pair::cell::<C>(size),
        Batch(n, size) => batch::cell::<C>(n, size),
        Window(n, high) => window::cell::<C>(n, high, context),
        Slots(count, spread) => slots::<C>(count, spread, context),
        Pareto => pareto::cell::<C>(context),
        Grow(n, exact) => grow::cell::<C>(n, exact),
        Straggler(one_in) => stragglers::<C>(one_in, context),
        Handoff(n, _, in_flight) => handoff::cell::<C>(n, in_flight, context),
        Pairs(n, _, in_flight) => handoff::pairs::<C>(n, in_flight, context),
        Larson(count) => threads::cell::<C>(count, context),
        Sharing(passive) => sharing::cell::<Boxes<C>>(passive, context),
        Frames => frames::cell::<C>(context),
        Json(littered) => json::cell::<C>(littered, context),
        Replay(recorded, littered) => replay::cell::<C>(recorded, littered, context),
        _ => other_class(spec),
    }
}

/// Returns the rows in the order of the report.
pub(super) fn rows() -> Vec<WorkloadSpec> {
    let mut rows = Vec::new();
    let mut add = |spec: WorkloadSpec| rows.push(spec);
    let row = |id: String, title: String, workload: Workload, op, need, memory_units| {
        WorkloadSpec::new(ContenderClass::Blocks, (id, title), workload, op, need, memory_units)
    };
    for size in pair::SIZES {
        let title = format!("allocate, touch and free one block of {size} bytes");
        let pair = row(format!("S1/pair/{size}"), title, Pair(size), "pair", Need::FreeLast, 20_000);
        add(pair.holding(false).allocating(0, 1).quick_if(size != 256));
    }
    for n in [25, 100, 400, 1600] {
        for size in [16, 64, 256] {
            let title = format!("{n} blocks of {size} bytes, half freed oldest first, half newest first");
            let (id, each) = (format!("S2/batch/{n}x{size}"), n as u64);
            let batch = row(id, title, Batch(n, size), "block", Need::FreeOrReset, 200_000 / each);
            add(batch.allocating(0, each).quick_if(matches!((n, size), (100, 16 | 256) | (1600, 64))));
        }
    }
    for (n, high) in [(16, 136), (16, 1032), (1024, 136), (1024, 1032)] {
        let title = format!("{n} live blocks of 8 to {high} bytes, the oldest freed first");
        let id = format!("W/window/{n}x{high}");
        add(row(id, title, Window(n, high), "block", Need::Free, 200_000).allocating(n as u64, 1));
    }
    for (name, count, spread, sizes) in [
        ("a", 1024, SizeSpread::Fixed(64), "64 bytes"),
        ("b", 1024, SizeSpread::InverseSquare(4, 32_768), "4 to 32,768 bytes, small ones most often"),
        ("c", 5000, SizeSpread::Uniform(8, 1000), "8 to 1,000 bytes"),
    ] {
        let title = format!("{count} slots, a random one replaced, {sizes}");
        let slots =
            row(format!("S3/slots/{name}"), title, Slots(count, spread), "block", Need::Free, 500_000);
        add(slots.allocating(count.into(), 1));
    }
    let title = "2^18 slots, one drawn: filled if empty, emptied if not; few are drawn most often; 5 to 1,024 bytes, all written and read";
    add(row("S4/pareto".into(), title.into(), Pareto, "visit", Need::Free, 500_000).holding(false));
    for (name, exact, how) in
        [("push", false, "pushed"), ("reserve_exact", true, "reserved and pushed one by one")]
    {
        for n in [10, 146, 2134, 17_453] {
            let title = format!("a vector of {n} numbers, {how}, from empty");
            let units = if exact && n > 10_000 { 4 } else { 40 };
            let grow = row(format!("S5/{name}/{n}"), title, Grow(n, exact), "vector", Need::Contents, units);
            add(grow.holding(n > 1000).allocating(0, 1));
        }
    }
    for (name, one_in, share) in SHARES {
        let title = format!(
            "4,096 live blocks of 64 to 1,024 bytes, oldest freed first, {share} stays 100 times longer"
        );
        let id = format!("S6/straggler/{name}");
        let straggler = row(id, title, Straggler(one_in), "block", Need::Free, 1_000_000);
        add(straggler.allocating(made_beforehand(one_in), 1));
    }
    for (n, in_flight) in [(64, 100), (4096, 4)] {
        let title =
            format!("64 bytes allocated here, freed there, batches of {n}, at most {in_flight} on their way");
        let (id, workload, each) = (format!("S8/handoff/{n}"), Handoff(n, 64, in_flight), n as u64);
        let handoff = row(id, title, workload, "block", Need::OtherThread, 400_000 / each);
        add(handoff.allocating(0, each).with_channel(in_flight));
    }
    let title = "64 bytes allocated by two threads, freed by two others, each pair with batches of 4,096; more threads than processors";
    let pairs = Pairs(4096, 64, 4);
    let pairs = row("S8/pairs/4096".into(), title.into(), pairs, "block", Need::ThreadsEnd, 200_000 / 4096);
    add(pairs.allocating(0, 2 * 4096).with_channel(4).quick_if(false));
    for (count, who) in [(1, "one thread"), (2, "two threads at once"), (4, "four threads at once")] {
        let title = format!(
            "{who}: each replaces one of its 5,000 blocks of 8 to 1,000 bytes 50,000 times, and leaves them to a new thread; ns of one thread"
        );
        let id = format!("S9/larson/{count}");
        let larson = row(id, title, Larson(count), "block", Need::ThreadsEnd, 8);
        let each = count as u64;
        add(larson.allocating(each * u64::from(threads::BLOCKS), each * threads::LIFE).quick_if(count <= 2));
    }
    for (name, passive, how) in
        [("active", false, "each makes its own"), ("passive", true, "one makes both threads' first")]
    {
        let title = format!("two threads replace a block of 8 bytes and count in it to 100; {how}");
        let id = format!("S10/sharing/{name}");
        let sharing = row(id, title, Sharing(passive), "block", Need::ThreadsEnd, 1000);
        add(sharing.holding(false).allocating(2 * u64::from(passive), sharing::MADE).quick_if(false));
    }
    let title = "a frame: some 5,000 blocks of 16 to 512 bytes, most for a step, 1 in 20 for two or three frames; a list of 10 to 40 KiB";
    add(row("S11/frames".into(), title.into(), Frames, "frame", Need::Contents, 240));
    // Littered heaps come last: later rows in the same process would run on litter too.
    for littered in [false, true] {
        let (suffix, ground) = ground(littered);
        let title = format!("a JSON document parsed, walked and dropped{ground}");
        let json = row(format!("R1/json{suffix}"), title, Json(littered), "node", Need::Contents, 4);
        add(json.holding(!littered).quick_if(!littered));
        for recorded in RecordedHeap::ALL {
            let title = format!("a recorded program's heap, replayed{ground}: {}", recorded.what());
            let id = format!("R6/replay/{}{suffix}", recorded.name());
            let replay = row(id, title, Replay(recorded, littered), "call", Need::Program, 8);
            let quick = !littered && matches!(recorded, RecordedHeap::Json | RecordedHeap::Git);
            add(replay.holding(!littered).quick_if(quick));
        }
    }
    rows
}
