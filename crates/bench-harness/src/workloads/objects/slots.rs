//! S3, slots: a fixed number of objects alive, a random one replaced at a time.

use core::marker::PhantomData;

use super::verify;
use crate::objects::{Maker, Object, Pool, Words};
use crate::workloads::{Cell, Context, rng};

/// Objects alive.
pub const SLOTS: u16 = 1024;
/// Places in the table.
const PLACES: usize = 4096;

/// The objects alive, and the table that says which is replaced.
#[derive(Debug)]
pub struct Slots<H> {
    slots: Vec<Option<(H, u64)>>,
    places: Box<[u16; PLACES]>,
    at: usize,
}

impl<H: 'static> Slots<H> {
    /// Fills all slots.
    pub fn fill<T: Object, P: Pool<T, Handle = H>>(pool: &P, seed: u64) -> Self {
        let slots = (0..u64::from(SLOTS)).map(|tag| Some((pool.put(T::new(tag)), tag))).collect();
        Self { slots, places: rng::places(seed, SLOTS), at: 0 }
    }

    /// Drops all objects.
    ///
    /// # Safety
    ///
    /// `pool` is the one that filled the slots.
    pub unsafe fn clear<T: Object, P: Pool<T, Handle = H>>(self, pool: &P) {
        for (handle, _) in self.slots.into_iter().flatten() {
            // SAFETY: the handle is this pool's.
            unsafe { pool.take(handle) };
        }
    }
}

/// Replaces the object in a slot chosen beforehand, `ops` times.
///
/// # Safety
///
/// `pool` is the one that filled the slots.
#[inline(never)]
pub unsafe fn replace<T: Object, P: Pool<T>>(pool: &P, state: &mut Slots<P::Handle>, ops: u64) -> u64 {
    let mut sum = 0;
    let mut at = state.at;
    for i in 0..ops {
        let place = usize::from(state.places[at]);
        at = (at + 1) % PLACES;
        let slot = &mut state.slots[place];
        if let Some((handle, tag)) = slot.take() {
            // SAFETY: made with this tag by this pool.
            unsafe { verify::<T, P>(pool, &handle, tag, &mut sum) };
            // SAFETY: the handle is this pool's.
            unsafe { pool.take(handle) };
        }
        *slot = Some((pool.put(T::new(i)), i));
    }
    state.at = at;
    sum
}

struct Replace<T: Object, P: Pool<T>> {
    state: Option<Slots<P::Handle>>,
    pool: P,
    objects: PhantomData<T>,
}

impl<T: Object, P: Pool<T>> Cell for Replace<T, P> {
    fn run(&mut self, units: u64) -> u64 {
        let Some(state) = &mut self.state else { return 0 };
        // SAFETY: the cell's own pool filled the slots.
        unsafe { replace::<T, P>(&self.pool, state, units) }
    }
}

impl<T: Object, P: Pool<T>> Drop for Replace<T, P> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            // SAFETY: the cell's own pool filled the slots.
            unsafe { state.clear::<T, P>(&self.pool) };
        }
    }
}

/// A cell of 1,024 objects of 64 bytes.
pub fn cell<M: Maker>(context: &Context) -> Box<dyn Cell> {
    type T = Words<8>;
    let pool = M::make_for::<T>(usize::from(SLOTS));
    let state = Some(Slots::fill::<T, _>(&pool, context.seed));
    Box::new(Replace { state, pool, objects: PhantomData::<T> })
}
