//! S7, packets: a fixed number of buffers held, the oldest dropped before a new one of another length is taken and filled:
//! by one write into a buffer of that length, or by many into one that grows.

use rand::RngExt;

use super::{Payload, verify};
use crate::buffers::{Demand, OrHeap, Source, give};
use crate::workloads::draws::stream;
use crate::workloads::{Cell, Context};

/// Lengths in the table; a multiple of every number of buffers held.
const TABLE: usize = 4096;
/// Bytes of a write into a buffer that grows, and its first capacity.
const CHUNK: usize = 64;

/// The buffers held, and what the next ones are.
#[derive(Debug)]
pub struct Packets<B> {
    held: Vec<Option<OrHeap<B>>>,
    lengths: Vec<u32>,
    payload: Payload,
    next: u64,
}

impl<B> Packets<B> {
    /// Room for so many buffers, a power of two, of lengths uniform from 1 to `longest`.
    #[must_use]
    pub fn new(held: usize, longest: usize, seed: u64) -> Self {
        assert!(
            held.is_power_of_two() && held <= TABLE,
            "slots are masked, and lengths come round with them"
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

/// Replaces the oldest buffer, `ops` times.
#[inline(never)]
pub fn packets<S: Source, const CHUNKED: bool>(source: &mut S, state: &mut Packets<S::Buf>, ops: u64) -> u64 {
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
            // SAFETY: as many are held as was demanded, and they end in the order in which they came.
            unsafe { source.grown(piece, CHUNK) }
        } else {
            // SAFETY: as above.
            unsafe { source.filled([piece]) }
        });
    }
    state.next += ops;
    sum
}

struct PacketRing<S: Source, const CHUNKED: bool> {
    state: Packets<S::Buf>,
    source: S,
}

impl<S: Source, const CHUNKED: bool> Cell for PacketRing<S, CHUNKED> {
    fn run(&mut self, units: u64) -> u64 {
        packets::<S, CHUNKED>(&mut self.source, &mut self.state, units)
    }

    fn refused(&self) -> u64 {
        self.source.refused()
    }
}

/// A cell that holds so many buffers of up to `longest` bytes, filled at once or by `CHUNKED` writes; all slots filled.
pub fn cell<S: Source, const CHUNKED: bool>(held: usize, longest: usize, context: &Context) -> Box<dyn Cell> {
    let mut source = S::create(&Demand::of(held, longest));
    let mut state = Packets::new(held, longest, context.seed);
    packets::<S, CHUNKED>(&mut source, &mut state, held as u64);
    Box::new(PacketRing::<S, CHUNKED> { state, source })
}
