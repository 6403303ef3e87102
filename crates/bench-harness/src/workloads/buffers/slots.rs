//! S3, slots: a fixed number of buffers held, a random one dropped for a new one of another length. Buffers end in no order,
//! which is what a ring of them cannot serve: what it refuses comes from the heap, and the table says how much.

use super::{Payload, verify};
use crate::buffers::{Demand, OrHeap, Source, give};
use crate::workloads::{Cell, Context, rng};

/// Buffers held.
pub const SLOTS: u16 = 1024;
/// The shortest and the longest.
const LENGTHS: (u16, u16) = (4, 32_768);
/// Lengths in the table. No multiple of [`PLACES`], so that place and length do not come round together.
const TABLE: usize = 8000;
/// Places in the table.
const PLACES: usize = 4096;

/// What comes next, and where.
#[derive(Debug)]
struct Order {
    lengths: Box<[u16; TABLE]>,
    places: Box<[u16; PLACES]>,
    next: u64,
}

impl Order {
    fn new(seed: u64) -> Self {
        let (low, high) = LENGTHS;
        Self { lengths: rng::inverse_square(seed, low, high), places: rng::places(seed, SLOTS), next: 0 }
    }

    /// The tag, the place and the length of the next buffer: all places in turn first, then as the table has it.
    #[inline(always)]
    fn step(&mut self) -> (u64, usize, usize) {
        let tag = self.next;
        self.next += 1;
        let place = if tag < u64::from(SLOTS) { tag as u16 } else { self.places[tag as usize % PLACES] };
        (tag, usize::from(place), self.length(tag))
    }

    #[inline(always)]
    fn length(&self, tag: u64) -> usize {
        usize::from(self.lengths[tag as usize % TABLE])
    }

    /// Most bytes held at a time, with the new buffer beside the one that it comes for.
    fn most(seed: u64) -> usize {
        let mut order = Self::new(seed);
        let mut held = [0; SLOTS as usize];
        let (mut bytes, mut most) = (0, 0);
        // Until place and length come round together, and the slots once more.
        for _ in 0..TABLE * PLACES / 64 + usize::from(SLOTS) {
            let (_, place, length) = order.step();
            most = most.max(bytes + length);
            bytes += length;
            bytes -= core::mem::replace(&mut held[place], length);
        }
        most
    }
}

/// The buffers held.
#[derive(Debug)]
pub struct Slots<B> {
    /// A buffer and its tag.
    held: Vec<Option<(OrHeap<B>, u64)>>,
    order: Order,
    payload: Payload,
}

/// Replaces the buffer in a slot chosen beforehand, `ops` times.
///
/// # Safety
///
/// The source was told how much is held.
#[inline(never)]
pub unsafe fn replace<S: Source>(source: &mut S, state: &mut Slots<S::Buf>, ops: u64) -> u64 {
    let mut sum = 0;
    for _ in 0..ops {
        let (tag, place, length) = state.order.step();
        if let Some((old, its)) = state.held[place].take() {
            verify::<S>(&old, state.payload.piece(its, state.order.length(its)), &mut sum);
            give(old);
        }
        // SAFETY: by the caller's duty no more is held than was demanded; all of it ends on this thread.
        let new = unsafe { source.filled([state.payload.piece(tag, length)]) };
        state.held[place] = Some((new, tag));
    }
    sum
}

struct Replace<S: Source> {
    // Before the source, which the buffers are of.
    state: Slots<S::Buf>,
    source: S,
}

impl<S: Source> Cell for Replace<S> {
    fn run(&mut self, units: u64) -> u64 {
        // SAFETY: the source was made for what the order holds at most.
        unsafe { replace(&mut self.source, &mut self.state, units) }
    }

    fn refused(&self) -> u64 {
        self.source.refused()
    }
}

/// A cell of 1,024 buffers, all slots filled.
pub fn cell<S: Source>(context: &Context) -> Box<dyn Cell> {
    let largest = usize::from(LENGTHS.1);
    let bytes = Order::most(context.seed);
    let source = S::create(&Demand { largest, buffers: usize::from(SLOTS) + 1, bytes });
    let state = Slots {
        held: (0..SLOTS).map(|_| None).collect(),
        order: Order::new(context.seed),
        payload: Payload::new(context.seed, largest),
    };
    let mut cell = Replace { state, source };
    cell.run(u64::from(SLOTS));
    Box::new(cell)
}
