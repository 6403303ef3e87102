//! The order of turns in a round of measurements.
#![forbid(unsafe_code)]

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

/// Draws the order of the next round. If there are several contenders, the last one of a round is
/// never the first of the next, where it would find its memory in the caches.
pub fn next_round(rng: &mut impl Rng, order: &mut [usize]) {
    let Some(&last) = order.last() else { return };
    order.shuffle(rng);
    if order.len() > 1 && order[0] == last {
        let other = rng.random_range(1..order.len());
        order.swap(0, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;

    #[test]
    fn no_turn_repeats_and_every_place_is_equally_likely() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut order = [0, 1, 2, 3];
        let mut places = [[0; 4]; 4];
        for _ in 0..4000 {
            let last = order[3];
            next_round(&mut rng, &mut order);
            assert_ne!(order[0], last);
            order.iter().enumerate().for_each(|(place, &turn)| places[turn][place] += 1);
        }
        assert!(places.iter().flatten().all(|count| (800..1200).contains(count)), "{places:?}");
        let (mut one, mut none) = ([7], []);
        next_round(&mut rng, &mut one);
        next_round(&mut rng, &mut none);
        assert_eq!(one, [7]);
    }
}
