//! S3, slots: a fixed number of live blocks, a random one replaced at a time. Lifetimes mix, so nothing leaves in order.

use core::ptr::null_mut;

use super::{layout, touch, verify};
use crate::blocks::{Contender, RawAlloc};
use crate::workloads::{Cell, Context, rng};

/// Sizes in the table. No multiple of [`PLACES`], so that place and size do not come round together.
const SIZES: usize = 8000;
/// Places in the table.
const PLACES: usize = 4096;

/// How the sizes of the blocks are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All the same.
    Fixed(u16),
    /// Uniform from the first to the second.
    Uniform(u16, u16),
    /// Falling with the square of the size, from the first to the second.
    InverseSquare(u16, u16),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    block: *mut u8,
    size: u16,
    tag: u8,
}

/// The live blocks, and the tables that say what is replaced by what.
#[derive(Debug)]
pub struct Slots {
    slots: Box<[Slot]>,
    sizes: Box<[u16; SIZES]>,
    places: Box<[u16; PLACES]>,
    size_at: usize,
    place_at: usize,
}

impl Slots {
    /// Fills `count` slots.
    pub fn fill<R: RawAlloc + Copy>(alloc: R, seed: u64, count: u16, spread: Spread) -> Self {
        let sizes = match spread {
            Spread::Fixed(size) => Box::new([size; SIZES]),
            Spread::Uniform(low, high) => rng::uniform(seed, low, high),
            Spread::InverseSquare(low, high) => rng::inverse_square(seed, low, high),
        };
        let mut slots = vec![Slot { block: null_mut(), size: 0, tag: 0 }; usize::from(count)];
        for (i, slot) in slots.iter_mut().enumerate() {
            let size = sizes[SIZES - 1 - i % SIZES];
            // SAFETY: no spread of this workload holds a zero.
            let block = unsafe { alloc.alloc(layout(usize::from(size), 8)) };
            // SAFETY: the block is that long and the slot's own.
            unsafe { touch(block, usize::from(size), i as u8) };
            *slot = Slot { block, size, tag: i as u8 };
        }
        let places = rng::places(seed, count);
        Self { slots: slots.into(), sizes, places, size_at: 0, place_at: 0 }
    }

    /// Frees all blocks.
    ///
    /// # Safety
    ///
    /// `alloc` is the allocator of [`fill`](Self::fill) and [`replace`].
    pub unsafe fn clear<R: RawAlloc + Copy>(self, alloc: R) {
        for slot in &self.slots {
            // SAFETY: the block is live, came from this allocator for this layout, and the slots end here.
            unsafe { alloc.dealloc(slot.block, layout(usize::from(slot.size), 8)) };
        }
    }
}

/// Replaces the block in a slot chosen beforehand, `ops` times.
///
/// # Safety
///
/// `alloc` is the allocator that filled the slots.
#[inline(never)]
pub unsafe fn replace<R: RawAlloc + Copy>(alloc: R, state: &mut Slots, ops: u64) -> u64 {
    let slots = &mut *state.slots;
    let (sizes, places) = (&*state.sizes, &*state.places);
    let (mut size_at, mut place_at) = (state.size_at, state.place_at);
    let mut sum = 0;
    for i in 0..ops {
        let place = usize::from(places[place_at]);
        // SAFETY: places are below the number of slots by the way the table is made.
        let slot = unsafe { slots.get_unchecked_mut(place) };
        let old = usize::from(slot.size);
        // SAFETY: the block in a slot was touched with its tag when it came.
        unsafe { verify::<R>(slot.block, old, slot.tag, &mut sum) };
        // SAFETY: it came from this allocator for this layout, and the slot is overwritten below.
        unsafe { alloc.dealloc(slot.block, layout(old, 8)) };
        let size = sizes[size_at];
        // SAFETY: no spread of this workload holds a zero.
        let block = unsafe { alloc.alloc(layout(usize::from(size), 8)) };
        // SAFETY: the block is that long and the slot's own.
        unsafe { touch(block, usize::from(size), i as u8) };
        *slot = Slot { block, size, tag: i as u8 };
        place_at = (place_at + 1) % PLACES;
        size_at = if size_at + 1 == SIZES { 0 } else { size_at + 1 };
    }
    (state.size_at, state.place_at) = (size_at, place_at);
    sum
}

struct Replace<C: Contender> {
    state: Option<Slots>,
    alloc: C,
}

impl<C: Contender> Cell for Replace<C> {
    fn run(&mut self, units: u64) -> u64 {
        let Some(state) = &mut self.state else { return 0 };
        // SAFETY: the cell's own allocator filled the slots.
        unsafe { replace(self.alloc.by_ref(), state, units) }
    }
}

impl<C: Contender> Drop for Replace<C> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            // SAFETY: the cell's own allocator filled the slots.
            unsafe { state.clear(self.alloc.by_ref()) };
        }
    }
}

/// A cell of `count` slots.
pub fn cell<C: Contender>(count: u16, spread: Spread, context: &Context) -> Box<dyn Cell> {
    let alloc = C::create();
    let state = Some(Slots::fill(alloc.by_ref(), context.seed, count, spread));
    Box::new(Replace { state, alloc })
}
