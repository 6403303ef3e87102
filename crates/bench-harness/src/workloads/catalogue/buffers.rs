//! The workloads over byte buffers.

use super::Workload::{Csv, Extend, Freeze, Handoff, Http, Packets, Pair, Slots, Straggler};
use super::{Need, SHARES, Workload, WorkloadSpec, ground, other_class};
use crate::buffers::Source;
use crate::card::ContenderClass;
use crate::workloads::buffers::csv::CsvTable;
use crate::workloads::buffers::{SLOTS, SPREAD, csv, handoff, http, packets, single, slots, stragglers};
use crate::workloads::stragglers::made_beforehand;
use crate::workloads::{Cell, Context};

/// Builds the workload's cell over a contender.
pub(crate) fn build<S: Source>(spec: &WorkloadSpec, context: &Context) -> Box<dyn Cell> {
    match spec.workload {
        Pair(capacity) => single::fixed_cell::<S>(capacity),
        Extend => single::extend_cell::<S>(),
        Freeze => single::freeze_cell::<S>(),
        Slots(..) => slots::<S>(context),
        Straggler(one_in) => stragglers::<S>(one_in, context),
        Packets(held, longest, false) => packets::cell::<S, false>(held, longest, context),
        Packets(held, longest, true) => packets::cell::<S, true>(held, longest, context),
        Handoff(n, size, in_flight) => handoff::cell::<S>(n, size, in_flight, context),
        Csv(littered) => csv::cell::<S>(littered, context),
        Http(littered) => http::cell::<S>(littered, context),
        _ => other_class(spec),
    }
}

/// Returns the rows in the order of the report.
pub(super) fn rows() -> Vec<WorkloadSpec> {
    let mut rows = Vec::new();
    let mut add = |spec: WorkloadSpec| rows.push(spec);
    let row = |id: String, title: String, workload: Workload, need, memory_units| {
        WorkloadSpec::new(ContenderClass::Buffers, (id, title), workload, "buffer", need, memory_units)
    };
    let single = |id: String, title: String, workload| {
        row(id, title, workload, Need::FreeLast, 20_000).holding(false).allocating(0, 1)
    };
    for capacity in single::SIZES {
        let title = format!("take a buffer of {capacity} bytes, write 16, drop it");
        let fixed = single(format!("S1-buffers/fixed/{capacity}"), title, Pair(capacity));
        add(fixed.quick_if(capacity != 256));
    }
    let title = "16 writes of 64 bytes into a buffer that grows from 64, finished and dropped";
    add(single("S1-buffers/extend".into(), title.into(), Extend));
    let title = "take a buffer of 64 bytes, write 16, freeze it, clone it 4 times, drop all";
    add(single("S1-buffers/freeze".into(), title.into(), Freeze));
    let title = format!(
        "{SLOTS} buffers of 4 to 32,768 bytes held, small ones most often, a random one dropped for a new one, filled"
    );
    let slots = row("S3-buffers/slots".into(), title, Slots(SLOTS, SPREAD), Need::Free, 200_000);
    add(slots.allocating(SLOTS.into(), 1).quick_if(false));
    for (name, one_in, share) in SHARES.into_iter().filter(|share| share.0 != "1e-4") {
        let title = format!(
            "4,096 buffers of 64 to 1,024 bytes held, the oldest dropped first, {share} stays 100 times longer"
        );
        let id = format!("S6-buffers/straggler/{name}");
        let straggler = row(id, title, Straggler(one_in), Need::Free, 500_000);
        add(straggler.allocating(made_beforehand(one_in), 1).quick_if(false));
    }
    for (held, longest) in [(64, 64), (64, 1024), (1024, 1024), (64, 65_536), (64, 131_072)] {
        let title =
            format!("{held} buffers of 1 to {longest} bytes held, the oldest dropped for a new one, filled");
        let name = if held == 64 { longest.to_string() } else { format!("{held}x{longest}") };
        let units = if longest > 10_000 { 20_000 } else { 200_000 };
        let packets = Packets(held, longest, false);
        let packets = row(format!("S7-buffers/packet/{name}"), title, packets, Need::Free, units);
        add(packets.allocating(held as u64, 1).quick_if((held, longest) == (64, 1024)));
    }
    let title =
        "64 buffers of 1 to 1024 bytes held, the oldest dropped for a new one, which grows by writes of 64";
    let chunked = Packets(64, 1024, true);
    let chunked = row("S7-buffers/chunked/1024".into(), title.into(), chunked, Need::Free, 200_000);
    add(chunked.allocating(64, 1).quick_if(false));
    for (n, size) in [(4096, 64), (1024, 1024), (64, 65_536)] {
        let title = format!(
            "{size} bytes filled here, looked at and dropped there, batches of {n}, at most 4 on their way"
        );
        let units = (200_000_000 / (n * size.max(512)) as u64).max(32);
        let id = format!("S8-buffers/handoff/{n}x{size}");
        let handoff = row(id, title, Handoff(n, size, 4), Need::OtherThread, units);
        add(handoff.allocating(0, n as u64).with_channel(4).quick_if(size != 1024));
    }
    // Littered heaps come last: later rows in the same process would run on litter too.
    for littered in [false, true] {
        let (suffix, ground) = ground(littered);
        let title = format!(
            "CSV rows through a window of 1,000, a buffer for each field, counted by a key{ground}: {}",
            CsvTable::origin()
        );
        let csv = row(format!("R2/csv{suffix}"), title, Csv(littered), Need::Free, 8);
        let csv = WorkloadSpec { op: "row", ..csv }.holding(!littered);
        let title = format!(
            "HTTP/1.1 over loopback, two connections, a request on each at a time, pages of 64 KiB at most{ground}"
        );
        let http = row(format!("R3/http{suffix}"), title, Http(littered), Need::Free, 1000);
        // Each request has an answer. A sample asks for all pages, so that samples are alike.
        let http = WorkloadSpec { op: "request", ..http }
            .holding(false)
            .allocating(0, 2)
            .at_least(http::PAGES as u64);
        [csv, http].into_iter().for_each(|real| add(real.quick_if(!littered)));
    }
    rows
}
