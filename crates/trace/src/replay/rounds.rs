//! Plays a program over all candidates in rounds.
#![forbid(unsafe_code)]

use ephemera_measure::{stats, turns};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::replayed::{REFERENCE, TWIN};
use super::timed::{Timed, ratio};
use super::{Candidate, ReplayProgram};

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
/// Panics if an allocator refuses a block.
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
            let busy = players[index]().busy;
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
