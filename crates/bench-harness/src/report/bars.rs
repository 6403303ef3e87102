//! The bars: limits for this workspace's allocators on the ratio to another contender in the same
//! run, and on the memory that stays after a burst.

use ephemera_measure::grid::mib;

use super::cells::dash;
use super::pairs::Rounds;
use crate::contenders::{ALWAYS, VOID};
use crate::runner::{AloneRun, WorkloadOutcome};
use crate::stats::Estimate;
use crate::workloads::AfterBurst;

/// The moment after a burst at which the bars of memory are evaluated, in seconds.
pub const JUDGED_AT: f64 = 1.0;

/// A limit for one contender in one workload.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Bar {
    /// The workload.
    pub workload: String,
    /// The contender's key.
    pub of: &'static str,
    /// The limit and the measured value.
    #[serde(flatten)]
    pub limit: BarLimit,
}

/// A limit and the measured value. [`judge`] sets the value. It stays `None` if a contender did not
/// run or was not measured.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(untagged)]
pub enum BarLimit {
    /// A limit on the ratio to another contender.
    Ratio {
        /// The key of the other contender.
        to: &'static str,
        /// Whether the bar is on the net ratio, which leaves out the time of the loop.
        net: bool,
        /// The largest ratio that meets the bar.
        at_most: f64,
        /// The measured ratio.
        #[serde(skip)]
        measured: Option<Estimate>,
    },
    /// A limit on the resident memory that stays after a burst.
    Held {
        /// The activity after the burst.
        after: AfterBurst,
        /// The limit in MiB, [`JUDGED_AT`] seconds after the burst.
        at_most_mib: u64,
        /// The measured bytes.
        #[serde(skip)]
        measured: Option<u64>,
    },
}

impl Bar {
    /// Returns whether the measured value is at most the limit, or `None` if there is no measured
    /// value.
    pub fn met(&self) -> Option<bool> {
        match &self.limit {
            BarLimit::Ratio { at_most, measured, .. } => measured.map(|measured| measured.mid <= *at_most),
            BarLimit::Held { at_most_mib, measured, .. } => {
                measured.map(|measured| measured <= at_most_mib << 20)
            }
        }
    }

    /// Returns the cells of the bar's row in the table of bars. `name` returns the name for a
    /// contender's key.
    pub(super) fn cells(&self, name: impl Fn(&str) -> String) -> Vec<String> {
        let [against, costs, at_most, measured] = match &self.limit {
            BarLimit::Ratio { to, net, at_most, measured } => [
                name(to),
                if *net { "net" } else { "whole" }.to_owned(),
                at_most.to_string(),
                dash(*measured, |measured| measured.to_string()),
            ],
            BarLimit::Held { after, at_most_mib, measured } => [
                "before the burst".to_owned(),
                format!("{}, {JUDGED_AT} s", after.word()),
                format!("{at_most_mib} MiB"),
                dash(*measured, |bytes| mib(bytes) + " MiB"),
            ],
        };
        let met = match self.met() {
            Some(true) => "met",
            Some(false) => "missed",
            None => "not run",
        };
        vec![self.workload.clone(), name(self.of), against, costs, at_most, measured, met.to_owned()]
    }
}

/// Returns all bars of `bars.json`. The compiler includes the file in the program, and tests parse
/// it. The bars of the pools include the time of the loop, because users pay for it too.
pub fn bars() -> Vec<Bar> {
    serde_json::from_str(include_str!("bars.json")).expect("rows of bars")
}

