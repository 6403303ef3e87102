//! The workloads over objects of one type, with their parameters.

use super::{Facts, Kind, Need, Spec};
use crate::objects::Maker;
use crate::workloads::objects::{batch, handoff, pair, particles, sharing, slots, straggler, threads};
use crate::workloads::{Cell, Context, blocks};

/// A workload over objects, and its parameters.
#[derive(Clone, Copy, Debug)]
pub enum ObjectWorkload {
    /// S1: words.
    Pair(usize),
    /// S2: objects and their words.
    Batch(usize, usize),
    /// S3.
    Slots,
    /// S6: one object in so many stays.
    Straggler(usize),
    /// S8: objects in a batch, their words, and batches on their way.
    Handoff(usize, usize, usize),
    /// S8 twice at once: the same.
    Pairs(usize, usize, usize),
    /// S9: objects of each of two threads.
    AtOnce(usize),
    /// S9: objects that a thread leaves to the next one.
    Generations(usize),
    /// S10: whether one thread makes both threads' first objects.
    Sharing(bool),
    /// S11.
    Particles,
}

impl ObjectWorkload {
    /// Builds the workload's cell over a contender.
    pub fn build<M: Maker>(&self, context: &Context) -> Box<dyn Cell> {
        match *self {
            Self::Pair(words) => pair::cell::<M>(words, context),
            Self::Batch(n, words) => batch::cell::<M>(n, words, context),
            Self::Slots => slots::cell::<M>(context),
            Self::Straggler(one_in) => straggler::cell::<M>(one_in, context),
            Self::Handoff(n, words, in_flight) => handoff::cell::<M>(n, words, in_flight, context),
            Self::Pairs(n, words, in_flight) => handoff::pairs::<M>(n, words, in_flight, context),
            Self::AtOnce(n) => threads::at_once::<M>(n, context),
            Self::Generations(n) => threads::generations::<M>(n, context),
            Self::Sharing(passive) => sharing::cell::<M>(passive, context),
            Self::Particles => particles::cell::<M>(context),
        }
    }

    /// What a table needs to know about it.
    pub(super) fn facts(&self) -> Facts {
        let (op, need, memory_units, holds_memory) = match *self {
            Self::Pair(_) => ("pair", Need::FreeOrReset, 20_000, false),
            Self::Batch(n, _) => ("object", Need::FreeOrReset, (200_000 / n as u64).max(2), true),
            Self::Slots => ("object", Need::Free, 200_000, true),
            Self::Straggler(_) => ("object", Need::Free, 1_000_000, true),
            Self::Handoff(n, ..) => ("object", Need::OtherThread, 400_000 / n as u64, true),
            Self::Pairs(n, ..) => ("object", Need::Shared, 200_000 / n as u64, true),
            Self::AtOnce(n) => ("object", Need::Shared, 200_000 / n as u64, true),
            Self::Generations(n) => ("object", Need::Shared, 200_000 / n as u64, true),
            Self::Sharing(_) => ("object", Need::Shared, 1000, false),
            Self::Particles => ("frame", Need::Free, 400, true),
        };
        Facts { op, need, memory_units, holds_memory }
    }

    /// Objects that a fresh cell and `units` units make.
    pub(super) fn asked(&self, units: u64) -> Option<u64> {
        Some(match *self {
            Self::Pair(_) => units,
            Self::Batch(n, _) | Self::Handoff(n, ..) => n as u64 * units,
            Self::Slots => u64::from(slots::SLOTS) + units,
            Self::Straggler(one_in) => blocks::straggler::made_beforehand(one_in) + units,
            Self::AtOnce(n) | Self::Pairs(n, ..) => 2 * n as u64 * units,
            Self::Generations(n) => n as u64 * (units + 1),
            Self::Sharing(passive) => sharing::MADE * units + if passive { 2 } else { 0 },
            Self::Particles => u64::from(particles::ALIVE) + particles::BORN as u64 * units,
        })
    }

