//! The workloads over blocks, with their parameters.

use super::{Facts, Kind, Need, Spec};
use crate::blocks::Contender;
use crate::contenders::objects::Boxes;
use crate::workloads::blocks::replay::Recorded;
use crate::workloads::blocks::slots::Spread;
use crate::workloads::blocks::{
    batch, frames, grow, handoff, json, pair, pareto, replay, slots, straggler, threads, window,
};
use crate::workloads::objects::sharing;
use crate::workloads::{Cell, Context};

/// A workload over blocks, and its parameters.
#[derive(Clone, Copy, Debug)]
pub enum BlockWorkload {
    /// S1: size.
    Pair(usize),
    /// S2: blocks and their size.
    Batch(usize, usize),
    /// FIFO window: live blocks and the largest size.
    Window(usize, u16),
    /// S3: slots and the spread of sizes.
    Slots(u16, Spread),
    /// S4.
    Pareto,
    /// S5: elements, and whether each is reserved for alone.
    Grow(u32, bool),
    /// S6: one block in so many stays.
    Straggler(usize),
    /// S8: blocks in a batch, and batches on their way.
    Handoff(usize, usize),
    /// S8 twice at once: the same.
    Pairs(usize, usize),
    /// S9: threads at a time.
    Threads(usize),
    /// S10: whether one thread makes both threads' first blocks.
    Sharing(bool),
    /// S11.
    Frames,
    /// R1: whether the heap is littered.
    Json(bool),
    /// R6: what was recorded, and whether the heap is littered.
    Replay(Recorded, bool),
}

impl BlockWorkload {
    /// Builds the workload's cell over a contender.
    pub fn build<C: Contender>(&self, context: &Context) -> Box<dyn Cell> {
        match *self {
            Self::Pair(size) => pair::cell::<C>(size, context),
            Self::Batch(blocks, size) => batch::cell::<C>(blocks, size, context),
            Self::Window(blocks, high) => window::cell::<C>(blocks, high, context),
            Self::Slots(count, spread) => slots::cell::<C>(count, spread, context),
            Self::Grow(n, exact) => grow::cell::<C>(n, exact, context),
            Self::Straggler(one_in) => straggler::cell::<C>(one_in, context),
            Self::Handoff(blocks, in_flight) => handoff::cell::<C>(blocks, in_flight, context),
            Self::Pairs(blocks, in_flight) => handoff::pairs::<C>(blocks, in_flight, context),
            Self::Pareto => pareto::cell::<C>(context),
            Self::Threads(count) => threads::cell::<C>(count, context),
            Self::Sharing(passive) => sharing::cell::<Boxes<C>>(passive, context),
            Self::Frames => frames::cell::<C>(context),
            Self::Json(littered) => json::cell::<C>(littered, context),
            Self::Replay(recorded, littered) => replay::cell::<C>(recorded, littered, context),
        }
    }
    /// What a table needs to know about it.
    pub(super) fn facts(&self) -> Facts {
        let (op, need, memory_units, holds_memory) = match *self {
            Self::Pair(_) => ("pair", Need::FreeLast, 20_000, false),
            Self::Batch(n, _) => ("block", Need::FreeOrReset, 200_000 / n as u64, true),
            Self::Window(..) => ("block", Need::Free, 200_000, true),
            Self::Slots(..) => ("block", Need::Free, 500_000, true),
            Self::Grow(n, exact) => {
                ("vector", Need::Contents, if exact && n > 10_000 { 4 } else { 40 }, n > 1000)
            }
            Self::Straggler(_) => ("block", Need::Free, 1_000_000, true),
            Self::Handoff(blocks, _) => ("block", Need::OtherThread, 400_000 / blocks as u64, true),
            Self::Pairs(blocks, _) => ("block", Need::ThreadsEnd, 200_000 / blocks as u64, true),
            // Its own slots take as much as the blocks, and would count as the contender's.
            Self::Pareto => ("visit", Need::Free, 500_000, false),
            Self::Threads(_) => ("block", Need::ThreadsEnd, 8, true),
            Self::Sharing(_) => ("block", Need::ThreadsEnd, 1000, false),
            Self::Frames => ("frame", Need::Contents, 240, true),
            // Litter would count as the contender's memory.
            Self::Json(littered) => ("node", Need::Contents, 4, !littered),
            Self::Replay(_, littered) => ("call", Need::Program, 8, !littered),
        };
        Facts { op, need, memory_units, holds_memory }
    }

    /// Allocations that a fresh cell and `units` units make, where that is a matter of arithmetic.
    pub(super) fn asked(&self, units: u64) -> Option<u64> {
        match *self {
            Self::Pair(_) => Some(units),
            Self::Batch(blocks, _) | Self::Handoff(blocks, _) => Some(blocks as u64 * units),
            Self::Pairs(blocks, _) => Some(2 * blocks as u64 * units),
            Self::Window(blocks, _) => Some(blocks as u64 + units),
            Self::Slots(count, _) => Some(u64::from(count) + units),
            Self::Straggler(one_in) => Some(straggler::made_beforehand(one_in) + units),
            // One allocation, then growth in place or elsewhere.
            Self::Grow(..) => Some(units),
            Self::Threads(count) => Some(count as u64 * (u64::from(threads::BLOCKS) + threads::LIFE * units)),
            Self::Sharing(passive) => Some(sharing::MADE * units + if passive { 2 } else { 0 }),
            Self::Replay(recorded, _) => Some(recorded.asked() * units),
            // As the tables, or the document, have it.
            Self::Pareto | Self::Frames | Self::Json(_) => None,
        }
    }

