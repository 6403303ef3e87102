//! Defines a deterministic source of random numbers. A seed generates the same program on every
//! host.
#![forbid(unsafe_code)]

use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// A stream of random numbers. The algorithm of its generator is fixed, so a seed that finds a
/// fault still finds it with later versions of `rand`.
#[derive(Clone, Debug)]
pub struct SplitMix(SplitMix64);

impl SplitMix {
    /// Creates a stream from a seed. Equal seeds give equal sequences.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns the next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0. The distribution is uneven for bounds
    /// near 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        // This takes the remainder, because a switch to a sampler of `rand` would change the
        // program of every seed.
        if bound == 0 { 0 } else { (self.draw() % bound as u64) as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix;

    #[test]
    fn equal_seeds_give_equal_sequences() {
        let mut one = SplitMix::new(7);
        let mut other = SplitMix::new(7);
        let mut third = SplitMix::new(8);
        let first: [u64; 4] = core::array::from_fn(|_| one.draw());
        assert_eq!(first, core::array::from_fn(|_| other.draw()));
        assert_ne!(first, core::array::from_fn(|_| third.draw()));
    }

    #[test]
    fn numbers_are_below_the_bound() {
        let mut rng = SplitMix::new(1);
        assert_eq!(rng.below(0), 0);
        let drawn: alloc::vec::Vec<usize> = (0..400).map(|_| rng.below(5)).collect();
        for wanted in 0..5 {
            assert!(drawn.contains(&wanted), "{wanted} was never generated");
        }
        assert!(drawn.iter().all(|&number| number < 5));
    }
}
