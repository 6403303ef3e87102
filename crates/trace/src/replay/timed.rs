//! Plays a program over all candidates in rounds. Also finds the differences that a few outlying
//! rounds hide.
#![forbid(unsafe_code)]

use ephemera_measure::stats::{self, DRAWS, Estimate, Verdict};
use ephemera_measure::turns;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::replayed::{REFERENCE, TWIN};
use super::{Candidate, ReplayProgram};

/// The times of one candidate.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// The candidate's time divided by the reference's time in the same round.
    pub ratio: Estimate,
    /// Whether the ratio shows a difference from the reference.
    pub verdict: Verdict,
    /// The median processor time of an operation in nanoseconds, without waiting.
    pub ns: f64,
    /// The verdict without the outlying rounds, if it differs.
    pub swayed: Option<Swayed>,
}

/// A difference that a few outlying rounds hide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swayed {
    /// The verdict without the outlying rounds.
    pub verdict: Verdict,
    /// The number of outlying rounds.
    pub rounds: usize,
    /// The ratio of the round that is farthest from the median.
    pub farthest: f64,
}

impl Timed {
    /// Estimates the ratio from the logarithms of the rounds' ratios. `floor` is the reference's
    /// difference from itself.
    fn of(logs: &[f64], ns: f64, floor: f64, seed: u64) -> Self {
        let ratio = ratio(logs, seed);
        let verdict = stats::verdict(&ratio, floor);
        let mut timed = Self { ratio, verdict, ns, swayed: None };
        if verdict == Verdict::Same && !weakened!("replay_silent_outliers") {
            timed.swayed = Swayed::of(logs, ratio.mid.ln(), floor, seed);
        }
        timed
    }

    /// Returns a note about the difference that a few rounds hide, if there is one.
    pub fn swayed_note(&self, name: &str) -> Option<String> {
        let Swayed { verdict, rounds, farthest } = self.swayed?;
        Some(format!(
            "{name} is {} without {} (the farthest has a ratio of {farthest:.2}): another program may have run then. Replay again, or with \
             more --rounds",
            verdict.word(),
            if rounds == 1 { "one outlying round".to_owned() } else { format!("{rounds} outlying rounds") }
        ))
    }
}

/// The number of rounds that a replay must have for each outlier that may be removed: with nine
/// rounds, two outliers.
const OUTLYING: usize = 4;
/// The distance from the median above which a round is an outlier, as a multiple of the median
/// distance.
const FAR: f64 = 4.0;

impl Swayed {
    /// Removes the farthest rounds one by one, until the remaining rounds show a difference.
    /// Returns `None` if it would have to remove too many rounds, or a round that is not an
    /// outlier.
    fn of(logs: &[f64], mid: f64, floor: f64, seed: u64) -> Option<Self> {
        let far = |log: &f64| (log - mid).abs();
        let mut left = logs.to_vec();
        left.sort_unstable_by(|a, b| far(a).total_cmp(&far(b)));
        let typical = stats::median(&mut logs.iter().map(far).collect::<Vec<_>>())?;
        let farthest = left.last()?.exp();
        for rounds in 1..=logs.len() / OUTLYING {
            if far(&left.pop()?) <= FAR * typical {
                return None;
            }
            let verdict = stats::verdict(&ratio(&left, seed), floor);
            if verdict != Verdict::Same {
                return Some(Self { verdict, rounds, farthest });
            }
        }
        None
    }
}

/// Returns the ratio and its interval for rounds whose ratios have these logarithms.
fn ratio(logs: &[f64], seed: u64) -> Estimate {
    let one = Estimate { mid: 0.0, low95: 0.0, high95: 0.0, low99: 0.0, high99: 0.0 };
    stats::estimate(&[logs.to_vec()], DRAWS, seed).unwrap_or(one).map(f64::exp)
}

