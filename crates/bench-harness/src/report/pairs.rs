//! Samples by process and round, and the pairs that ratios are made of.

use std::collections::{BTreeMap, HashMap};

use crate::runner::TimedSample;
use crate::stats::{self, DRAWS, Estimate, estimate};

/// Clean rounds below which a process's contaminated ones are used as well.
const FEW: usize = 5;

/// Samples of one round, by contender.
#[derive(Debug, Default)]
struct Round<'a>(HashMap<&'a str, &'a TimedSample>);

/// What a pair is compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// The times as they are.
    Whole,
    /// The times less the loop's own.
    Net,
}

/// All rounds of one workload, warm-up left out.
#[derive(Debug)]
pub struct Rounds<'a> {
    processes: Vec<Vec<Round<'a>>>,
    /// Key of the allocator that does nothing.
    void: &'a str,
    seed: u64,
}

impl<'a> Rounds<'a> {
    /// Sorts samples into rounds.
    #[must_use]
    pub fn new(samples: &'a [TimedSample], void: &'a str, seed: u64) -> Self {
        let mut sorted: BTreeMap<u32, BTreeMap<i32, Round<'a>>> = BTreeMap::new();
        for sample in samples.iter().filter(|sample| sample.round >= 0) {
            let round = sorted.entry(sample.process).or_default().entry(sample.round).or_default();
            round.0.insert(&sample.contender, sample);
        }
        let processes = sorted.into_values().map(|rounds| rounds.into_values().collect()).collect();
        Self { processes, void, seed }
    }

    /// Share of rounds in which something else ran.
    #[must_use]
    pub fn contaminated(&self) -> f64 {
        let all = || self.processes.iter().flatten();
        let dirty = all().filter(|round| round.0.values().any(|sample| sample.contaminated())).count();
        dirty as f64 / all().count().max(1) as f64
    }