    /// The least a sample may have: several times what may be on its way, so that the channel is in its steady state.
    pub(super) fn least_units(&self) -> u64 {
        match *self {
            Self::Handoff(_, in_flight) | Self::Pairs(_, in_flight) => 4 * in_flight as u64,
            _ => 1,
        }
    }
}

/// The workloads over blocks, in the order of the report.
pub(super) fn all() -> Vec<Spec> {
    let mut all = Vec::new();
    for size in pair::SIZES {
        let title = format!("allocate, touch and free one block of {size} bytes");
        let pair = spec(format!("S1/pair/{size}"), title, BlockWorkload::Pair(size));
        all.push(if size == 256 { pair.full() } else { pair });
    }
    for blocks in [25, 100, 400, 1600] {
        for size in [16, 64, 256] {
            let title =
                format!("{blocks} blocks of {size} bytes, half freed oldest first, half newest first");
            let batch = spec(format!("S2/batch/{blocks}x{size}"), title, BlockWorkload::Batch(blocks, size));
            let quick = matches!((blocks, size), (100, 16 | 256) | (1600, 64));
            all.push(if quick { batch } else { batch.full() });
        }
    }
    for (blocks, high) in [(16, 136), (16, 1032), (1024, 136), (1024, 1032)] {
        let title = format!("{blocks} live blocks of 8 to {high} bytes, the oldest freed first");
        all.push(spec(format!("W/window/{blocks}x{high}"), title, BlockWorkload::Window(blocks, high)));
    }
    for (name, count, spread, sizes) in [
        ("a", 1024, Spread::Fixed(64), "64 bytes"),
        ("b", 1024, Spread::InverseSquare(4, 32_768), "4 to 32,768 bytes, small ones most often"),
        ("c", 5000, Spread::Uniform(8, 1000), "8 to 1,000 bytes"),
    ] {
        let title = format!("{count} slots, a random one replaced, {sizes}");
        all.push(spec(format!("S3/slots/{name}"), title, BlockWorkload::Slots(count, spread)));
    }
    let title = "2^18 slots, one drawn: filled if empty, emptied if not; few are drawn most often; 5 to 1,024 bytes, all written and read";
    all.push(spec("S4/pareto".to_owned(), title.to_owned(), BlockWorkload::Pareto));
    for (name, exact, how) in
        [("push", false, "pushed"), ("reserve_exact", true, "reserved and pushed one by one")]
    {
        for n in [10, 146, 2134, 17_453] {
            let title = format!("a vector of {n} numbers, {how}, from empty");
            all.push(spec(format!("S5/{name}/{n}"), title, BlockWorkload::Grow(n, exact)));
        }
    }
    for (name, one_in, share) in [
        ("0", 0, "none"),
        ("1e-4", 10_000, "1 in 10,000"),
        ("1e-3", 1000, "1 in 1,000"),
        ("1e-2", 100, "1 in 100"),
    ] {
        let title = format!(
            "4,096 live blocks of 64 to 1,024 bytes, oldest freed first, {share} stays 100 times longer"
        );
        all.push(spec(format!("S6/straggler/{name}"), title, BlockWorkload::Straggler(one_in)));
    }
    for (blocks, in_flight) in [(64, 100), (4096, 4)] {
        let title = format!(
            "64 bytes allocated here, freed there, batches of {blocks}, at most {in_flight} on their way"
        );
        all.push(spec(format!("S8/handoff/{blocks}"), title, BlockWorkload::Handoff(blocks, in_flight)));
    }
    let title = "64 bytes allocated by two threads, freed by two others, each pair with batches of 4,096; more threads than processors";
    all.push(spec("S8/pairs/4096".to_owned(), title.to_owned(), BlockWorkload::Pairs(4096, 4)).full());
    for (count, who) in [(1, "one thread"), (2, "two threads at once"), (4, "four threads at once")] {
        let title = format!(
            "{who}: each replaces one of its 5,000 blocks of 8 to 1,000 bytes 50,000 times, and leaves them to a new thread; ns of one thread"
        );
        let churn = spec(format!("S9/larson/{count}"), title, BlockWorkload::Threads(count));
        all.push(if count > 2 { churn.full() } else { churn });
    }
    for (name, passive, how) in
        [("active", false, "each makes its own"), ("passive", true, "one makes both threads' first")]
    {
        let title = format!("two threads replace a block of 8 bytes and count in it to 100; {how}");
        all.push(spec(format!("S10/sharing/{name}"), title, BlockWorkload::Sharing(passive)).full());
    }
    let title = "a frame: some 5,000 blocks of 16 to 512 bytes, most for a step, 1 in 20 for two or three frames; a list of 10 to 40 KiB";
    all.push(spec("S11/frames".to_owned(), title.to_owned(), BlockWorkload::Frames));
    // Littered heaps come last, as for nodes.
    for littered in [false, true] {
        let (suffix, ground) = if littered { ("/littered", ", on a littered heap") } else { ("", "") };
        let title = format!("a JSON document parsed, walked and dropped{ground}");
        let json = spec(format!("R1/json{suffix}"), title, BlockWorkload::Json(littered));
        all.push(if littered { json.full() } else { json });
        for recorded in Recorded::ALL {
            let title = format!("a recorded program's heap, replayed{ground}: {}", recorded.what());
            let id = format!("R6/replay/{}{suffix}", recorded.name());
            let replay = spec(id, title, BlockWorkload::Replay(recorded, littered));
            let quick = !littered && matches!(recorded, Recorded::Json | Recorded::Git);
            all.push(if quick { replay } else { replay.full() });
        }
    }
    all
}

fn spec(id: String, title: String, workload: BlockWorkload) -> Spec {
    Spec::new(id, title, Kind::Blocks(workload))
}
