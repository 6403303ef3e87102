//! Draws the random tables that a loop reads.
//!
//! Every draw comes from a stream of a seed. The generator's output is fixed, so a seed gives the
//! same tables on every host. A test fails if a version of `rand` draws other numbers.
#![forbid(unsafe_code)]

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Poisson};
pub(crate) use rand_xoshiro::SplitMix64;

/// Returns the stream `number` of a seed. Different numbers give different streams.
pub(crate) fn stream(seed: u64, number: u64) -> SplitMix64 {
    SplitMix64::seed_from_u64(seed ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03))
}

/// Returns `N` sizes, uniform from `low` to `high` inclusive.
pub(crate) fn uniform<const N: usize>(seed: u64, low: u16, high: u16) -> Box<[u16; N]> {
    let mut rng = stream(seed, 1);
    filled(|| rng.random_range(u64::from(low)..=u64::from(high)) as u16)
}

/// Returns `N` sizes from `low` to `high` whose density falls with the square of the size.
pub(crate) fn inverse_square<const N: usize>(seed: u64, low: u16, high: u16) -> Box<[u16; N]> {
    let mut rng = stream(seed, 2);
    let (a, b) = (1.0 / f64::from(low), 1.0 / f64::from(high));
    filled(|| ((1.0 / (a - rng.random::<f64>() * (a - b))) as u16).clamp(low, high))
}

/// Returns `N` sizes from 5 to `high`, which must be a power of two. Half of the sizes are at most
/// 8, half of the rest at most 16, and so on.
pub(crate) fn geometric<const N: usize>(seed: u64, high: u16) -> Box<[u16; N]> {
    let mut rng = stream(seed, 12);
    filled(|| {
        let mut scale = 4;
        while 2 * scale < high && rng.random_range(0..2_u64) == 1 {
            scale *= 2;
        }
        scale + 1 + rng.random_range(0..u64::from(scale)) as u16
    })
}

/// Returns `N` counts from a Poisson distribution with the given mean.
///
/// # Panics
///
/// Panics if the mean is not a positive number.
pub(crate) fn poisson<const N: usize>(seed: u64, mean: f64) -> Box<[u16; N]> {
    let events = Poisson::new(mean).expect("a positive mean");
    let mut rng = stream(seed, 13);
    filled(|| events.sample(&mut rng) as u16)
}

/// Returns `N` random indices below `bound`.
pub(crate) fn places<const N: usize>(seed: u64, bound: u16) -> Box<[u16; N]> {
    let mut rng = stream(seed, 3);
    filled(|| rng.random_range(0..u64::from(bound)) as u16)
}

/// Returns an array of the results of `N` calls of `next`.
fn filled<const N: usize>(next: impl FnMut() -> u16) -> Box<[u16; N]> {
    let mut table = Box::new([0; N]);
    table.fill_with(next);
    table
}

#[cfg(test)]
mod tests {
    use rand::seq::SliceRandom;

    use super::*;

    #[test]
    fn tables_of_a_seed_are_equal_and_within_their_bounds() {
        let table = uniform::<4096>(7, 8, 136);
        assert_eq!(table, uniform::<4096>(7, 8, 136));
        assert_ne!(table, uniform::<4096>(8, 8, 136));
        assert_eq!((table.iter().min(), table.iter().max()), (Some(&8), Some(&136)));
        let mean = table.iter().map(|&s| f64::from(s)).sum::<f64>() / 4096.0;
        assert!((mean - 72.0).abs() < 3.0, "{mean}");

        let steep = inverse_square::<8000>(7, 4, 32_768);
        assert!(steep.iter().all(|&s| (4..=32_768).contains(&s)));
        let small = steep.iter().filter(|&&s| s < 8).count();
        assert!((3_500..4_500).contains(&small), "half of them are below twice the least: {small}");
        assert!(places::<4096>(7, 5000).iter().all(|&p| p < 5000));

        let halves = geometric::<8000>(7, 1024);
        assert!(halves.iter().all(|&s| (5..=1024).contains(&s)) && halves.iter().any(|&s| s > 512));
        for (power, expected) in [(3, 4000), (4, 2000), (5, 1000), (6, 500)] {
            let within = halves.iter().filter(|&&s| (s - 1).ilog2() + 1 == power).count();
            assert!(within.abs_diff(expected) < 200, "{within} of 8000 up to 2^{power}");
        }
        let counts = poisson::<4096>(7, 200.0);
        let mean = counts.iter().map(|&n| f64::from(n)).sum::<f64>() / 4096.0;
        let variance = counts.iter().map(|&n| (f64::from(n) - mean).powi(2)).sum::<f64>() / 4096.0;
        assert!((mean - 200.0).abs() < 1.0 && (variance - 200.0).abs() < 20.0, "{mean} {variance}");
    }

    #[test]
    fn draws_do_not_depend_on_the_version_of_rand() {
        // The counts in `benches/icount.json` depend on these draws.
        assert_eq!(uniform::<4>(7, 8, 136)[..], [56, 113, 42, 33]);
        assert_eq!(inverse_square::<4>(7, 4, 32_768)[..], [5, 13, 7, 7]);
        assert_eq!(places::<4>(7, 5000)[..], [4315, 3222, 2420, 2738]);
        let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
        order.shuffle(&mut stream(7, 0));
        assert_eq!(order, [4, 1, 6, 0, 7, 2, 5, 3]);
    }
}