/// Plays the program over all candidates in rounds, and returns the figures of each candidate.
/// Discards the times of round 0, which is a warm-up, and measures `rounds` further rounds. After
/// each round, calls `step` with the round's number. `seed` determines the order of turns.
///
/// # Errors
///
/// Returns an error if `rounds` is 0, or if the reference is not among the candidates.
///
/// # Panics
///
/// Panics if an allocator refuses a block, or if the file of the operations cannot be read.
pub fn time(
    program: &ReplayProgram,
    candidates: &[Candidate],
    rounds: u32,
    seed: u64,
    mut step: impl FnMut(u32),
) -> Result<Vec<Timed>, String> {
    let place = |key: &str| candidates.iter().position(|candidate| candidate.key == key);
    if rounds == 0 {
        return Err("a replay needs at least one round".to_owned());
    }
    let reference = place(REFERENCE)
        .ok_or_else(|| format!("no ratios without {REFERENCE}, which all others are compared with"))?;
    let mut players: Vec<_> = candidates.iter().map(|candidate| (candidate.build)(program, false)).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut order: Vec<usize> = (0..players.len()).collect();
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); players.len()];
    for round in 0..=rounds {
        turns::next_round(&mut rng, &mut order);
        for &index in &order {
            let busy = players[index]();
            if round > 0 {
                samples[index].push(busy.max(1) as f64);
            }
        }
        step(round);
    }
    let logs = |index: usize| -> Vec<f64> {
        let pairs = samples[index].iter().zip(&samples[reference]);
        pairs.map(|(mine, theirs)| (mine / theirs).ln()).collect()
    };
    let floor = place(TWIN).map_or(0.0, |twin| (ratio(&logs(twin), seed).mid - 1.0).abs());
    let figures = (0..candidates.len()).map(|index| {
        let ns = stats::median(&mut samples[index].clone()).unwrap_or(0.0) / program.ops.max(1) as f64;
        Timed::of(&logs(index), ns, floor, seed)
    });
    Ok(figures.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the figures of nine rounds. Seven rounds are about 5 % faster than the reference,
    /// and `two` has the ratios of the other two.
    fn rounds(two: [f64; 2]) -> Timed {
        let seven = [0.948, 0.952, 0.949, 0.951, 0.95, 0.953, 0.947];
        let logs: Vec<f64> = seven.into_iter().chain(two).map(f64::ln).collect();
        Timed::of(&logs, 1.0, 0.0, 1)
    }

    #[test]
    fn outliers_that_hide_a_difference_are_reported() {
        let calm = rounds([0.95, 0.946]);
        assert_eq!((calm.verdict, calm.swayed), (Verdict::Faster, None));
        let one = rounds([0.95, 1.6]);
        assert!(one.verdict == Verdict::Faster && one.swayed.is_none(), "one of nine moves nothing");
        let two = rounds([1.3, 1.6]);
        let swayed = two.swayed.expect("two of nine move the interval");
        assert_eq!((two.verdict, swayed.verdict), (Verdict::Same, Verdict::Faster));
        let said = two.swayed_note("mimalloc").expect("there is a note");
        assert!(said.contains("mimalloc is faster without") && said.contains("1.60"), "{said}");
        // One outlier of five suffices.
        let logs: Vec<f64> = [0.95, 0.951, 0.949, 0.952, 1.6].map(f64::ln).into();
        let five = Timed::of(&logs, 1.0, 0.0, 1);
        assert!(five.swayed_note("x").expect("there is a note").contains("without one outlying round"));
    }

    #[test]
    fn rounds_that_scatter_have_no_outliers() {
        let logs: Vec<f64> = (0..9).map(|i| (0.96 + 0.02 * f64::from(i)).ln()).collect();
        let timed = Timed::of(&logs, 1.0, 0.0, 1);
        assert_eq!((timed.verdict, timed.swayed), (Verdict::Same, None));
        let same = Timed::of(&[0.0; 9], 1.0, 0.0, 1);
        assert_eq!((same.verdict, same.swayed), (Verdict::Same, None));
        assert_eq!(Timed::of(&[], 1.0, 0.0, 1).swayed, None);
    }
}
