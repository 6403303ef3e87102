//! The workloads over byte buffers, with their parameters.

use super::{Facts, Kind, Need, Spec};
use crate::buffers::Source;
use crate::workloads::buffers::csv::Table;
use crate::workloads::buffers::{csv, handoff, http, packets, single, slots, straggler};
use crate::workloads::{Cell, Context};

/// A workload over buffers, and its parameters.
#[derive(Clone, Copy, Debug)]
pub enum BufferWorkload {
    /// S1: capacity.
    Fixed(usize),
    /// S1: sixteen writes into a buffer that grows.
    Extend,
    /// S1: frozen and cloned.
    Freeze,
    /// S3.
    Slots,
    /// S6: one buffer in so many stays.
    Straggler(usize),
    /// S7: buffers held and the longest.
    Packets(usize, usize),
    /// S7: the same, written in chunks.
    Chunked(usize, usize),
    /// S8: buffers in a batch, their size, and batches on their way.
    Handoff(usize, usize, usize),
    /// R2: whether the heap is littered.
    Csv(bool),
    /// R3: whether the heap is littered.
    Http(bool),
}

impl BufferWorkload {
    /// Builds the workload's cell over a contender.
    pub fn build<S: Source>(&self, context: &Context) -> Box<dyn Cell> {
        match *self {
            Self::Fixed(capacity) => single::fixed_cell::<S>(capacity, context),
            Self::Extend => single::extend_cell::<S>(context),
            Self::Freeze => single::freeze_cell::<S>(context),
            Self::Slots => slots::cell::<S>(context),
            Self::Straggler(one_in) => straggler::cell::<S>(one_in, context),
            Self::Packets(held, longest) => packets::cell::<S, false>(held, longest, context),
            Self::Chunked(held, longest) => packets::cell::<S, true>(held, longest, context),
            Self::Handoff(n, size, in_flight) => handoff::cell::<S>(n, size, in_flight, context),
            Self::Csv(littered) => csv::cell::<S>(littered, context),
            Self::Http(littered) => http::cell::<S>(littered, context),
        }
    }

    /// What a table needs to know about it.
    pub(super) fn facts(&self) -> Facts {
        let (op, need, memory_units, holds_memory) = match *self {
            Self::Fixed(_) | Self::Extend | Self::Freeze => ("buffer", Need::FreeLast, 20_000, false),
            Self::Packets(_, longest) | Self::Chunked(_, longest) => {
                ("buffer", Need::Free, if longest > 10_000 { 20_000 } else { 200_000 }, true)
            }
            Self::Slots => ("buffer", Need::Free, 200_000, true),
            Self::Straggler(_) => ("buffer", Need::Free, 500_000, true),
            Self::Handoff(n, size, _) => {
                ("buffer", Need::OtherThread, (200_000_000 / (n * size.max(512)) as u64).max(32), true)
            }
            // What lies about is no memory of the workload.
            Self::Csv(littered) => ("row", Need::Free, 8, !littered),
            Self::Http(_) => ("request", Need::Free, 1000, false),
        };
        Facts { op, need, memory_units, holds_memory }
    }

    /// Buffers that a fresh cell and `units` units take, where that is a matter of arithmetic.
    pub(super) fn asked(&self, units: u64) -> Option<u64> {
        Some(match *self {
            Self::Fixed(_) | Self::Extend | Self::Freeze => units,
            Self::Slots => u64::from(slots::SLOTS) + units,
            Self::Straggler(one_in) => straggler::made_beforehand(one_in) + units,
            Self::Packets(held, _) | Self::Chunked(held, _) => held as u64 + units,
            Self::Handoff(n, ..) => n as u64 * units,
            Self::Csv(_) => Table::shared().fields as u64 * units,
            // Each has an answer.
            Self::Http(_) => 2 * units,
        })
    }

