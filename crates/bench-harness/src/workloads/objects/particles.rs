//! S11, particles: ten thousand objects of a simulation. In each frame, a random fiftieth of them
//! dies, the same number is made, and all live objects are read in order. The time of a frame
//! includes the deaths and births, and it also shows how well a pool places its objects for the
//! read.

use rand::seq::SliceRandom;

use super::verify;
use crate::objects::{Maker, Object, WordObject};
use crate::pools::RawPool;
use crate::workloads::draws::stream;
use crate::workloads::{Cell, Context, StateCell, each};

/// The number of live objects.
pub(crate) const ALIVE: u16 = 10_000;
/// The number of objects that are made in a frame. The same number of objects dies.
pub(crate) const BORN: usize = ALIVE as usize / 50;
/// The number of times that each index occurs in the table of deaths.
const TIMES: usize = 4;

type Particle = WordObject<8>;

/// The live objects, and the table of deaths.
struct Particles<P: RawPool<Particle>> {
    /// The objects with their tags. An entry is `None` only between the death of its object and the
    /// birth of the next.
    alive: Vec<Option<(P::Handle, u64)>>,
    /// [`TIMES`] random orders of all indices of `alive`, one after the other. A frame takes its
    /// indices from one order, so no index occurs twice in a frame.
    dying: Vec<u16>,
    born: u64,
    pool: P,
}

impl<P: RawPool<Particle>> Particles<P> {
    fn new(pool: P, seed: u64) -> Self {
        let mut rng = stream(seed, 15);
        let mut dying = Vec::with_capacity(TIMES * usize::from(ALIVE));
        for _ in 0..TIMES {
            let mut order: Vec<u16> = (0..ALIVE).collect();
            order.shuffle(&mut rng);
            dying.extend(order);
        }
        // SAFETY: `drop` drops all objects before the pool ends.
        let put = |tag| unsafe { pool.put(Particle::new(tag)) };
        let alive = (0..u64::from(ALIVE)).map(|tag| Some((put(tag), tag))).collect();
        Self { alive, dying, born: 0, pool }
    }

    /// Runs a frame: deaths, births, and a read of all objects.
    #[inline(never)]
    fn frame(&mut self) -> u64 {
        let mut sum = 0;
        let at = self.born as usize % self.dying.len();
        let dying = &self.dying[at..at + BORN];
        for &place in dying {
            if let Some((handle, tag)) = self.alive[usize::from(place)].take() {
                // SAFETY: this pool made the object with this tag, and it is live.
                unsafe { verify::<Particle, P>(&self.pool, &handle, tag, &mut sum) };
                // SAFETY: this pool returned the handle.
                unsafe { self.pool.take(handle) };
            }
        }
        for &place in dying {
            // SAFETY: `drop` drops all objects before the pool ends.
            let handle = unsafe { self.pool.put(Particle::new(self.born)) };
            self.alive[usize::from(place)] = Some((handle, self.born));
            self.born += 1;
        }
        for (handle, _) in self.alive.iter().flatten() {
            // SAFETY: this pool returned the handle, and the object is live.
            let (first, last) = unsafe { self.pool.look(handle, Particle::ends) };
            sum = sum.wrapping_add(first ^ last.rotate_left(1));
        }
        sum
    }
}

impl<P: RawPool<Particle>> Drop for Particles<P> {
    fn drop(&mut self) {
        for (handle, _) in self.alive.drain(..).flatten() {
            // SAFETY: this pool returned the handle.
            unsafe { self.pool.take(handle) };
        }
    }
}

/// Builds a cell of 10,000 objects of 64 bytes.
pub(crate) fn cell<M: Maker>(context: &Context) -> Box<dyn Cell> {
    let particles = Particles::new(M::make::<Particle>(usize::from(ALIVE)), context.seed);
    StateCell::boxed(1, particles, |particles, units| each(units, || particles.frame()))
}
