//! The list of workloads with their parameters: what `--list` shows and `--filter` chooses from.

use super::slots::Spread;
use super::{Cell, Context, batch, grow, handoff, json, pair, slots, straggler, window};
use crate::alloc::{Caps, Contender};

/// A workload and its parameters.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// S1: size.
    Pair(usize),
    /// S2: blocks and their size.
    Batch(usize, usize),
    /// FIFO window: live blocks and the largest size.
    Window(usize, u16),
    /// S3: slots and the spread of sizes.
    Slots(u16, Spread),
    /// S5: elements, and whether each is reserved for alone.
    Grow(u32, bool),
    /// S6: one block in so many stays.
    Straggler(usize),
    /// S8: blocks in a batch, and batches on their way.
    Handoff(usize, usize),
    /// R1.
    Json,
}

impl Kind {
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
            Self::Json => json::cell::<C>(context),
        }
    }
}

/// A capability that a workload may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Frees block by block, or takes back the last block.
    FreeLast,
    /// Frees block by block, or everything at the end of a batch.
    FreeOrReset,
    /// Frees block by block, in any order.
    Free,
    /// Blocks grow, and hold what was written.
    Contents,
    /// Frees on another thread.
    OtherThread,
}

impl Need {
    /// Why a contender cannot run the workload, if so.
    #[must_use]
    pub fn missing(self, caps: &Caps) -> Option<&'static str> {
        let (met, reason) = match self {
            Self::FreeLast => (true, ""),
            Self::FreeOrReset => (caps.free_individually || caps.reset, "cannot free"),
            Self::Free => (caps.free_individually, "cannot free block by block"),
            Self::Contents => (caps.keeps_contents && caps.any_size, "keeps no contents"),
            Self::OtherThread => (caps.any_thread_free && caps.free_individually, "one thread only"),
        };
        (!met).then_some(reason)
    }
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In `--quick` and `--full`.
    Quick,
    /// In `--full` alone.
    Full,
}

/// A row of the catalogue: one table of the report.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name: family, workload, parameters, as a path.
    pub id: String,
    /// What it does, in a line.
    pub title: String,
    /// What an operation is.
    pub op: &'static str,
    /// Which runs have it.
    pub scale: Scale,
    /// What a contender must be able to do.
    pub need: Need,
    /// Units of the memory pass.
    pub memory_units: u64,
    /// The workload itself.
    pub kind: Kind,
    /// Whether its memory says something about the contender: whether it holds more than a block or a vector.
    pub holds_memory: bool,
}

impl Spec {
    /// The first part of the name: `S1`.
    #[must_use]
    pub fn family(&self) -> &str {
        self.id.split('/').next().unwrap_or(&self.id)
    }

    /// Allocations that a fresh cell and `units` units make, where that is a matter of arithmetic.
    #[must_use]
    pub fn asked(&self, units: u64) -> Option<u64> {
        match self.kind {
            Kind::Pair(_) => Some(units),
            Kind::Batch(blocks, _) | Kind::Handoff(blocks, _) => Some(blocks as u64 * units),
            Kind::Window(blocks, _) => Some(blocks as u64 + units),
            Kind::Slots(count, _) => Some(u64::from(count) + units),
            Kind::Straggler(one_in) => Some(straggler::made_beforehand(one_in) + units),
            // One allocation, then growth in place or elsewhere.
            Kind::Grow(..) => Some(units),
            Kind::Json => None,
        }
    }

    /// The least a sample may have: several times what may be on its way, so that the channel is in its steady state.
    #[must_use]
    pub fn least_units(&self) -> u64 {
        if let Kind::Handoff(_, in_flight) = self.kind { 4 * in_flight as u64 } else { 1 }
    }

    /// Units of a check.
    #[must_use]
    pub fn check_units(&self) -> u64 {
        (self.memory_units / 8).max(1)
    }

    fn new(id: String, title: String, kind: Kind) -> Self {
        let (op, need, memory_units, holds_memory) = match kind {
            Kind::Pair(_) => ("pair", Need::FreeLast, 20_000, false),
            Kind::Batch(n, _) => ("block", Need::FreeOrReset, 200_000 / n as u64, true),
            Kind::Window(..) => ("block", Need::Free, 200_000, true),
            Kind::Slots(..) => ("block", Need::Free, 500_000, true),
            Kind::Grow(n, exact) => {
                ("vector", Need::Contents, if exact && n > 10_000 { 4 } else { 40 }, n > 1000)
            }
            Kind::Straggler(_) => ("block", Need::Free, 1_000_000, true),
            Kind::Handoff(blocks, _) => ("block", Need::OtherThread, 400_000 / blocks as u64, true),
            Kind::Json => ("node", Need::Contents, 4, true),
        };
        Self { id, title, op, scale: Scale::Quick, need, memory_units, kind, holds_memory }
    }

    fn full(mut self) -> Self {
        self.scale = Scale::Full;
        self
    }
}

/// All workloads, in the order of the report.
#[must_use]
pub fn catalogue() -> Vec<Spec> {
    let mut all = Vec::new();
    for size in pair::SIZES {
        let title = format!("allocate, touch and free one block of {size} bytes");
        all.push(Spec::new(format!("S1/pair/{size}"), title, Kind::Pair(size)));
    }
    for blocks in [25, 100, 400, 1600] {
        for size in [16, 64, 256] {
            let title =
                format!("{blocks} blocks of {size} bytes, half freed oldest first, half newest first");
            let spec = Spec::new(format!("S2/batch/{blocks}x{size}"), title, Kind::Batch(blocks, size));
            let quick = matches!((blocks, size), (100, 16 | 256) | (1600, 64));
            all.push(if quick { spec } else { spec.full() });
        }
    }
    for (blocks, high) in [(16, 136), (16, 1032), (1024, 136), (1024, 1032)] {
        let title = format!("{blocks} live blocks of 8 to {high} bytes, the oldest freed first");
        all.push(Spec::new(format!("W/window/{blocks}x{high}"), title, Kind::Window(blocks, high)));
    }
    for (name, count, spread, sizes) in [
        ("a", 1024, Spread::Fixed(64), "64 bytes"),
        ("b", 1024, Spread::InverseSquare(4, 32_768), "4 to 32,768 bytes, small ones most often"),
        ("c", 5000, Spread::Uniform(8, 1000), "8 to 1,000 bytes"),
    ] {
        let title = format!("{count} slots, a random one replaced, {sizes}");
        all.push(Spec::new(format!("S3/slots/{name}"), title, Kind::Slots(count, spread)));
    }
    for (name, exact, how) in
        [("push", false, "pushed"), ("reserve_exact", true, "reserved and pushed one by one")]
    {
        for n in [10, 146, 2134, 17_453] {
            let title = format!("a vector of {n} numbers, {how}, from empty");
            all.push(Spec::new(format!("S5/{name}/{n}"), title, Kind::Grow(n, exact)));
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
        all.push(Spec::new(format!("S6/straggler/{name}"), title, Kind::Straggler(one_in)));
    }
    for (blocks, in_flight) in [(64, 100), (4096, 4)] {
        let title = format!(
            "64 bytes allocated here, freed there, batches of {blocks}, at most {in_flight} on their way"
        );
        all.push(Spec::new(format!("S8/handoff/{blocks}"), title, Kind::Handoff(blocks, in_flight)));
    }
    let title = "a JSON document parsed, walked and dropped".to_owned();
    all.push(Spec::new("R1/json".to_owned(), title, Kind::Json));
    all
}