    /// The least a sample may have: several times what may be on its way, so that the channel is in its steady state.
    pub(super) fn least_units(&self) -> u64 {
        match *self {
            Self::Handoff(.., in_flight) | Self::Pairs(.., in_flight) => 4 * in_flight as u64,
            _ => 1,
        }
    }
}

/// The workloads over objects, in the order of the report.
pub(super) fn all() -> Vec<Spec> {
    let mut all = Vec::new();
    for words in pair::WORDS {
        let bytes = words * 8;
        let title = format!("make and drop one object of {bytes} bytes");
        let pair = spec(format!("S1-objects/pair/{bytes}"), title, ObjectWorkload::Pair(words));
        all.push(if matches!(words, 4 | 5) { pair } else { pair.full() });
    }
    for (n, words) in [(100, 5), (20_000, 4), (100_000, 5), (126_000, 1)] {
        let bytes = words * 8;
        let title = format!("{n} objects of {bytes} bytes alive, then all dropped, the oldest first");
        let batch = spec(format!("S2-objects/batch/{n}x{bytes}"), title, ObjectWorkload::Batch(n, words));
        all.push(if n == 100 { batch.full() } else { batch });
    }
    let title = format!("{} objects of 64 bytes alive, a random one replaced", slots::SLOTS);
    all.push(spec("S3-objects/slots".to_owned(), title, ObjectWorkload::Slots));
    for (name, one_in, share) in [("0", 0, "none"), ("1e-3", 1000, "1 in 1,000"), ("1e-2", 100, "1 in 100")] {
        let title = format!(
            "4,096 objects of 64 bytes alive, the oldest dropped first, {share} stays 100 times longer"
        );
        let straggler =
            spec(format!("S6-objects/straggler/{name}"), title, ObjectWorkload::Straggler(one_in));
        all.push(if one_in == 100 { straggler } else { straggler.full() });
    }
    for (n, words, in_flight) in [(64, 5, 100), (4096, 5, 4), (4096, 4, 4)] {
        let bytes = words * 8;
        let title = format!(
            "{bytes} bytes made here, dropped there, batches of {n}, at most {in_flight} on their way"
        );
        all.push(spec(
            format!("S8-objects/handoff/{n}x{bytes}"),
            title,
            ObjectWorkload::Handoff(n, words, in_flight),
        ));
    }
    let title = "32 bytes made by two threads, dropped by two others, each pair with batches of 4,096; more threads than processors";
    let pairs = ObjectWorkload::Pairs(4096, 4, 4);
    all.push(spec("S8-objects/pairs/4096x32".to_owned(), title.to_owned(), pairs).full());
    let title =
        "two threads at once, each with 10,000 objects of 40 bytes, then all dropped; ns of one thread";
    all.push(spec("S9-objects/at-once/10000".to_owned(), title.to_owned(), ObjectWorkload::AtOnce(10_000)));
    let title = "thread after thread replaces the 5,000 objects of 40 bytes that the one before made";
    let generations =
        spec("S9-objects/generations/5000".to_owned(), title.to_owned(), ObjectWorkload::Generations(5000));
    all.push(generations.full());
    for (name, passive, how) in
        [("active", false, "each makes its own"), ("passive", true, "one makes both threads' first")]
    {
        let title = format!("two threads replace an object of 8 bytes and count in it to 100; {how}");
        let sharing = spec(format!("S10-objects/sharing/{name}"), title, ObjectWorkload::Sharing(passive));
        all.push(if passive { sharing } else { sharing.full() });
    }
    let title = format!(
        "a frame: of {} objects of 64 bytes, {} die, as many are made, all are looked at",
        particles::ALIVE,
        particles::BORN
    );
    all.push(spec("S11-objects/particles".to_owned(), title, ObjectWorkload::Particles));
    all
}

fn spec(id: String, title: String, workload: ObjectWorkload) -> Spec {
    Spec::new(id, title, Kind::Objects(workload))
}