/// Returns each bar of [`bars`] whose workload was run, with its measured value. The bars on ratios
/// precede the bars on memory.
pub fn judge(outcomes: &[WorkloadOutcome], seed: u64) -> Vec<Bar> {
    let mut judged = Vec::new();
    for outcome in outcomes {
        let rounds = Rounds::new(&outcome.measured.samples, ALWAYS[VOID], seed);
        let ran = |key: &str| outcome.states.get(key).is_some_and(|state| state.ran());
        for mut bar in bars().into_iter().filter(|bar| bar.workload == outcome.spec.id) {
            let of = bar.of;
            match &mut bar.limit {
                BarLimit::Ratio { to, net, measured, .. } => {
                    let ratio = if *net { rounds.net_ratio(of, to) } else { rounds.ratio(of, to) };
                    *measured = ratio.filter(|_| ran(of) && ran(to));
                }
                BarLimit::Held { after, measured, .. } => {
                    let wanted =
                        |run: &&AloneRun| ran(of) && run.contender == of && run.after == Some(*after);
                    let run = outcome.measured.alone.iter().find(wanted);
                    *measured = run.and_then(|run| run.taken_at(JUDGED_AT));
                }
            }
            judged.push(bar);
        }
    }
    judged.sort_by_key(|bar| matches!(bar.limit, BarLimit::Held { .. }));
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders;
    use crate::workloads::catalogue;

    #[test]
    fn every_bar_names_a_workload_of_the_catalogue() {
        let known = catalogue();
        for bar in bars() {
            assert!(known.iter().any(|spec| spec.id == bar.workload), "{}", bar.workload);
            assert!(!matches!(bar.limit, BarLimit::Ratio { at_most, .. } if at_most <= 0.0));
        }
    }

    #[test]
    #[cfg(feature = "c-peers")]
    fn every_bar_names_contenders_of_the_registry() {
        let known = contenders::all();
        for bar in bars() {
            let BarLimit::Ratio { to, .. } = bar.limit else { continue };
            let spec = catalogue().into_iter().find(|spec| spec.id == bar.workload).expect("tested above");
            for key in [bar.of, to] {
                let matches = |entry: &contenders::Entry| entry.key == key && entry.class == spec.class;
                assert!(known.iter().any(matches), "{key} in {}", spec.id);
            }
        }
    }

    #[test]
    fn every_bar_of_memory_names_a_burst_and_a_contender_that_can_run_it() {
        let known = catalogue();
        let held = |bar: &Bar| matches!(bar.limit, BarLimit::Held { .. });
        let bars: Vec<Bar> = bars().into_iter().filter(held).collect();
        assert!(bars.len() >= 10, "{}", bars.len());
        for bar in bars {
            let spec = known.iter().find(|spec| spec.id == bar.workload && spec.is_burst());
            let spec = spec.unwrap_or_else(|| panic!("{}", bar.workload));
            let able = contenders::of(spec.class)
                .iter()
                .any(|entry| entry.key == bar.of && spec.need.missing(&entry.info.caps).is_none());
            assert!(able, "{} in {}", bar.of, bar.workload);
        }
    }

    #[test]
    fn a_bar_is_met_at_its_limit_and_missed_above() {
        let judged = |mid: f64| {
            let measured = Some(Estimate { mid, low95: mid, high95: mid, low99: mid, high99: mid });
            let limit = BarLimit::Ratio { to: "bumpalo", net: false, at_most: 1.4, measured };
            Bar { limit, ..bars()[0].clone() }.met()
        };
        assert_eq!((judged(1.4), judged(1.41)), (Some(true), Some(false)));
        assert_eq!(judge(&[], 1).len(), 0);
    }

    #[test]
    fn a_bar_of_memory_is_met_at_its_limit_and_missed_above() {
        let judged = |measured| {
            let limit = BarLimit::Held { after: AfterBurst::Asleep, at_most_mib: 8, measured };
            Bar { limit, ..bars()[0].clone() }
        };
        let limit = 8 << 20;
        assert_eq!(
            [Some(limit), Some(limit + 1), None].map(|measured| judged(measured).met()),
            [Some(true), Some(false), None]
        );
        assert!(judged(Some(limit)).cells(str::to_owned).contains(&"8.0 MiB".to_owned()));
    }
}
