//! Statistics: medians of paired ratios, intervals from a hierarchical bootstrap, and verdicts.
//!
//! The samples of a round are taken shortly after each other, so slow drifts cancel in their
//! ratios. The estimate is the median over processes of the median over rounds. The bootstrap draws
//! processes, then rounds within each process, because rounds of one process share its address
//! layout. With few processes, the interval of a bootstrap is too narrow, so the spread of the
//! processes' medians can widen it.
#![forbid(unsafe_code)]

mod bootstrap;
mod median;

pub use self::bootstrap::{DRAWS, Estimate, estimate, wider};
pub use self::median::median;

/// The verdict on a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The contender takes less time than the reference.
    Faster,
    /// The contender takes more time than the reference.
    Slower,
    /// This run found no difference.
    #[serde(rename = "≈")]
    Same,
}

impl Verdict {
    /// Returns the word that tables show.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "≈",
        }
    }
}

/// A ratio that differs from 1 by at most this much counts as 1, even if the interval excludes 1.
const SMALLEST: f64 = 0.01;

/// Returns `Faster` or `Slower` if the 99 % interval excludes 1, and if the ratio differs from 1 by
/// more than 1 % and by more than three times `floor`. `floor` is the reference's difference from
/// itself. Otherwise returns `Same`.
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
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    /// Draws a normal deviate by the method of Box and Muller.
    fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
        let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
        radius * (core::f64::consts::TAU * rng.random::<f64>()).cos()
    }

    /// Returns logarithms of ratios like the ratios of a run: each process has an offset, each
    /// round has noise, and one round in twenty is an outlier.
    fn run(
        rng: &mut Xoshiro256PlusPlus,
        truth: f64,
        between: f64,
        within: f64,
        processes: usize,
    ) -> Vec<Vec<f64>> {
        let mut process = || {
            let offset = truth.ln() + between * normal(rng);
            let mut round = || {
                let outlier = if rng.random_ratio(1, 20) { 0.3 * rng.random::<f64>() } else { 0.0 };
                offset + within * normal(rng) + outlier * if rng.random() { 1.0 } else { -1.0 }
            };
            (0..15).map(|_| round()).collect()
        };
        (0..processes).map(|_| process()).collect()
    }

    /// Estimates a ratio from the logarithms that [`run`] returns.
    fn ratio(data: &[Vec<f64>], seed: u64) -> Estimate {
        estimate(data, 500, seed).expect("there is data").map(f64::exp)
    }

    /// Returns three figures of 400 runs. The first two are the shares of runs whose intervals at
    /// 95 % and at 99 % contain the truth. The third is the mean width of the intervals at 95 %.
    fn coverage(between: f64, within: f64, processes: usize) -> (f64, f64, f64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
        let (mut covered, mut covered99, mut width) = (0, 0, 0.0);
        for i in 0..400 {
            let data = run(&mut rng, 1.2, between, within, processes);
            let found = ratio(&data, i);
            covered += u32::from((found.low95..=found.high95).contains(&1.2));
            covered99 += u32::from((found.low99..=found.high99).contains(&1.2));
            width += found.high95 - found.low95;
        }
        (f64::from(covered) / 400.0, f64::from(covered99) / 400.0, width / 400.0)
    }

    #[test]
    fn intervals_have_about_their_nominal_coverage() {
        // The plans have three or seven processes. The spread between processes is smaller than,
        // equal to, or larger than the spread of the rounds.
        for processes in [3, 7] {
            for (between, within) in [(0.002, 0.02), (0.02, 0.02), (0.02, 0.005)] {
                let (at95, at99, _) = coverage(between, within, processes);
                let what =
                    format!("{processes} processes, {between} between and {within} within: {at95}, {at99}");
                assert!(at95 >= 0.925, "{what}");
                assert!(at99 >= 0.975, "{what}, on which verdicts rest");
            }
        }
    }

    #[test]
    fn intervals_of_usual_data_are_narrow() {
        let (_, _, three) = coverage(0.002, 0.02, 3);
        let (_, _, seven) = coverage(0.002, 0.02, 7);
        assert!(three < 0.08 && seven < 0.04, "{three}, {seven}");
    }

    #[test]
    fn the_reference_against_itself_gets_the_verdict_same() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(12);
        let same = (0..300).filter(|&i| {
            let data = run(&mut rng, 1.0, 0.001, 0.01, 3);
            verdict(&ratio(&data, i), 0.0) == Verdict::Same
        });
        assert_eq!(same.count(), 300);
    }

    #[test]
    fn a_slow_down_of_three_percent_is_found() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(13);
        let mut found = |processes| {
            let found = (0..200).filter(|&i| {
                let data = run(&mut rng, 1.03, 0.002, 0.01, processes);
                verdict(&ratio(&data, i), 0.002) == Verdict::Slower
            });
            found.count()
        };
        let (full, quick) = (found(7), found(3));
        assert!(full >= 195, "{full} of 200");
        assert!(quick >= 100, "{quick} of 200: three processes find it more often than not");
    }

    #[test]
    fn a_difference_below_three_floors_gets_no_verdict() {
        let data = vec![vec![1.03_f64.ln(); 15]; 3];
        assert_eq!(verdict(&ratio(&data, 1), 0.02), Verdict::Same);
        assert_eq!(verdict(&ratio(&data, 1), 0.005), Verdict::Slower);
        let data = vec![vec![0.5_f64.ln(); 15]; 3];
        assert_eq!(verdict(&ratio(&data, 1), 0.02), Verdict::Faster);
    }
}
