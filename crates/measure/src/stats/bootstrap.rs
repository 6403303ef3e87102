//! Estimates a median of medians and its interval.
//!
//! A bootstrap over three processes can draw only the values of those three. If processes differ by
//! more than their rounds do, the bootstrap's 95 % interval contains the truth only three times in
//! four. Each end of the interval is therefore the farther of two values: the end of the
//! bootstrap's interval, and the end that a method like Student's derives from the medians of the
//! processes.
#![forbid(unsafe_code)]

use core::fmt;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::median::median;

/// The number of draws of the bootstrap in a report.
pub const DRAWS: usize = 4000;

/// The distance from the estimate to each end of an interval at 95 % and at 99 %, in standard
/// deviations of the medians. The first row is for two processes, the next one for three, and so
/// on. The last row also serves any larger number. Each row comes from 200,000 simulated normal
/// samples.
const REACH: [(f64, f64); 9] = [
    (8.80, 44.3),
    (2.58, 5.78),
    (1.64, 2.94),
    (1.35, 2.14),
    (1.13, 1.72),
    (1.04, 1.51),
    (0.93, 1.33),
    (0.89, 1.25),
    (0.81, 1.13),
];

/// A median of medians and its intervals.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// The median over processes of the median over rounds.
    pub mid: f64,
    /// The lower end of the 95 % interval.
    pub low95: f64,
    /// The upper end of the 95 % interval.
    pub high95: f64,
    /// The lower end of the 99 % interval.
    pub low99: f64,
    /// The upper end of the 99 % interval.
    pub high99: f64,
}

/// Writes the median and the 95 % interval, as tables show them.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.mid, self.low95, self.high95)
    }
}

impl Estimate {
    /// Returns whether 1 lies outside the 95 % interval, which the tables show.
    #[must_use]
    pub fn excludes_one(&self) -> bool {
        self.low95 > 1.0 || self.high95 < 1.0
    }

    /// Applies `f`, which must be an increasing function, to all fields.
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self {
            mid: f(self.mid),
            low95: f(self.low95),
            high95: f(self.high95),
            low99: f(self.low99),
            high99: f(self.high99),
        }
    }
}

/// Estimates the median of medians and its intervals. `processes` contains, for each process, one
/// value for each round. `draws` is the number of draws of the bootstrap; without draws, the
/// intervals have no width. Returns `None` if no process has a value.
#[must_use]
pub fn estimate(processes: &[Vec<f64>], draws: usize, seed: u64) -> Option<Estimate> {
    let processes: Vec<&[f64]> =
        processes.iter().map(Vec::as_slice).filter(|rounds| !rounds.is_empty()).collect();
    let mut medians: Vec<f64> = processes.iter().filter_map(|rounds| median(&mut rounds.to_vec())).collect();
    let mid = median(&mut medians)?;
    let (reach95, reach99) = reach(&medians);

    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut rounds = Vec::new();
    let mut draw = || {
        medians.clear();
        for _ in 0..processes.len() {
            let process = processes[rng.random_range(0..processes.len())];
            rounds.clear();
            rounds.extend((0..process.len()).map(|_| process[rng.random_range(0..process.len())]));
            medians.extend(median(&mut rounds));
        }
        median(&mut medians)
    };
    let mut drawn: Vec<f64> = (0..draws).filter_map(|_| draw()).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| drawn[((drawn.len() - 1) as f64 * share).round() as usize];
    if drawn.is_empty() {
        return Some(Estimate { mid, low95: mid, high95: mid, low99: mid, high99: mid });
    }
    Some(Estimate {
        mid,
        low95: at(0.025).min(mid - reach95),
        high95: at(0.975).max(mid + reach95),
        low99: at(0.005).min(mid - reach99),
        high99: at(0.995).max(mid + reach99),
    })
}

/// Returns the width of a 99 % interval divided by that of a 95 % interval, for this number of
/// processes. Fewer than two processes count as two.
#[must_use]
pub fn wider(processes: usize) -> f64 {
    let (reach95, reach99) = REACH[processes.clamp(2, REACH.len() + 1) - 2];
    reach99 / reach95
}

/// Returns the distance from the median of these medians to the ends of its 95 % and 99 %
/// intervals, judged by the spread of the medians alone. Returns zeros for a single median, whose
/// spread is unknown.
fn reach(medians: &[f64]) -> (f64, f64) {
    let n = medians.len();
    let Some(row) = n.checked_sub(2).map(|row| row.min(REACH.len() - 1)) else { return (0.0, 0.0) };
    let mean = medians.iter().sum::<f64>() / n as f64;
    let squares: f64 = medians.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (n - 1) as f64).sqrt();
    (REACH[row].0 * deviation, REACH[row].1 * deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_constant_data_has_no_width() {
        let found = estimate(&[vec![2.0; 5], vec![2.0; 5]], 100, 1).expect("there is data");
        assert_eq!(found, Estimate { mid: 2.0, low95: 2.0, high95: 2.0, low99: 2.0, high99: 2.0 });
    }

    #[test]
    fn processes_without_a_round_are_left_out() {
        assert_eq!(estimate(&[], 100, 1), None);
        assert_eq!(estimate(&[vec![]], 100, 1), None);
        assert_eq!(estimate(&[vec![], vec![1.0, 2.0, 3.0]], 100, 1).map(|e| e.mid), Some(2.0));
    }

    #[test]
    fn one_outlying_process_of_five_does_not_move_the_estimate() {
        let mut data = vec![vec![1.0, 1.01, 0.99]; 4];
        data.push(vec![9.0, 9.1, 8.9]);
        assert_eq!(estimate(&data, 100, 1).map(|e| e.mid), Some(1.0));
    }

    #[test]
    fn the_wider_level_contains_the_narrower_one() {
        let data: Vec<Vec<f64>> =
            (0..3).map(|p| (0..15).map(|r| f64::from(p + r * 7 % 11)).collect()).collect();
        let e = estimate(&data, 2000, 9).expect("there is data");
        assert!(e.low99 <= e.low95 && e.low95 <= e.mid && e.mid <= e.high95 && e.high95 <= e.high99, "{e:?}");
        assert_eq!(Some(e), estimate(&data, 2000, 9), "the same seed draws the same");
    }
}
