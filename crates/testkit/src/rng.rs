//! A small deterministic random number generator. A seed means the same program on every host.
#![forbid(unsafe_code)]

/// The splitmix generator. Its state is one 64-bit word, which advances by an odd constant; the
/// output is a mix of its bits.
#[derive(Clone, Debug)]
pub struct SplitMix {
    state: u64,
}

impl SplitMix {
    /// Creates a generator from a seed. Equal seeds give equal sequences.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0. The distribution is slightly uneven
    /// for bounds near 2^64.
    pub const fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
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
        let first: [u64; 4] = core::array::from_fn(|_| one.next());
        assert_eq!(first, core::array::from_fn(|_| other.next()));
        assert_ne!(first, core::array::from_fn(|_| third.next()));
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