    /// A number per round from the samples of `keys`, by process: of clean rounds where there are enough.
    fn values(&self, keys: &[&str], f: impl Fn(&[f64]) -> Option<f64>) -> Vec<Vec<f64>> {
        let of = |round: &Round<'_>| {
            let samples =
                keys.iter().map(|&key| round.0.get(key).copied()).collect::<Option<Vec<&TimedSample>>>()?;
            let costs: Vec<f64> = samples.iter().map(|sample| sample.ns / sample.ops.max(1) as f64).collect();
            Some((f(&costs)?, samples.iter().any(|sample| sample.contaminated())))
        };
        let process = |rounds: &Vec<Round<'_>>| {
            let all: Vec<(f64, bool)> = rounds.iter().filter_map(of).collect();
            let clean = all.iter().filter(|(_, dirty)| !dirty).count();
            let enough = clean >= FEW.max(all.len() / 3);
            all.into_iter().filter(|(_, dirty)| !enough || !dirty).map(|(value, _)| value).collect()
        };
        self.processes.iter().map(process).collect()
    }

    /// The ratio of two contenders' costs.
    #[must_use]
    pub fn ratio(&self, of: &str, to: &str, pairs: Pairs) -> Option<Estimate> {
        match pairs {
            Pairs::Whole => {
                let values = self.values(&[of, to], |costs| Some((costs[0] / costs[1]).ln()));
                estimate(&values, DRAWS, self.seed).map(|estimate| estimate.map(f64::exp))
            }
            Pairs::Net => {
                // Medians first, then the quotient: what is left of two noisy costs may be nothing or less in a round, and to drop such
                // rounds would be to choose among them.
                let keys = [of, to, self.void];
                let own = self.values(&keys, |costs| Some(costs[0] - costs[2]));
                let base = self.values(&keys, |costs| Some(costs[1] - costs[2]));
                let median = |rounds: &Vec<f64>| stats::median(&mut rounds.clone());
                let mut quotients = Vec::new();
                for (own, base) in own.iter().zip(&base) {
                    let (Some(own), Some(base)) = (median(own), median(base)) else { continue };
                    // Not dearer than the loop: nothing is left to compare with.
                    if base <= 0.0 {
                        return None;
                    }
                    quotients.push(vec![own / base]);
                }
                estimate(&quotients, DRAWS, self.seed)
            }
        }
    }

    /// Nanoseconds an operation: the median.
    #[must_use]
    pub fn cost(&self, of: &str) -> Option<f64> {
        estimate(&self.values(&[of], |costs| Some(costs[0])), 0, self.seed).map(|estimate| estimate.mid)
    }

    /// Nanoseconds an operation less the loop's own, paired by rounds: the median.
    #[must_use]
    pub fn net_cost(&self, of: &str) -> Option<f64> {
        let values = self.values(&[of, self.void], |costs| Some(costs[0] - costs[1]));
        estimate(&values, 0, self.seed).map(|estimate| estimate.mid)
    }

    /// The least of all samples, in nanoseconds an operation: for information, it is the noisier figure.
    #[must_use]
    pub fn least(&self, of: &str) -> Option<f64> {
        let all = self.values(&[of], |costs| Some(costs[0]));
        all.into_iter().flatten().min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(contender: &str, process: u32, round: i32, ns: f64, switches: u64) -> TimedSample {
        TimedSample {
            workload: "w".to_owned(),
            contender: contender.to_owned(),
            process,
            round,
            ns,
            ops: 10,
            involuntary_switches: Some(switches),
            minor_faults: None,
            steal: None,
        }
    }

    /// Three processes of twelve rounds that drift: the second half is twice as slow for everybody.
    fn drifting() -> Vec<TimedSample> {
        let mut samples = Vec::new();
        for process in 0..3 {
            for round in -3..12 {
                let pace = if round < 6 { 1.0 } else { 2.0 };
                samples.push(sample("base", process, round, 100.0 * pace, 0));
                samples.push(sample("half", process, round, 50.0 * pace, 0));
                samples.push(sample("void", process, round, 20.0 * pace, 0));
            }
        }
        samples
    }

    #[test]
    fn a_drift_does_not_touch_a_ratio() {
        let samples = drifting();
        let rounds = Rounds::new(&samples, "void", 1);
        let ratio = rounds.ratio("half", "base", Pairs::Whole).expect("both ran");
        assert!((ratio.low99 - 0.5).abs() < 1e-9 && (ratio.high99 - 0.5).abs() < 1e-9, "{ratio:?}");
        let net = rounds.ratio("half", "base", Pairs::Net).expect("all three ran");
        assert!((net.mid - 30.0 / 80.0).abs() < 1e-9, "{net:?}");
        assert_eq!(rounds.ratio("base", "void", Pairs::Net), None, "the loop costs nothing above itself");
        assert!((rounds.net_cost("half").expect("it ran") - 4.5).abs() < 1e-9);
        assert_eq!(rounds.ratio("nobody", "base", Pairs::Whole), None);
    }

    #[test]
    fn contaminated_rounds_are_left_out_while_enough_clean_ones_are_left() {
        let mut samples = drifting();
        for process in 0..3 {
            for round in 12..16 {
                samples.push(sample("base", process, round, 100.0, 0));
                samples.push(sample("half", process, round, 9_000.0, 3));
            }
        }
        let rounds = Rounds::new(&samples, "void", 1);
        assert!((rounds.contaminated() - 0.25).abs() < 1e-9);
        let ratio = rounds.ratio("half", "base", Pairs::Whole).expect("both ran");
        assert!((ratio.high99 - 0.5).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn where_all_is_contaminated_all_is_used() {
        let samples: Vec<TimedSample> =
            (0..9).flat_map(|r| [sample("a", 0, r, 30.0, 1), sample("b", 0, r, 10.0, 0)]).collect();
        let rounds = Rounds::new(&samples, "void", 1);
        assert!((rounds.ratio("a", "b", Pairs::Whole).expect("both ran").mid - 3.0).abs() < 1e-9);
    }
}
