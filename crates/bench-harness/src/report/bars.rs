//! The bars: limits for this workspace's allocators on the ratio to another contender in the same
//! run, and on the memory that stays after a burst.

use super::pairs::{Pairs, Rounds};
use crate::contenders::{ALWAYS, VOID};
use crate::runner::WorkloadOutcome;
use crate::stats::Estimate;
use crate::workloads::AfterBurst;

/// The moment after a burst at which the bars of memory are evaluated, in seconds.
pub const JUDGED_AT: f64 = 1.0;

/// A row of `bars.json`.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(untagged, bound(deserialize = "'de: 'static"))]
pub(super) enum BarRow {
    /// A limit on a ratio.
    Ratio(Bar),
    /// A limit on resident memory.
    Held(HeldBar),
}

/// A limit on a contender's ratio.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Bar {
    /// The workload.
    pub workload: String,
    /// The contender's key.
    pub of: &'static str,
    /// The key of the contender that `of` is compared with.
    pub to: &'static str,
    /// Whether the compared times include the time of the loop.
    pub pairs: Pairs,
    /// The largest ratio that meets the bar.
    pub at_most: f64,
}

/// A limit on the bytes that a contender keeps.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct HeldBar {
    /// The workload.
    pub workload: String,
    /// The contender's key.
    pub of: &'static str,
    /// The activity after the burst.
    pub after: AfterBurst,
    /// The limit in MiB, one second after the burst.
    pub at_most_mib: u64,
}

/// A bar and the measured ratio.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The bar.
    pub bar: Bar,
    /// The measured ratio. `None` if one of the two contenders did not run.
    pub measured: Option<Estimate>,
}

impl Judged {
    /// Returns whether the measured ratio is at most the limit, or `None` if one of the two
    /// contenders did not run.
    #[must_use]
    pub fn met(&self) -> Option<bool> {
        self.measured.map(|measured| measured.mid <= self.bar.at_most)
    }
}

/// Returns all rows of `bars.json`. The file is compiled in, and tests parse it.
pub(super) fn rows() -> Vec<BarRow> {
    serde_json::from_str(include_str!("bars.json")).expect("rows of bars")
}

/// Returns all bars on ratios. The bars of the pools include the time of the loop, because users
/// pay for it too.
#[must_use]
pub fn bars() -> Vec<Bar> {
    let ratio = |row| match row {
        BarRow::Ratio(bar) => Some(bar),
        BarRow::Held(_) => None,
    };
    rows().into_iter().filter_map(ratio).collect()
}

/// Evaluates every bar whose workload was run.
#[must_use]
pub fn judge(bars: &[Bar], outcomes: &[WorkloadOutcome], seed: u64) -> Vec<Judged> {
    let mut judged = Vec::new();
    for outcome in outcomes {
        let rounds = Rounds::new(&outcome.samples, ALWAYS[VOID], seed);
        let ran = |key: &str| outcome.states.get(key).is_some_and(|state| state.ran());
        for bar in bars.iter().filter(|bar| bar.workload == outcome.spec.id) {
            let measured = rounds.ratio(bar.of, bar.to, bar.pairs).filter(|_| ran(bar.of) && ran(bar.to));
            judged.push(Judged { bar: bar.clone(), measured });
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::catalogue;

    #[test]
    fn every_bar_names_a_workload_of_the_catalogue() {
        let known = catalogue();
        for bar in bars() {
            assert!(known.iter().any(|spec| spec.id == bar.workload), "{}", bar.workload);
            assert!(bar.at_most > 0.0);
        }
    }

    #[test]
    #[cfg(feature = "c-peers")]
    fn every_bar_names_contenders_of_the_registry() {
        use crate::contenders;

        let known = contenders::all();
        for bar in bars() {
            let spec = catalogue().into_iter().find(|spec| spec.id == bar.workload).expect("tested above");
            for key in [bar.of, bar.to] {
                let matches = |entry: &contenders::Entry| entry.key == key && entry.class == spec.class;
                assert!(known.iter().any(matches), "{key} in {}", spec.id);
            }
        }
    }

    #[test]
    fn a_bar_is_met_at_its_limit_and_missed_above() {
        let judged = |mid: f64| {
            let measured = Some(Estimate { mid, low95: mid, high95: mid, low99: mid, high99: mid });
            Judged { bar: bars()[0].clone(), measured }.met()
        };
        assert_eq!((judged(1.4), judged(1.41)), (Some(true), Some(false)));
        assert_eq!(judge(&bars(), &[], 1).len(), 0);
    }
}