    /// The least a sample may have: several times what may be on its way, so that the channel is in its steady state.
    pub(super) fn least_units(&self) -> u64 {
        match *self {
            Self::Handoff(.., in_flight) => 4 * in_flight as u64,
            // All pages, so that samples are alike.
            Self::Http(_) => http::PAGES as u64,
            _ => 1,
        }
    }
}

/// The workloads over buffers, in the order of the report.
pub(super) fn all() -> Vec<Spec> {
    let mut all = Vec::new();
    for capacity in single::SIZES {
        let title = format!("take a buffer of {capacity} bytes, write 16, drop it");
        let fixed = spec(format!("S1-buffers/fixed/{capacity}"), title, BufferWorkload::Fixed(capacity));
        all.push(if capacity == 256 { fixed.full() } else { fixed });
    }
    let title = "16 writes of 64 bytes into a buffer that grows from 64, finished and dropped";
    all.push(spec("S1-buffers/extend".to_owned(), title.to_owned(), BufferWorkload::Extend));
    let title = "take a buffer of 64 bytes, write 16, freeze it, clone it 4 times, drop all";
    all.push(spec("S1-buffers/freeze".to_owned(), title.to_owned(), BufferWorkload::Freeze));
    let title = format!(
        "{} buffers of 4 to 32,768 bytes held, small ones most often, a random one dropped for a new one, filled",
        slots::SLOTS
    );
    all.push(spec("S3-buffers/slots".to_owned(), title, BufferWorkload::Slots).full());
    for (name, one_in, share) in [("0", 0, "none"), ("1e-3", 1000, "1 in 1,000"), ("1e-2", 100, "1 in 100")] {
        let title = format!(
            "4,096 buffers of 64 to 1,024 bytes held, the oldest dropped first, {share} stays 100 times longer"
        );
        let straggler =
            spec(format!("S6-buffers/straggler/{name}"), title, BufferWorkload::Straggler(one_in));
        all.push(straggler.full());
    }
    for (held, longest) in [(64, 64), (64, 1024), (1024, 1024), (64, 65_536), (64, 131_072)] {
        let title =
            format!("{held} buffers of 1 to {longest} bytes held, the oldest dropped for a new one, filled");
        let name = if held == 64 { longest.to_string() } else { format!("{held}x{longest}") };
        let workload = BufferWorkload::Packets(held, longest);
        let packets = spec(format!("S7-buffers/packet/{name}"), title, workload);
        all.push(if (held, longest) == (64, 1024) { packets } else { packets.full() });
    }
    let title =
        "64 buffers of 1 to 1024 bytes held, the oldest dropped for a new one, which grows by writes of 64";
    let chunked = BufferWorkload::Chunked(64, 1024);
    all.push(spec("S7-buffers/chunked/1024".to_owned(), title.to_owned(), chunked).full());
    for (n, size) in [(4096, 64), (1024, 1024), (64, 65_536)] {
        let title = format!(
            "{size} bytes filled here, looked at and dropped there, batches of {n}, at most 4 on their way"
        );
        let workload = BufferWorkload::Handoff(n, size, 4);
        let handoff = spec(format!("S8-buffers/handoff/{n}x{size}"), title, workload);
        all.push(if size == 1024 { handoff.full() } else { handoff });
    }
    // Littered heaps come last, as for blocks.
    for littered in [false, true] {
        let (suffix, ground) = if littered { ("/littered", ", on a littered heap") } else { ("", "") };
        let title = format!(
            "CSV rows through a window of 1,000, a buffer for each field, counted by a key{ground}: {}",
            Table::origin()
        );
        let csv = spec(format!("R2/csv{suffix}"), title, BufferWorkload::Csv(littered));
        let title = format!(
            "HTTP/1.1 over loopback, two connections, a request on each at a time, pages of 64 KiB at most{ground}"
        );
        let http = spec(format!("R3/http{suffix}"), title, BufferWorkload::Http(littered));
        all.extend([csv, http].map(|real| if littered { real.full() } else { real }));
    }
    all
}

fn spec(id: String, title: String, workload: BufferWorkload) -> Spec {
    Spec::new(id, title, Kind::Buffers(workload))
}
