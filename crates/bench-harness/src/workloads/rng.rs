//! Random numbers that are the same on every machine, and the tables that are made of them before a loop starts.
#![forbid(unsafe_code)]

/// SplitMix64: one multiplication chain, a period of 2^64, good enough to draw sizes and orders from.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts a stream; `stream` tells apart tables of one seed.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is above zero; the bias of 2^-64 times `bound` does not matter here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A fraction in [0, 1).
    pub fn fraction(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Puts a slice into random order.
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for i in (1..slice.len()).rev() {
            slice.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// Puts turns into a new random order in which who was last is not first: nobody has two turns in a row, the second of which would
    /// find its memory in the caches.
    pub fn next_turns(&mut self, order: &mut [usize]) {
        let Some(&last) = order.last() else { return };
        self.shuffle(order);
        if order.len() > 1 && order[0] == last {
            let other = 1 + self.below(order.len() as u64 - 1) as usize;
            order.swap(0, other);
        }
    }
}

/// `N` sizes, uniform from `low` to `high`, both included.
#[must_use]
pub fn uniform<const N: usize>(seed: u64, low: u16, high: u16) -> Box<[u16; N]> {
    let mut rng = Rng::new(seed, 1);
    filled(|| low + rng.below(u64::from(high - low) + 1) as u16)
}

/// `N` sizes from `low` to `high` whose density falls with the square of the size.
#[must_use]
pub fn inverse_square<const N: usize>(seed: u64, low: u16, high: u16) -> Box<[u16; N]> {
    let mut rng = Rng::new(seed, 2);
    let (a, b) = (1.0 / f64::from(low), 1.0 / f64::from(high));
    filled(|| ((1.0 / (a - rng.fraction() * (a - b))) as u16).clamp(low, high))
}

/// `N` sizes from 5 to `high`, a power of two: half of them up to 8, half of the others up to 16, and so on.
#[must_use]
pub fn geometric<const N: usize>(seed: u64, high: u16) -> Box<[u16; N]> {
    let mut rng = Rng::new(seed, 12);
    filled(|| {
        let mut scale = 4;
        while 2 * scale < high && rng.below(2) == 1 {
            scale *= 2;
        }
        scale + 1 + rng.below(u64::from(scale)) as u16
    })
}

/// `N` counts around `mean`, as events that happen by themselves come: Poisson's distribution.
#[must_use]
pub fn poisson<const N: usize>(seed: u64, mean: f64) -> Box<[u16; N]> {
    let mut rng = Rng::new(seed, 13);
    filled(|| {
        // Waiting times between the events of a unit of time, in units of the mean's inverse.
        let mut waited = 0.0;
        let mut events = 0;
        loop {
            waited -= (1.0 - rng.fraction()).ln();
            if waited > mean {
                return events;
            }
            events += 1;
        }
    })
}

/// `N` places below `bound`.
#[must_use]
pub fn places<const N: usize>(seed: u64, bound: u16) -> Box<[u16; N]> {
    let mut rng = Rng::new(seed, 3);
    filled(|| rng.below(u64::from(bound)) as u16)
}

/// A boxed array filled by calls.
fn filled<const N: usize>(mut next: impl FnMut() -> u16) -> Box<[u16; N]> {
    let mut table = Box::new([0; N]);
    table.fill_with(&mut next);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_two_turns_in_a_row_and_everybody_all_places() {
        let mut rng = Rng::new(3, 0);
        let mut order = [0, 1, 2, 3];
        let mut places = [[0; 4]; 4];
        for _ in 0..4000 {
            let last = order[3];
            rng.next_turns(&mut order);
            assert_ne!(order[0], last);
            order.iter().enumerate().for_each(|(place, &who)| places[who][place] += 1);
        }
        assert!(places.iter().flatten().all(|count| (800..1200).contains(count)), "{places:?}");
        let (mut one, mut none) = ([7], []);
        rng.next_turns(&mut one);
        rng.next_turns(&mut none);
        assert_eq!(one, [7]);
    }

    #[test]
    fn tables_are_the_same_for_one_seed_and_within_their_bounds() {
        let table = uniform::<4096>(7, 8, 136);
        assert_eq!(table, uniform::<4096>(7, 8, 136));
        assert_ne!(table, uniform::<4096>(8, 8, 136));
        assert_eq!((table.iter().min(), table.iter().max()), (Some(&8), Some(&136)));
        let mean = table.iter().map(|&s| f64::from(s)).sum::<f64>() / 4096.0;
        assert!((mean - 72.0).abs() < 3.0, "{mean}");

        let steep = inverse_square::<8000>(7, 4, 32_768);
        assert!(steep.iter().all(|&s| (4..=32_768).contains(&s)));
        let small = steep.iter().filter(|&&s| s < 8).count();
        assert!((3_500..4_500).contains(&small), "half of them lie below twice the least: {small}");
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
    fn a_shuffle_keeps_every_element() {
        let mut order: Vec<usize> = (0..100).collect();
        Rng::new(1, 0).shuffle(&mut order);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
