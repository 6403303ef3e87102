//! Groups samples by process and round, and computes ratios from the pairs of each round.

use std::collections::{BTreeMap, HashMap};

use crate::runner::TimedSample;
use crate::stats::{self, DRAWS, Estimate, estimate};

/// A process with at least this number of clean rounds contributes only its clean rounds, provided
/// that they are at least a third of its rounds. Any other process also contributes its
/// contaminated rounds.
const FEW: usize = 5;

/// The samples of a round, by contender.
#[derive(Debug, Default)]
struct Round<'a>(HashMap<&'a str, &'a TimedSample>);

/// All rounds of a workload except the warm-up, by process.
#[derive(Debug)]
pub struct Rounds<'a> {
    processes: Vec<Vec<Round<'a>>>,
    /// The key of the allocator that does nothing.
    void: &'a str,
    seed: u64,
}

impl<'a> Rounds<'a> {
    /// Groups samples by round, without the samples of the warm-up. `void` is the key of the
    /// allocator that does nothing, and `seed` is the seed of the bootstrap.
    pub fn new(samples: &'a [TimedSample], void: &'a str, seed: u64) -> Self {
        let mut sorted: BTreeMap<u32, BTreeMap<i32, Round<'a>>> = BTreeMap::new();
        for sample in samples.iter().filter(|sample| sample.round >= 0) {
            let round = sorted.entry(sample.process).or_default().entry(sample.round).or_default();
            round.0.insert(&sample.contender, sample);
        }
        let processes = sorted.into_values().map(|rounds| rounds.into_values().collect()).collect();
        Self { processes, void, seed }
    }

    /// Returns the share of contaminated rounds.
    pub fn contaminated(&self) -> f64 {
        let all = || self.processes.iter().flatten();
        let dirty = all().filter(|round| round.0.values().any(|sample| sample.contaminated())).count();
        dirty as f64 / all().count().max(1) as f64
    }

    /// Returns the numbers of each process, one for each round in which all of `keys` have a
    /// sample. `f` computes the number from their costs. Leaves out rounds in which one of these
    /// samples is contaminated, if the process has enough other rounds.
    fn values(&self, keys: &[&str], f: impl Fn(&[f64]) -> f64) -> Vec<Vec<f64>> {
        let of = |round: &Round<'_>| {
            let samples =
                keys.iter().map(|&key| round.0.get(key).copied()).collect::<Option<Vec<&TimedSample>>>()?;
            let costs: Vec<f64> = samples.iter().map(|sample| sample.ns / sample.ops.max(1) as f64).collect();
            Some((f(&costs), samples.iter().any(|sample| sample.contaminated())))
        };
        let process = |rounds: &Vec<Round<'_>>| {
            let all: Vec<(f64, bool)> = rounds.iter().filter_map(of).collect();
            let clean = all.iter().filter(|(_, dirty)| !dirty).count();
            let enough = clean >= FEW.max(all.len() / 3);
            all.into_iter().filter(|(_, dirty)| !enough || !dirty).map(|(value, _)| value).collect()
        };
        self.processes.iter().map(process).collect()
    }

    /// Returns the ratio of the cost of `of` to the cost of `to`, or `None` if no round has both.
    pub fn ratio(&self, of: &str, to: &str) -> Option<Estimate> {
        let values = self.values(&[of, to], |costs| (costs[0] / costs[1]).ln());
        estimate(&values, DRAWS, self.seed).map(|estimate| estimate.map(f64::exp))
    }

    /// Returns the ratio of the net cost of `of` to the net cost of `to`. A net cost is a cost
    /// minus the cost of the loop. Returns `None` if no round has `of`, `to` and the loop, or if
    /// the median net cost of `to` in any process is not above zero.
    pub fn net_ratio(&self, of: &str, to: &str) -> Option<Estimate> {
        // Take the medians first, and then their quotient. In a single round, the difference of two
        // noisy costs may be zero or less, and leaving out such rounds would bias the ratio.
        let keys = [of, to, self.void];
        let own = self.values(&keys, |costs| costs[0] - costs[2]);
        let base = self.values(&keys, |costs| costs[1] - costs[2]);
        let median = |rounds: &Vec<f64>| stats::median(&mut rounds.clone());
        let mut quotients = Vec::new();
        for (own, base) in own.iter().zip(&base) {
            let (Some(own), Some(base)) = (median(own), median(base)) else { continue };
            // `to` is not slower than the loop, so there is no net cost to compare with.
            if base <= 0.0 {
                return None;
            }
            quotients.push(vec![own / base]);
        }
        estimate(&quotients, DRAWS, self.seed)
    }

    /// Returns the median cost of an operation, in nanoseconds, or `None` if there is no sample of
    /// `of`.
    pub fn cost(&self, of: &str) -> Option<f64> {
        estimate(&self.values(&[of], |costs| costs[0]), 0, self.seed).map(|estimate| estimate.mid)
    }

    /// Returns the median cost of an operation minus the cost of the loop, in nanoseconds, paired
    /// by round. Returns `None` if no round has both `of` and the loop.
    pub fn net_cost(&self, of: &str) -> Option<f64> {
        let values = self.values(&[of, self.void], |costs| costs[0] - costs[1]);
        estimate(&values, 0, self.seed).map(|estimate| estimate.mid)
    }

    /// Returns the cost in the fastest sample, in nanoseconds per operation, or `None` if there is
    /// no sample of `of`. This cost is noisier than the median, and reports show it for information
    /// only.
    pub fn least(&self, of: &str) -> Option<f64> {
        let all = self.values(&[of], |costs| costs[0]);
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

    /// Returns the samples of three processes of twelve rounds. The second half of the rounds is
    /// twice as slow for all contenders.
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
    fn a_drift_does_not_change_a_ratio() {
        let samples = drifting();
        let rounds = Rounds::new(&samples, "void", 1);
        let ratio = rounds.ratio("half", "base").expect("both ran");
        assert!((ratio.low99 - 0.5).abs() < 1e-9 && (ratio.high99 - 0.5).abs() < 1e-9, "{ratio:?}");
        let net = rounds.net_ratio("half", "base").expect("all three ran");
        assert!((net.mid - 30.0 / 80.0).abs() < 1e-9, "{net:?}");
        assert_eq!(rounds.net_ratio("base", "void"), None, "the loop costs nothing above itself");
        assert!((rounds.net_cost("half").expect("it ran") - 4.5).abs() < 1e-9);
        assert_eq!(rounds.ratio("nobody", "base"), None);
    }

    #[test]
    fn contaminated_rounds_are_left_out_if_enough_clean_ones_remain() {
        let mut samples = drifting();
        for process in 0..3 {
            for round in 12..16 {
                samples.push(sample("base", process, round, 100.0, 0));
                samples.push(sample("half", process, round, 9_000.0, 3));
            }
        }
        let rounds = Rounds::new(&samples, "void", 1);
        assert!((rounds.contaminated() - 0.25).abs() < 1e-9);
        let ratio = rounds.ratio("half", "base").expect("both ran");
        assert!((ratio.high99 - 0.5).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn all_rounds_are_used_if_all_are_contaminated() {
        let samples: Vec<TimedSample> =
            (0..9).flat_map(|r| [sample("a", 0, r, 30.0, 1), sample("b", 0, r, 10.0, 0)]).collect();
        let rounds = Rounds::new(&samples, "void", 1);
        assert!((rounds.ratio("a", "b").expect("both ran").mid - 3.0).abs() < 1e-9);
    }
}
