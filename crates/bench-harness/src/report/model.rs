//! The model of a report: its tables as data.

use super::bars::{Bar, judge};
use super::pairs::Rounds;
use crate::calibrate::Calibration;
use crate::contenders::{ALWAYS, Entry, REFERENCE, TWIN, VOID};
use crate::host::Host;
use crate::runner::{AloneRun, ContenderState, Latencies, PeakMemory, RefusalCount, WorkloadOutcome};
use crate::stats::{Estimate, Verdict, verdict};
use crate::workloads::{HeldAt, WorkloadSpec};

/// A row of a table: one contender's results. A figure is `None` if it was not measured, and the
/// ratios and costs are also `None` if the contender crashed or gave wrong results.
#[derive(Clone, Debug)]
pub struct ReportRow {
    /// The contender's key.
    pub key: &'static str,
    /// The contender's name.
    pub name: &'static str,
    /// The contender's version.
    pub version: String,
    /// The contender's state.
    pub state: ContenderState,
    /// The ratio of the contender's cost to the reference's.
    pub ratio: Option<Estimate>,
    /// The verdict on the ratio. `None` for the reference and for the allocator that does nothing.
    pub verdict: Option<Verdict>,
    /// The median cost of an operation, in nanoseconds.
    pub ns: Option<f64>,
    /// The cost in the fastest sample, in nanoseconds per operation.
    pub least_ns: Option<f64>,
    /// The median cost of an operation without that of the loop, in nanoseconds.
    pub net_ns: Option<f64>,
    /// The ratio of the contender's net cost to the reference's.
    pub net_ratio: Option<Estimate>,
    /// The contender's memory.
    pub memory: Option<PeakMemory>,
    /// The share of the requests that the contender refused and the heap served instead. `None` if
    /// there were no refusals.
    pub refused: Option<f64>,
    /// The latencies, if they were measured.
    pub latencies: Option<Latencies>,
    /// The runs of the contender's own processes in a workload without rounds. There are none if
    /// the contender did not run, or if the system does not report resident memory.
    pub runs: Vec<AloneRun>,
    /// A note for the reader.
    pub notes: &'static str,
}

/// The table of one workload.
#[derive(Clone, Debug)]
pub struct ReportTable {
    /// The workload.
    pub spec: WorkloadSpec,
    /// The number of operations in each sample.
    pub ops_per_sample: Option<u64>,
    /// The ratio of the reference to itself.
    pub aa: Option<Estimate>,
    /// Whether the reference came out equal to itself. This is the case if the 95 % interval of its
    /// ratio contains 1 and is not too wide, and the ratio is within a tenth of 1. False for a
    /// workload without rounds, which has no such ratio.
    pub trusted: bool,
    /// The share of contaminated rounds.
    pub contaminated: f64,
    /// The contenders in the order of the registry.
    pub rows: Vec<ReportRow>,
}

/// The largest deviation from 1 that the reference's ratio to itself may have in a trusted table.
const ASTRAY: f64 = 0.1;

/// The largest ratio of the ends of that ratio's 95 % interval in a trusted table.
const WIDTH: f64 = 2.0;

