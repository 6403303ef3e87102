//! S7, packets: a fixed number of live buffers. Each step drops the oldest buffer, then takes a new
//! one of a different length and fills it. One write fills a buffer of a fixed capacity, and many
//! writes fill a buffer that grows.

use rand::RngExt;

use super::{Payload, verify};
use crate::buffers::{Demand, OrHeap, Source, give};
use crate::workloads::draws::stream;
use crate::workloads::{Cell, Context, StateCell};

/// The number of lengths in the table, a multiple of every number of live buffers.
const TABLE: usize = 4096;
/// The length of a write into a buffer that grows, and the first capacity of the buffer, in bytes.
const CHUNK: usize = 64;

/// The live buffers, and the lengths of the next buffers.
struct Packets<B> {
    held: Vec<Option<OrHeap<B>>>,
    lengths: Vec<u32>,
    payload: Payload,
    next: u64,
}

impl<B> Packets<B> {
    /// Creates the state of a cell of `held` buffers, a power of two. Draws the lengths uniformly
    /// from 1 to `longest` bytes.
    fn new(held: usize, longest: usize, seed: u64) -> Self {
        assert!(
            held.is_power_of_two() && held <= TABLE,
            "indices are masked, so the table of lengths repeats with the slots"
        );
        let mut rng = stream(seed, 22);
        Self {
            held: (0..held).map(|_| None).collect(),
            lengths: (0..TABLE).map(|_| 1 + rng.random_range(0..longest as u64) as u32).collect(),
            payload: Payload::new(seed, longest),
            next: 0,
        }
    }

    fn length(&self, index: u64) -> usize {
        self.lengths[index as usize & (TABLE - 1)] as usize
    }
}

/// Replaces the oldest buffer, `ops` times. Returns a checksum, which is 0 in a timed run.
#[inline(never)]
fn packets<S: Source, const CHUNKED: bool>(source: &mut S, state: &mut Packets<S::Buf>, ops: u64) -> u64 {
    let mut sum = 0;
    let held = state.held.len();
    for index in state.next..state.next + ops {
        let place = index as usize & (held - 1);
        if let Some(old) = state.held[place].take() {
            let tag = index - held as u64;
            verify::<S>(&old, state.payload.piece(tag, state.length(tag)), &mut sum);
            give(old);
        }
        let length = state.length(index);
        let piece = state.payload.piece(index, length);
        state.held[place] = Some(if CHUNKED {
            // SAFETY: the live buffers never exceed the demand of `create`, and they are dropped in
            // the order in which they were taken.
            unsafe { source.grown(piece, CHUNK) }
        } else {
            // SAFETY: the live buffers never exceed the demand of `create`, and they are dropped in
            // the order in which they were taken.
            unsafe { source.filled([piece]) }
        });
    }
    state.next += ops;
    sum
}

/// Builds a cell of `held` buffers of up to `longest` bytes. A buffer is filled by many writes if
/// `CHUNKED` is `true`, and by one otherwise. The cell starts with all slots filled.
pub(crate) fn cell<S: Source, const CHUNKED: bool>(
    held: usize,
    longest: usize,
    context: &Context,
) -> Box<dyn Cell> {
    let mut source = S::create(&Demand::of(held, longest));
    let mut state = Packets::new(held, longest, context.seed);
    packets::<S, CHUNKED>(&mut source, &mut state, held as u64);
    let run = |(state, source): &mut (_, S), units| packets::<S, CHUNKED>(source, state, units);
    // The drop of a ring may wait for its buffers, so they are dropped before their source.
    StateCell::boxed(1, (state, source), run)
}
