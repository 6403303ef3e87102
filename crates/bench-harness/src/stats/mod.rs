//! The statistics: medians of paired ratios, intervals by a hierarchical bootstrap, verdict words.
//!
//! Samples of one round are taken within milliseconds of one another, so that their ratio does not feel what drifts over a
//! run. The estimate is the median over processes of the median over rounds. The bootstrap draws processes, then rounds
//! within each; rounds of one process share its address layout and are no independent trials.
#![forbid(unsafe_code)]

mod bootstrap;

pub use self::bootstrap::{DRAWS, Estimate, estimate};

/// The median; `None` of nothing. The mean of the middle two for an even number.
#[must_use]
pub fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let middle = values.len() / 2;
    let odd = !values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if odd {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(f64::midpoint(lower, upper))
}

/// What a ratio comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Takes less time than the reference.
    Faster,
    /// Takes more.
    Slower,
    /// No difference that this run could tell.
    #[serde(rename = "≈")]
    Same,
}

impl Verdict {
    /// The word of the tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "≈",
        }
    }
}

/// Smallest difference that gets a word, whatever the interval.
const SMALLEST: f64 = 0.01;

/// `faster` or `slower` if the 99 % interval excludes 1 and the ratio is further from 1 than 1 % and than three times what
/// the reference differs from itself; else `≈`.
#[must_use]
pub fn verdict(ratio: &Estimate, floor: f64) -> Verdict {
    let enough = (ratio.mid - 1.0).abs() > SMALLEST.max(3.0 * floor);
    if enough && ratio.high99 < 1.0 {
        Verdict::Faster
    } else if enough && ratio.low99 > 1.0 {
        Verdict::Slower
    } else {
        Verdict::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::rng::Rng;

    /// A normal deviate, by Box and Muller.
    fn normal(rng: &mut Rng) -> f64 {
        let radius = (-2.0 * (1.0 - rng.fraction()).ln()).sqrt();
        radius * (core::f64::consts::TAU * rng.fraction()).cos()
    }

    /// Logarithms of ratios as a run would give them: a process's own offset, noise in each round, now and then an outlier.
    fn run(rng: &mut Rng, truth: f64, between: f64, within: f64, processes: usize) -> Vec<Vec<f64>> {
        let mut process = || {
            let offset = truth.ln() + between * normal(rng);
            let mut round = || {
                let outlier = if rng.below(20) == 0 { 0.3 * rng.fraction() } else { 0.0 };
                offset + within * normal(rng) + outlier * if rng.below(2) == 0 { 1.0 } else { -1.0 }
            };
            (0..15).map(|_| round()).collect()
        };
        (0..processes).map(|_| process()).collect()
    }

    /// Estimates a ratio from logarithms.
    fn ratio(data: &[Vec<f64>], seed: u64) -> Estimate {
        estimate(data, 500, seed).expect("there is data").map(f64::exp)
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&mut [5.0, 1.0, 9.0]), Some(5.0));
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        let mut rng = Rng::new(11, 0);
        let (mut covered, mut covered99, mut width) = (0, 0, 0.0);
        for i in 0..400 {
            let data = run(&mut rng, 1.2, 0.002, 0.02, 5);
            let found = ratio(&data, i);
            covered += u32::from((found.low95..=found.high95).contains(&1.2));
            covered99 += u32::from((found.low99..=found.high99).contains(&1.2));
            width += found.high95 - found.low95;
        }
        assert!((360..=395).contains(&covered), "{covered} of 400 at 95 %");
        assert!((388..=400).contains(&covered99), "{covered99} of 400 at 99 %, which verdicts rest on");
        assert!(width / 400.0 < 0.05, "an interval that covers by being wide is no use: {}", width / 400.0);
    }

    #[test]
    fn the_reference_against_itself_is_no_difference() {
        let mut rng = Rng::new(12, 0);
        let same = (0..300).filter(|&i| {
            let data = run(&mut rng, 1.0, 0.001, 0.01, 3);
            verdict(&ratio(&data, i), 0.0) == Verdict::Same
        });
        assert_eq!(same.count(), 300);
    }

    #[test]
    fn a_slow_down_of_three_percent_is_found() {
        let mut rng = Rng::new(13, 0);
        let found = (0..200).filter(|&i| {
            let data = run(&mut rng, 1.03, 0.002, 0.01, 3);
            verdict(&ratio(&data, i), 0.002) == Verdict::Slower
        });
        let found = found.count();
        assert!(found >= 190, "{found} of 200");
    }

    #[test]
    fn a_difference_below_three_floors_gets_no_word() {
        let data = vec![vec![1.03_f64.ln(); 15]; 3];
        assert_eq!(verdict(&ratio(&data, 1), 0.02), Verdict::Same);
        assert_eq!(verdict(&ratio(&data, 1), 0.005), Verdict::Slower);
        let data = vec![vec![0.5_f64.ln(); 15]; 3];
        assert_eq!(verdict(&ratio(&data, 1), 0.02), Verdict::Faster);
    }
}