/// Returns whether a table with this ratio of the reference to itself is trusted.
fn is_trusted(aa: &Estimate) -> bool {
    !aa.excludes_one() && (aa.mid - 1.0).abs() <= ASTRAY && aa.high95 <= WIDTH * aa.low95
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct BenchReport {
    /// `quick` or `full`.
    pub mode: String,
    /// The seed of the workloads' tables and of the bootstrap.
    pub seed: u64,
    /// The facts about the host and the build.
    pub host: Host,
    /// The costs of the host and the harness.
    pub calibration: Calibration,
    /// The origin and the fingerprint of R1's text.
    pub document: String,
    /// The number of processes, and the planned number of rounds in each.
    pub trials: (u32, u32),
    /// The names of workloads that only a full run includes.
    pub left_to_full: Vec<String>,
    /// The tables of workloads with rounds.
    pub tables: Vec<ReportTable>,
    /// The tables of workloads that run each contender in its own process.
    pub alone: Vec<ReportTable>,
    /// The bars, evaluated for this run.
    pub bars: Vec<Bar>,
}

impl ReportTable {
    /// Creates the table of an outcome over the contenders of its class. The table of a workload
    /// without rounds has no row for the reference's second entry, because it does not compare
    /// contenders with the reference.
    pub fn new(outcome: &WorkloadOutcome, entries: &[Entry], host: &Host, seed: u64) -> Self {
        let rounds = Rounds::new(&outcome.measured.samples, ALWAYS[VOID], seed);
        let aa = rounds.ratio(ALWAYS[TWIN], ALWAYS[REFERENCE]);
        let floor = aa.map_or(0.0, |aa| (aa.mid - 1.0).abs());
        let rows = entries.iter().enumerate();
        let rows = rows.filter(|(index, _)| *index != TWIN || !outcome.spec.is_alone());
        Self {
            spec: outcome.spec.clone(),
            ops_per_sample: outcome.measured.size.map(|size| size.units * size.ops_per_unit),
            aa,
            trusted: aa.is_some_and(|aa| is_trusted(&aa)),
            contaminated: rounds.contaminated(),
            rows: rows.map(|(index, entry)| row(outcome, &rounds, host, (index, entry), floor)).collect(),
        }
    }

    /// Returns the row of the contender with this key, or `None` if the table has no such row.
    pub fn row(&self, key: &str) -> Option<&ReportRow> {
        self.rows.iter().find(|row| row.key == key)
    }
}

impl ReportRow {
    /// Returns whether the row is the reference's.
    pub(super) fn is_reference(&self) -> bool {
        self.key == ALWAYS[REFERENCE]
    }

    /// Returns memory over time, which is empty if it was not recorded.
    pub(super) fn over_time(&self) -> &[HeldAt] {
        self.memory.as_ref().map(|memory| memory.over_time.as_slice()).unwrap_or_default()
    }

    /// Returns the contender's name and, if it has one, its version. Leaves out the version of the
    /// reference's second entry.
    pub(super) fn named(&self) -> String {
        let twin = self.name.starts_with("A/A");
        let version = if self.version == "none" || twin { "" } else { &self.version };
        format!("{} {version}", self.name).trim().to_owned()
    }

    /// Returns the reason why the contender has no figures, or the note on its figures.
    pub(super) fn note(&self) -> String {
        match (&self.state, self.state.told(), self.refused) {
            (ContenderState::Missing(why), ..) => why.clone(),
            (_, (state, Some(why)), _) => format!("{state}: {why}"),
            (.., Some(share)) => format!("refused {:.2} %, heap instead; {}", share * 100.0, self.notes),
            (.., None) => self.notes.to_owned(),
        }
    }
}

fn row(
    outcome: &WorkloadOutcome,
    rounds: &Rounds<'_>,
    host: &Host,
    (index, entry): (usize, &Entry),
    floor: f64,
) -> ReportRow {
    let (key, measured) = (entry.key, &outcome.measured);
    let state = outcome.states.get(key).cloned().unwrap_or_default();
    let shown = state.ran();
    let version = host.contenders.iter().find(|(name, _)| name == entry.info.name);
    let ratio = rounds.ratio(key, ALWAYS[REFERENCE]).filter(|_| shown);
    let memory = measured.memory.iter().find(|memory| memory.contender == key).filter(|_| index != VOID);
    let alone = outcome.spec.is_alone();
    let latencies = measured.latencies.iter().find(|latencies| latencies.contender == key);
    let runs = measured.alone.iter().filter(|run| shown && run.contender == key);
    ReportRow {
        key,
        name: entry.info.name,
        version: version.map(|(_, version)| version.clone()).unwrap_or_default(),
        ratio,
        verdict: ratio
            .filter(|_| index > REFERENCE)
            .map(|ratio| verdict(&ratio, if index == TWIN { 0.0 } else { floor })),
        ns: rounds.cost(key).filter(|_| shown),
        least_ns: rounds.least(key).filter(|_| shown),
        net_ns: rounds.net_cost(key).filter(|_| shown && index != VOID),
        net_ratio: rounds.net_ratio(key, ALWAYS[REFERENCE]).filter(|_| shown && index != VOID),
        memory: memory.cloned(),
        refused: refused(&measured.refusals, key).filter(|_| shown),
        latencies: latencies.filter(|_| shown || !alone).cloned(),
        runs: runs.cloned().collect(),
        notes: entry.info.notes,
        state,
    }
}

/// Returns the share of a contender's requests that it refused, over all processes, or `None` if
/// there were no refusals.
fn refused(refusals: &[RefusalCount], key: &str) -> Option<f64> {
    let counts = refusals.iter().filter(|count| count.contender == key);
    let (refused, asked) =
        counts.fold((0, 0), |(refused, asked), count| (refused + count.refused, asked + count.asked));
    (refused > 0).then(|| refused as f64 / asked as f64)
}

impl BenchReport {
    /// Adds the table of a workload, and returns the table.
    pub fn add(&mut self, outcome: &WorkloadOutcome, entries: &[Entry]) -> &ReportTable {
        let class = outcome.spec.class;
        let entries: Vec<Entry> = entries.iter().filter(|entry| entry.class == class).copied().collect();
        let tables = if outcome.spec.is_alone() { &mut self.alone } else { &mut self.tables };
        let at = tables.len();
        tables.push(ReportTable::new(outcome, &entries, &self.host, self.seed));
        &tables[at]
    }

    /// Evaluates the bars on all outcomes.
    pub fn judge(&mut self, outcomes: &[WorkloadOutcome]) {
        self.bars = judge(outcomes, self.seed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_refusals_is_that_over_all_processes() {
        let count = |contender: &str, refused| {
            let contender = contender.to_owned();
            RefusalCount { contender, refused, asked: 100 }
        };
        let counts = [count("a", 30), count("b", 0), count("a", 0), count("b", 0), count("a", 0)];
        assert_eq!([refused(&counts, "a"), refused(&counts, "b")], [Some(0.1), None]);
    }

    #[test]
    fn a_table_whose_aa_ratio_is_wide_or_far_from_1_is_not_trusted() {
        let aa = |mid, low95, high95| Estimate { mid, low95, high95, low99: low95, high99: high95 };
        assert!(is_trusted(&aa(1.03, 0.98, 1.08)));
        assert!(!is_trusted(&aa(1.03, 1.01, 1.05)), "1 is outside");
        assert!(!is_trusted(&aa(1.3, 0.9, 1.9)), "1 is inside, and far");
        assert!(!is_trusted(&aa(0.8, 0.5, 1.2)), "below as well");
        assert!(!is_trusted(&aa(1.3, 0.95, 1.8)), "only the ratio is too far above 1");
        assert!(!is_trusted(&aa(0.8, 0.65, 1.2)), "only the ratio is too far below 1");
        assert!(!is_trusted(&aa(1.0, 0.6, 1.3)), "the ends are too far apart");
    }
}
