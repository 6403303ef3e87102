//! S6, straggler: a FIFO window of buffers in which a few live a hundred times longer. A ring comes round to them, and from
//! there on refuses until they are gone.

use std::collections::VecDeque;

use super::{Payload, verify};
use crate::buffers::{Demand, OrHeap, Source, give};
use crate::workloads::blocks::straggler::{LONGER, WINDOW, steady};
use crate::workloads::{Cell, Context, rng};

/// Lengths in the table.
const TABLE: usize = 4096;
/// The shortest and the longest.
const LENGTHS: (u16, u16) = (64, 1024);

/// The window, and the buffers that outlive it.
#[derive(Debug)]
pub struct Stragglers<B> {
    window: VecDeque<OrHeap<B>>,
    /// When they are due, and which they are.
    late: VecDeque<(u64, u64, OrHeap<B>)>,
    lengths: Box<[u16; TABLE]>,
    payload: Payload,
    /// One buffer in so many stays; zero for none.
    one_in: u64,
    next: u64,
}

impl<B> Stragglers<B> {
    /// An empty window.
    #[must_use]
    pub fn new(seed: u64, one_in: usize) -> Self {
        let (low, high) = LENGTHS;
        Self {
            window: VecDeque::with_capacity(WINDOW + 1),
            late: VecDeque::with_capacity(late(one_in)),
            lengths: rng::uniform(seed, low, high),
            payload: Payload::new(seed, usize::from(high)),
            one_in: one_in as u64,
            next: 0,
        }
    }

    fn piece(&self, tag: u64) -> &[u8] {
        self.payload.piece(tag, usize::from(self.lengths[tag as usize % TABLE]))
    }
}

/// Buffers that are late at a time, at most.
fn late(one_in: usize) -> usize {
    (WINDOW * LONGER).checked_div(one_in).map_or(0, |late| late + 2)
}

/// Moves the window on by `ops` buffers.
///
/// # Safety
///
/// The source was told how much is held.
#[inline(never)]
pub unsafe fn churn<S: Source>(source: &mut S, state: &mut Stragglers<S::Buf>, ops: u64) -> u64 {
    let mut sum = 0;
    for _ in 0..ops {
        let now = state.next;
        if state.window.len() == WINDOW
            && let Some(buffer) = state.window.pop_front()
        {
            let oldest = now - WINDOW as u64;
            if state.one_in != 0 && oldest % state.one_in == state.one_in - 1 {
                state.late.push_back((now + (WINDOW * (LONGER - 1)) as u64, oldest, buffer));
            } else {
                verify::<S>(&buffer, state.piece(oldest), &mut sum);
                give(buffer);
            }
        }
        if state.late.front().is_some_and(|late| late.0 <= now)
            && let Some((_, tag, buffer)) = state.late.pop_front()
        {
            verify::<S>(&buffer, state.piece(tag), &mut sum);
            give(buffer);
        }
        // SAFETY: by the caller's duty no more is held than was demanded; all of it ends on this thread.
        let new = unsafe { source.filled([state.piece(now)]) };
        state.window.push_back(new);
        state.next = now + 1;
    }
    sum
}

struct Straggle<S: Source> {
    // Before the source, which the buffers are of.
    state: Stragglers<S::Buf>,
    source: S,
}

impl<S: Source> Cell for Straggle<S> {
    fn run(&mut self, units: u64) -> u64 {
        // SAFETY: the source was made for a window and for what is late.
        unsafe { churn(&mut self.source, &mut self.state, units) }
    }

    fn refused(&self) -> u64 {
        self.source.refused()
    }
}

/// Buffers that [`cell`] takes before it returns.
#[must_use]
pub fn made_beforehand(one_in: usize) -> u64 {
    WINDOW as u64 + steady(one_in)
}

/// A cell in which one buffer in `one_in` is late (none for zero), brought to its steady state.
pub fn cell<S: Source>(one_in: usize, context: &Context) -> Box<dyn Cell> {
    let source = S::create(&Demand::of(WINDOW + 1 + late(one_in), usize::from(LENGTHS.1)));
    let mut cell = Straggle { state: Stragglers::new(context.seed, one_in), source };
    cell.run(made_beforehand(one_in));
    Box::new(cell)
}
