//! S11, particles: ten thousand objects of a simulation. In each frame one in fifty dies, wherever it stands, as many come, and
//! all that are alive are looked at in their order. What a pool does for that look shows beside what it does for births.

use rand::seq::SliceRandom;

use super::verify;
use crate::objects::{Maker, Object, RawPool, WordObject};
use crate::workloads::draws::stream;
use crate::workloads::{Cell, Context, mix};

/// Objects alive.
pub const ALIVE: u16 = 10_000;
/// Births and deaths of a frame.
pub const BORN: usize = ALIVE as usize / 50;
/// How often each place is in the table.
const TIMES: usize = 4;

type Particle = WordObject<8>;

/// What is alive, and the table that says who dies.
struct Particles<P: RawPool<Particle>> {
    /// An object and its tag; none but between a death and a birth.
    alive: Vec<Option<(P::Handle, u64)>>,
    /// Every place some times over, each time in another order, so that those of a frame differ.
    dying: Vec<u16>,
    born: u64,
    pool: P,
}

impl<P: RawPool<Particle>> Particles<P> {
    /// Fills the places.
    fn new(pool: P, seed: u64) -> Self {
        let mut rng = stream(seed, 15);
        let mut dying = Vec::with_capacity(TIMES * usize::from(ALIVE));
        for _ in 0..TIMES {
            let mut order: Vec<u16> = (0..ALIVE).collect();
            order.shuffle(&mut rng);
            dying.extend(order);
        }
        let alive = (0..u64::from(ALIVE)).map(|tag| Some((pool.put(Particle::new(tag)), tag))).collect();
        Self { alive, dying, born: 0, pool }
    }

    /// A frame: deaths, births, and a look at all.
    #[inline(never)]
    fn frame(&mut self) -> u64 {
        let mut sum = 0;
        let at = self.born as usize % self.dying.len();
        let dying = &self.dying[at..at + BORN];
        for &place in dying {
            if let Some((handle, tag)) = self.alive[usize::from(place)].take() {
                // SAFETY: made with this tag by this pool.
                unsafe { verify::<Particle, P>(&self.pool, &handle, tag, &mut sum) };
                // SAFETY: the handle is this pool's.
                unsafe { self.pool.take(handle) };
            }
        }
        for &place in dying {
            self.alive[usize::from(place)] = Some((self.pool.put(Particle::new(self.born)), self.born));
            self.born += 1;
        }
        for (handle, _) in self.alive.iter().flatten() {
            // SAFETY: the object is alive.
            let (first, last) = unsafe { self.pool.look(handle, Particle::ends) };
            sum = sum.wrapping_add(first ^ last.rotate_left(1));
        }
        sum
    }
}

impl<P: RawPool<Particle>> Cell for Particles<P> {
    fn run(&mut self, units: u64) -> u64 {
        (0..units).fold(0, |sum, _| mix(sum, self.frame()))
    }
}

impl<P: RawPool<Particle>> Drop for Particles<P> {
    fn drop(&mut self) {
        for (handle, _) in self.alive.drain(..).flatten() {
            // SAFETY: the handle is this pool's.
            unsafe { self.pool.take(handle) };
        }
    }
}

/// A cell of 10,000 objects of 64 bytes.
pub fn cell<M: Maker>(context: &Context) -> Box<dyn Cell> {
    Box::new(Particles::new(M::make_for::<Particle>(usize::from(ALIVE)), context.seed))
}
