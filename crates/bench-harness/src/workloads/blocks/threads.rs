//! S9, threads that come and go. Each thread replaces random blocks in an array and ends. A new
//! thread gets the array and frees the blocks that the previous thread allocated.
//!
//! A new thread starts on its parent's processor. If the host has a second processor, every second
//! thread then moves there. All threads wait until the last one has moved, because otherwise the
//! first could end before the second starts. The time includes the thread starts and this wait.

use std::sync::Arc;

use super::BlockStock;
use crate::blocks::Contender;
use crate::workloads::crew::{Meeting, Travelling, spawn};
use crate::workloads::slots::{SizeSpread, Slots};
use crate::workloads::stock::LiveItems;
use crate::workloads::{Cell, Context, StateCell, each, mix};

/// The number of blocks that a thread leaves to the next one.
pub(crate) const BLOCKS: u16 = 5000;
/// The number of replacements in the life of a thread.
pub(crate) const LIFE: u64 = 10 * BLOCKS as u64;

/// An array of blocks that one thread sends to another.
type Array = Travelling<Slots<*mut u8>>;

struct BlockGenerations<C: Contender> {
    arrays: Vec<Array>,
    alloc: Travelling<Arc<C>>,
    second_cpu: Option<usize>,
}

impl<C: Contender> BlockGenerations<C> {
    /// Runs one thread for each array, all at the same time, and returns a checksum. The next call
    /// passes each array to a new thread.
    fn next(&mut self) -> u64 {
        let meeting = Arc::new(Meeting::new(self.arrays.len()));
        let start = |(index, array): (usize, Array)| {
            let theirs = Travelling(Arc::clone(&self.alloc.0));
            // Threads with an even index stay on this processor, and the others move to the second
            // one.
            let cpu = self.second_cpu.filter(|_| index % 2 == 1);
            let meeting = Arc::clone(&meeting);
            let work = move || {
                let (theirs, mut array) = (theirs, array);
                meeting.wait();
                // SAFETY: this contender filled all arrays.
                let sum = unsafe { array.0.work(&mut BlockStock(theirs.0), LIFE) };
                (array, sum)
            };
            spawn(cpu, Box::new(work))
        };
        let threads: Vec<_> = core::mem::take(&mut self.arrays).into_iter().enumerate().map(start).collect();
        let mut sum = 0;
        for thread in threads {
            let (array, its) = thread.join().expect("the thread ended well");
            self.arrays.push(array);
            sum = mix(sum, its);
        }
        sum
    }
}

impl<C: Contender> Drop for BlockGenerations<C> {
    fn drop(&mut self) {
        for array in self.arrays.drain(..) {
            // SAFETY: this contender filled all arrays.
            unsafe { array.0.clear(&mut BlockStock(Arc::clone(&self.alloc.0))) };
        }
    }
}

/// Builds a cell of `threads` threads at a time.
pub(crate) fn cell<C: Contender>(threads: usize, context: &Context) -> Box<dyn Cell> {
    let alloc = Travelling(Arc::new(C::create()));
    let fill = |thread| {
        let seed = context.seed + thread;
        let mut stock = BlockStock(Arc::clone(&alloc.0));
        Travelling(Slots::fill(&mut stock, seed, BLOCKS, SizeSpread::Uniform(8, 1000), 0))
    };
    let arrays = (0..threads as u64).map(fill).collect();
    let state = BlockGenerations { arrays, alloc, second_cpu: context.second_cpu };
    // The time per operation is the time of a replacement on one thread while the other threads do
    // the same.
    StateCell::boxed(LIFE as usize, state, |state, units| each(units, || state.next()))
}
