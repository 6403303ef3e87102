//! Defines the assumed cost of a call in a trace that was not replayed. The figures come from the
//! harness's recorded run, which is compiled in.
//!
//! The harness measured these figures in loops on another machine. Every report says that they are
//! an assumption for the trace. A table that is marked untrusted is used only if no trusted table
//! has the figure.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use ephemera_measure::summary::{SummaryRow, SummaryTable};
use serde::{Deserialize, Serialize};

/// The recorded run, as `cargo xtask readme` writes it.
const RECORDED: &str = include_str!("../../../docs/benchmarks/recorded.json");

/// The origin of a figure. Templates print its serialised words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum CostSource {
    /// A replay of this trace.
    #[serde(rename = "the replay of this trace")]
    Replay,
    /// Calls that the recorder measured in the program.
    #[serde(rename = "calls that were measured while the program ran")]
    Sampled,
    /// The recorded run of the harness.
    #[serde(rename = "an assumption: as in the loops of docs/benchmarks/results.md, on another machine")]
    Table,
    /// An assumption: half of the time of the system's allocator.
    #[serde(rename = "an assumption (half), because there is no figure for such a program")]
    Assumed,
}

impl CostSource {
    /// Returns whether a replay of this trace measured the figure.
    pub fn is_measured(self) -> bool {
        self == Self::Replay
    }
}

/// The time of an allocator divided by the time of the system's allocator.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The quotient for blocks that are freed at once, LIFO or FIFO.
    pub ordered: f64,
    /// The quotient for blocks that are freed in no order.
    pub unordered: f64,
    /// The quotient for blocks with a remote free.
    pub elsewhere: f64,
    /// The origin of the figures.
    pub source: CostSource,
}

/// The costs of the system's allocator and of our crates.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    /// Nanoseconds of an allocation and its free in the system's allocator: for blocks up to 1 KiB,
    /// for larger blocks, and with a remote free.
    pub(crate) system: [f64; 3],
    /// The cost of `OneRingAlloc`.
    pub(crate) ring: Cost,
    /// The cost of `PooledAllocator`.
    pub(crate) pool: Cost,
    /// The cost of `SharedArena`.
    pub(crate) arena: Cost,
    /// The cost of `RingAl`.
    pub(crate) buffers: Cost,
}

/// The names of the workloads for blocks that are freed in order, in no order, and remotely. In
/// `system`, the first two are for blocks up to 1 KiB and for larger blocks instead.
type Loops = [Vec<String>; 3];

/// The workloads from whose figures the costs are computed, as listed in `loops.json`. The second
/// list of `buffers` has little effect, because the advice offers `buffers` only for size classes
/// in which nearly all blocks are freed in order.
#[derive(Deserialize)]
struct CostLoops {
    system: Loops,
    ring: Loops,
    pools: Loops,
    buffers: Loops,
}

impl CostLoops {
    fn new() -> Self {
        serde_json::from_str(include_str!("loops.json")).expect("names of workloads")
    }
}

#[derive(Deserialize)]
struct RecordedRun {
    workloads: Vec<SummaryTable>,
}

impl RecordedRun {
    /// Returns the geometric mean of a contender's figures in the workloads `loops`, or `None` if
    /// there are no figures.
    fn mean(&self, loops: &[String], key: &str, figure: fn(&SummaryRow) -> Option<f64>) -> Option<f64> {
        let mean = |trusted: bool| {
            let wanted = |table: &&SummaryTable| table.trusted == trusted && loops.contains(&table.id);
            let rows = self.workloads.iter().filter(wanted).flat_map(|table| &table.rows);
            let values = rows.filter(|row| row.key == key).filter_map(figure).filter(|value| *value > 0.0);
            let logs: Vec<f64> = values.map(f64::ln).collect();
            (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
        };
        mean(true).or_else(|| mean(false))
    }

    fn cost(&self, loops: &Loops, key: &str) -> Cost {
        match loops.each_ref().map(|loops| self.mean(loops, key, |row| row.ratio)) {
            [Some(ordered), Some(unordered), Some(elsewhere)] => {
                Cost { ordered, unordered, elsewhere, source: CostSource::Table }
            }
            _ => Cost { ordered: 0.5, unordered: 0.5, elsewhere: 0.5, source: CostSource::Assumed },
        }
    }
}

impl Costs {
    /// Returns the costs of the recorded run that is compiled in.
    pub(crate) fn recorded() -> &'static Self {
        static READ: OnceLock<Costs> = OnceLock::new();
        READ.get_or_init(|| Self::of(RECORDED))
    }

    /// Returns the costs of a recorded run. Each missing figure of the system's allocator is
    /// replaced by an assumption. If a figure of a crate is missing, all three figures of the crate
    /// are assumptions.
    fn of(recorded: &str) -> Self {
        let recording = serde_json::from_str(recorded).unwrap_or(RecordedRun { workloads: Vec::new() });
        let loops = CostLoops::new();
        let system = loops.system.each_ref().map(|loops| recording.mean(loops, "glibc", |row| row.ns_per_op));
        Self {
            system: [0, 1, 2].map(|at| system[at].unwrap_or([10.0, 30.0, 100.0][at])),
            ring: recording.cost(&loops.ring, "one-ring"),
            pool: recording.cost(&loops.pools, "pooled-allocator"),
            arena: recording.cost(&loops.pools, "shared"),
            buffers: recording.cost(&loops.buffers, "ringal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a workload is renamed, because the advice would then silently use assumptions.
    #[test]
    fn the_recorded_run_has_every_figure() {
        let recording: RecordedRun = serde_json::from_str(RECORDED).expect("xtask wrote it");
        let CostLoops { system, ring, pools, buffers } = CostLoops::new();
        for loops in [&system, &ring, &pools, &buffers].into_iter().flatten().flatten() {
            assert!(
                recording.workloads.iter().any(|table| table.id == *loops),
                "no {loops} in recorded.json"
            );
        }
        for loops in &system {
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
                r#"{{"id":"{id}","class":"c","title":"t","op":"o","trusted":{trusted},"rows":[
                   {{"key":"glibc","allocator":"g","state":"ran","ratio":1.0,"ns_per_op":{}}},
                   {{"key":"one-ring","allocator":"o","state":"ran","ratio":{ratio}}},
                   {{"key":"ringal","allocator":"r","state":"crashed"}}]}}"#,
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
