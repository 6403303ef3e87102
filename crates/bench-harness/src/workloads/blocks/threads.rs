//! S9, threads that come and go: each replaces blocks at random in an array of its own, ends, and leaves the array to a new
//! thread, which goes on freeing what the one before allocated.
//!
//! A new thread starts on the processor of the one that made it, and moves; so all wait until the last is where it belongs, else the
//! first would be through before the second began. What starting and meeting take is in the time.

use std::sync::Arc;

use super::BlockStock;
use crate::blocks::Contender;
use crate::os;
use crate::workloads::crew::{AcrossThreads, Meeting};
use crate::workloads::slots::{SizeSpread, Slots, replace};
use crate::workloads::{Cell, Context, mix};

/// Blocks that a thread leaves to the next one.
pub const BLOCKS: u16 = 5000;
/// Replacements of a thread's life.
pub const LIFE: u64 = 10 * BLOCKS as u64;

/// An array on its way to a thread.
struct Array(Slots<*mut u8>);

// SAFETY: cells of this workload are built for contenders alone that free on any thread; the blocks are the array's own.
unsafe impl Send for Array {}

struct BlockGenerations<C: Contender> {
    arrays: Vec<Array>,
    alloc: AcrossThreads<C>,
    second_cpu: Option<usize>,
}

impl<C: Contender> BlockGenerations<C> {
    /// A thread for each array, all at once; they leave the arrays to the next.
    fn next(&mut self) -> u64 {
        let meeting = Arc::new(Meeting::new(self.arrays.len()));
        let start = |(index, array): (usize, Array)| {
            let theirs = AcrossThreads(Arc::clone(&self.alloc.0));
            // The first stays where this thread is, the second goes elsewhere, and so on.
            let cpu = self.second_cpu.filter(|_| index % 2 == 1);
            let meeting = Arc::clone(&meeting);
            std::thread::spawn(move || {
                if let Some(cpu) = cpu {
                    os::pin(cpu);
                }
                let (theirs, mut array) = (theirs, array);
                meeting.wait(0);
                // SAFETY: all arrays were filled by this contender.
                let sum = unsafe { replace(&mut BlockStock(theirs), &mut array.0, LIFE) };
                (array, sum)
            })
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

impl<C: Contender> Cell for BlockGenerations<C> {
    fn run(&mut self, units: u64) -> u64 {
        (0..units).fold(0, |sum, _| mix(sum, self.next()))
    }

    /// Of one thread: what a replacement costs it while the others do the same.
    fn ops_per_unit(&self) -> u64 {
        LIFE
    }
}

impl<C: Contender> Drop for BlockGenerations<C> {
    fn drop(&mut self) {
        for array in self.arrays.drain(..) {
            // SAFETY: all arrays were filled by this contender.
            unsafe { array.0.clear(&mut BlockStock(self.alloc.clone())) };
        }
    }
}

/// A cell of so many threads at a time.
pub fn cell<C: Contender>(threads: usize, context: &Context) -> Box<dyn Cell> {
    let alloc = AcrossThreads(Arc::new(C::create()));
    let fill = |thread| {
        let seed = context.seed + thread;
        let mut stock = BlockStock(alloc.clone());
        Array(Slots::fill(&mut stock, seed, BLOCKS, SizeSpread::Uniform(8, 1000), 0))
    };
    let arrays = (0..threads as u64).map(fill).collect();
    Box::new(BlockGenerations { arrays, alloc, second_cpu: context.second_cpu })
}
