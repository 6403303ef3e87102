//! The bars on memory: limits on the resident bytes that this workspace's allocators keep after a
//! burst.

use super::bars::{BarRow, HeldBar, JUDGED_AT, rows};
use crate::runner::{AloneRun, WorkloadOutcome};

/// A memory limit, and the bytes measured against it.
#[derive(Clone, Debug)]
pub struct HeldJudged {
    /// The bar.
    pub bar: HeldBar,
    /// The measured bytes. `None` if the contender did not run.
    pub measured: Option<u64>,
}

impl HeldJudged {
    /// Returns whether the bytes are at most the limit, or `None` if the contender did not run.
    #[must_use]
    pub fn met(&self) -> Option<bool> {
        self.measured.map(|measured| measured <= self.bar.at_most_mib << 20)
    }

    /// Returns the cells of the bar's row in the table of bars. `name` is the contender's name.
    pub(super) fn cells(&self, name: String) -> Vec<String> {
        let HeldBar { workload, after, at_most_mib, .. } = &self.bar;
        let measured = self.measured.map(|bytes| format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64));
        vec![
            workload.clone(),
            name,
            "before the burst".to_owned(),
            format!("{}, {JUDGED_AT} s", after.word()),
            format!("{at_most_mib} MiB"),
            measured.unwrap_or_else(|| "–".to_owned()),
            match self.met() {
                Some(true) => "met",
                Some(false) => "missed",
                None => "not run",
            }
            .to_owned(),
        ]
    }
}

/// Returns all bars on memory.
#[must_use]
pub fn held_bars() -> Vec<HeldBar> {
    let held = |row| match row {
        BarRow::Held(bar) => Some(bar),
        BarRow::Ratio(_) => None,
    };
    rows().into_iter().filter_map(held).collect()
}

/// Evaluates every bar on memory whose workload was run.
#[must_use]
pub fn judge_held(bars: &[HeldBar], outcomes: &[WorkloadOutcome]) -> Vec<HeldJudged> {
    let mut judged = Vec::new();
    for outcome in outcomes {
        for bar in bars.iter().filter(|bar| bar.workload == outcome.spec.id) {
            let ran = outcome.states.get(bar.of).is_some_and(|state| state.ran());
            let wanted = |run: &&AloneRun| ran && run.contender == bar.of && run.after == Some(bar.after);
            let measured = outcome.alone.iter().find(wanted).and_then(|run| run.taken_at(JUDGED_AT));
            judged.push(HeldJudged { bar: bar.clone(), measured });
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders;
    use crate::workloads::catalogue;

    #[test]
    fn every_bar_of_memory_names_a_burst_and_a_contender_that_can_run_it() {
        let known = catalogue();
        let bars = held_bars();
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
    fn a_bar_of_memory_is_met_at_its_limit_and_missed_above() {
        let judged = |measured| HeldJudged { bar: held_bars()[0].clone(), measured };
        let limit = 8 << 20;
        assert_eq!(
            [Some(limit), Some(limit + 1), None].map(|measured| judged(measured).met()),
            [Some(true), Some(false), None]
        );
        assert!(judged(Some(limit)).cells(String::new()).contains(&"8.0 MiB".to_owned()));
    }
}
