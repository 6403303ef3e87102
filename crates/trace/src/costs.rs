//! What a call costs where the trace was not replayed: figures of the harness's recorded run, which is built in.
//!
//! They come from loops on another machine. That they hold for a trace is an assumption, and every report says so. Tables that are
//! marked untrusted count only where there is no other.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use serde::Deserialize;

/// The recorded run, as `cargo xtask readme` writes it.
const RECORDED: &str = include_str!("../../../docs/benchmarks/recorded.json");

/// Where a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostSource {
    /// A replay of this very trace.
    Replay,
    /// Calls that the recorder measured in the program.
    Sampled,
    /// The recorded run of the harness.
    Table,
    /// Nobody measured it: half of what the system's allocator takes.
    Assumed,
}

impl CostSource {
    /// How a report says it.
    #[must_use]
    pub fn said(self) -> &'static str {
        match self {
            Self::Replay => "the replay of this trace",
            Self::Sampled => "calls that were measured while the program ran",
            Self::Table => "an assumption: as in the loops of docs/benchmarks/results.md, on another machine",
            Self::Assumed => "an assumption (half), since no figure of such a program is at hand",
        }
    }

    /// Whether a replay of this trace measured it.
    #[must_use]
    pub fn is_measured(self) -> bool {
        self == Self::Replay
    }
}

/// What an allocator takes of the system's time, as ratios.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Blocks that go at once, as LIFO or as FIFO.
    pub ordered: f64,
    /// Blocks that go in no order.
    pub unordered: f64,
    /// Blocks that go on another thread.
    pub elsewhere: f64,
    /// Where the figures are from.
    pub source: CostSource,
}

/// All figures.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    /// Nanoseconds that the system's allocator takes for a block and its end: to 1 KiB, above, and where another thread ends it.
    pub(crate) system: [f64; 3],
    /// `OneRingAlloc`.
    pub(crate) ring: Cost,
    /// `PooledAllocator`.
    pub(crate) pool: Cost,
    /// `SharedArena`.
    pub(crate) arena: Cost,
    /// `RingAl`.
    pub(crate) buffers: Cost,
}

/// Workloads: for blocks that go in order, in none, and elsewhere.
type Loops = [&'static [&'static str]; 3];

const SYSTEM: Loops = [
    &["W/window/16x136", "W/window/1024x136"],
    &["S1/pair/3000", "S1/pair/8192"],
    &["S8/handoff/64", "S8/handoff/4096"],
];
const RING: Loops = [
    &[
        "S2/batch/100x16",
        "S2/batch/100x256",
        "S2/batch/1600x64",
        "W/window/16x136",
        "W/window/16x1032",
        "W/window/1024x136",
        "W/window/1024x1032",
    ],
    &["S3/slots/a", "S3/slots/b", "S3/slots/c"],
    &["S8/handoff/64", "S8/handoff/4096"],
];
const POOLS: Loops = [
    &["S1-objects/pair/32", "S1-objects/pair/40", "S6-objects/straggler/1e-2"],
    &["S3-objects/slots"],
    &["S8-objects/handoff/64x40", "S8-objects/handoff/4096x40", "S8-objects/handoff/4096x32"],
];
/// Buffers are offered for blocks in order alone.
const BUFFERS: Loops = [
    &["S1-buffers/fixed/64", "S1-buffers/fixed/4096", "S1-buffers/extend", "S7-buffers/packet/1024"],
    &["S7-buffers/packet/1024"],
    &["S8-buffers/handoff/4096x64", "S8-buffers/handoff/64x65536"],
];

#[derive(Deserialize)]
struct RecordedRun {
    workloads: Vec<RecordedWorkload>,
}

#[derive(Deserialize)]
struct RecordedWorkload {
    id: String,
    #[serde(default)]
    trusted: bool,
    rows: Vec<RecordedFigure>,
}

#[derive(Deserialize)]
struct RecordedFigure {
    key: String,
    ratio: Option<f64>,
    ns_per_op: Option<f64>,
}

impl RecordedRun {
    /// The geometric mean of a contender's figures in some workloads.
    fn mean(&self, loops: &[&str], key: &str, figure: fn(&RecordedFigure) -> Option<f64>) -> Option<f64> {
        let mean = |trusted: bool| {
            let wanted = |table: &&RecordedWorkload| table.trusted == trusted && loops.contains(&&*table.id);
            let rows = self.workloads.iter().filter(wanted).flat_map(|table| &table.rows);
            let values = rows.filter(|row| row.key == key).filter_map(figure).filter(|value| *value > 0.0);
            let logs: Vec<f64> = values.map(f64::ln).collect();
            (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
        };
        mean(true).or_else(|| mean(false))
    }

    fn cost(&self, loops: Loops, key: &str) -> Cost {
        match loops.map(|loops| self.mean(loops, key, |row| row.ratio)) {
            [Some(ordered), Some(unordered), Some(elsewhere)] => {
                Cost { ordered, unordered, elsewhere, source: CostSource::Table }
            }
            _ => Cost { ordered: 0.5, unordered: 0.5, elsewhere: 0.5, source: CostSource::Assumed },
        }
    }
}

impl Costs {
    /// Of the recorded run that is built in.
    pub(crate) fn recorded() -> &'static Self {
        static READ: OnceLock<Costs> = OnceLock::new();
        READ.get_or_init(|| Self::of(RECORDED))
    }

    /// Of a recorded run. What it lacks is assumed.
    fn of(recorded: &str) -> Self {
        let recording = serde_json::from_str(recorded).unwrap_or(RecordedRun { workloads: Vec::new() });
        let system = SYSTEM.map(|loops| recording.mean(loops, "glibc", |row| row.ns_per_op));
        Self {
            system: [0, 1, 2].map(|at| system[at].unwrap_or([10.0, 30.0, 100.0][at])),
            ring: recording.cost(RING, "one-ring"),
            pool: recording.cost(POOLS, "pooled-allocator"),
            arena: recording.cost(POOLS, "shared"),
            buffers: recording.cost(BUFFERS, "ringal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever renames a workload hears of it here, and not in an advice that is assumed in silence.
    #[test]
    fn the_recorded_run_has_every_figure() {
        let recording: RecordedRun = serde_json::from_str(RECORDED).expect("xtask wrote it");
        for loops in [SYSTEM, RING, POOLS, BUFFERS].into_iter().flatten().flatten() {
            assert!(
                recording.workloads.iter().any(|table| table.id == *loops),
                "no {loops} in recorded.json"
            );
        }
        for loops in SYSTEM {
            assert!(recording.mean(loops, "glibc", |row| row.ns_per_op).is_some(), "{loops:?}");
        }
        let costs = Costs::recorded();
        for cost in [costs.ring, costs.pool, costs.arena, costs.buffers] {
            assert_eq!(cost.source, CostSource::Table, "{cost:?}");
        }
    }

    #[test]
    fn figures_are_means_of_trusted_tables_first() {
        let table = |id: &str, trusted: bool, ratio: f64| {
            format!(
                r#"{{"id":"{id}","trusted":{trusted},"rows":[{{"key":"glibc","ratio":1.0,"ns_per_op":{}}},
                   {{"key":"one-ring","ratio":{ratio}}},{{"key":"ringal","state":"failed"}}]}}"#,
                100.0 * ratio
            )
        };
        let tables = [
            table("W/window/16x136", false, 0.5),
            table("S3/slots/a", false, 9.0),
            table("S3/slots/b", true, 0.6),
            table("S8/handoff/64", true, 0.1),
            table("S8/handoff/4096", true, 0.4),
        ];
        let costs = Costs::of(&format!(r#"{{"workloads":[{}]}}"#, tables.join(",")));
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(near(costs.ring.ordered, 0.5) && near(costs.ring.unordered, 0.6), "{costs:?}");
        assert!(near(costs.ring.elsewhere, 0.2) && costs.ring.source == CostSource::Table, "{costs:?}");
        assert!(near(costs.system[0], 50.0) && near(costs.system[2], 20.0), "{costs:?}");
        assert_eq!((costs.buffers.source, costs.buffers.ordered), (CostSource::Assumed, 0.5));
    }
}
