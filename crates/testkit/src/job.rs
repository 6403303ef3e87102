//! Defines jobs: work that the suite asks a subject to do on another thread.
//!
//! A new thread that frees the blocks of a job leaves the second half of these blocks to the
//! destructor of a thread-local value, which runs during thread exit. The thread registers this
//! destructor before it first uses the allocator.

use alloc::vec::Vec;
use core::alloc::Layout;
use core::cell::RefCell;
use core::ptr::{self, NonNull};
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use allocator_api2::alloc::{AllocError, Allocator};

use crate::block::Block;
use crate::config::{EXCHANGE_ROUNDS, EXCHANGE_THREADS};
use crate::rng::SplitMix;
use crate::violation::Violation;

#[derive(Debug)]
enum Work {
    /// Checks these blocks and frees them.
    Free(Vec<Block>),
    /// Allocates a block with this layout and returns it.
    Allocate(Layout),
    /// Lets several threads allocate blocks, send them to each other, check them and free them, all
    /// at the same time.
    Exchange { seed: u64 },
}

/// Work for a subject to do on another thread, or on the calling thread if the allocator cannot be
/// shared.
#[derive(Debug)]
pub struct ThreadJob(Work);

/// The result of a job.
#[derive(Debug)]
pub struct JobResult {
    /// The thread that ran the job, or the first one of several.
    pub(crate) thread: ThreadId,
    /// The first violation found in a block, if any.
    pub(crate) outcome: Result<(), Violation>,
    /// The block that [`Work::Allocate`] allocated, or an error if the allocator refused. For other
    /// jobs, always an error.
    pub(crate) given: Result<Given, AllocError>,
}

/// A new block that one thread sends to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given(pub(crate) NonNull<[u8]>);

// SAFETY: no other code has access to the block yet. Only `run_elsewhere` sends a `Given` to
// another thread, and that function requires a `Sync` allocator.
unsafe impl Send for Given {}

impl ThreadJob {
    /// Creates a job that checks `blocks` and frees them in order.
    ///
    /// # Safety
    ///
    /// The allocator with which the job runs, or an equivalent one, allocated all blocks.
    pub(crate) unsafe fn free(blocks: Vec<Block>) -> Self {
        Self(Work::Free(blocks))
    }

    pub(crate) const fn allocate(layout: Layout) -> Self {
        Self(Work::Allocate(layout))
    }

    pub(crate) const fn exchange(seed: u64) -> Self {
        Self(Work::Exchange { seed })
    }

    /// Runs the job on the calling thread.
    #[must_use]
    pub fn run_here<A: Allocator>(self, alloc: &A) -> JobResult {
        let mut given = Err(AllocError);
        let outcome = match self.0 {
            Work::Free(blocks) => blocks.into_iter().try_for_each(|block| {
                block.check()?;
                // SAFETY: the caller of `ThreadJob::free` guaranteed that this allocator or an
                // equivalent one allocated the blocks.
                unsafe { block.free(alloc) };
                Ok(())
            }),
            Work::Allocate(layout) => {
                given = alloc.allocate(layout).map(Given);
                Ok(())
            }
            Work::Exchange { seed } => {
                let (to, from) = channel();
                trade(alloc, seed, to, &from)
            }
        };
        JobResult { thread: thread::current().id(), outcome, given }
    }

    /// Runs the job on one or more new threads, and joins them.
    ///
    /// # Panics
    ///
    /// Panics if one of those threads panics.
    #[must_use]
    pub fn run_elsewhere<A: Allocator + Sync>(mut self, alloc: &A) -> JobResult {
        let late_outcome = Mutex::new(Ok(()));
        thread::scope(|scope| {
            let Work::Exchange { seed } = self.0 else {
                let job = || {
                    if let Work::Free(blocks) = &mut self.0 {
                        let late = blocks.split_off(blocks.len() / 2);
                        // SAFETY: the thread is joined below, before `alloc` and `late_outcome` are
                        // dropped. The caller of `ThreadJob::free` guaranteed that `alloc` or an
                        // equivalent allocator allocated the blocks.
                        unsafe { free_at_exit(alloc, late, &late_outcome) };
                    }
                    self.run_here(alloc)
                };
                // `join` waits until the thread's destructors have run. Without the call,
                // `thread::scope` might return before that.
                let joined = scope.spawn(job).join();
                let mut done = joined.unwrap_or_else(|panic| resume_unwind(panic));
                let late_outcome = *late_outcome.lock().unwrap_or_else(PoisonError::into_inner);
                done.outcome = done.outcome.and(late_outcome);
                return done;
            };
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..EXCHANGE_THREADS).map(|_| channel()).unzip();
            let mut neighbours = senders;
            neighbours.rotate_left(1);
            let threads: Vec<_> = (0_u64..)
                .zip(neighbours.into_iter().zip(receivers))
                .map(|(index, (to, from))| {
                    scope.spawn(move || {
                        let outcome = trade(alloc, seed.wrapping_add(index), to, &from);
                        JobResult { thread: thread::current().id(), outcome, given: Err(AllocError) }
                    })
                })
                .collect();
            let all: Vec<JobResult> = threads
                .into_iter()
                .map(|handle| handle.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect();
            let thread = all[0].thread;
            JobResult {
                thread,
                outcome: all.into_iter().try_for_each(|done| done.outcome),
                given: Err(AllocError),
            }
        })
    }
}

/// Blocks to free during thread exit.
struct Late {
    blocks: Vec<Block>,
    /// A pointer to the allocator, whose type only `free` knows.
    alloc: *const (),
    free: unsafe fn(*const (), Vec<Block>) -> Result<(), Violation>,
    outcome: *const Mutex<Result<(), Violation>>,
}

thread_local! {
    static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
}

impl Drop for Late {
    fn drop(&mut self) {
        // SAFETY: the caller of `free_at_exit` guaranteed that the allocator outlives the thread.
        // `free` was instantiated for the type of the allocator.
        let outcome = unsafe { (self.free)(self.alloc, core::mem::take(&mut self.blocks)) };
        // SAFETY: the caller of `free_at_exit` guaranteed that the mutex outlives the thread.
        let slot = unsafe { &*self.outcome };
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
    }
}

/// Registers `blocks` to be checked and freed during the exit of the calling thread. A thread-local
/// destructor then stores the result of the checks in `outcome`.
///
/// # Safety
///
/// `alloc` and `outcome` outlive the calling thread, its destructors included. `alloc` or an
/// equivalent allocator allocated the blocks.
unsafe fn free_at_exit<A: Allocator>(alloc: &A, blocks: Vec<Block>, outcome: &Mutex<Result<(), Violation>>) {
    /// Checks and frees `blocks`. `alloc` points to their allocator, of type `A`.
    unsafe fn free<A: Allocator>(alloc: *const (), blocks: Vec<Block>) -> Result<(), Violation> {
        // SAFETY: `free_at_exit` made the pointer from a reference that is valid until the thread
        // has ended, as its caller guaranteed.
        let alloc = unsafe { &*alloc.cast::<A>() };
        blocks.into_iter().try_for_each(|block| {
            block.check()?;
            // SAFETY: the caller of `free_at_exit` guaranteed that this allocator or an equivalent
            // one allocated the blocks.
            unsafe { block.free(alloc) };
            Ok(())
        })
    }
    let alloc = ptr::from_ref(alloc).cast::<()>();
    LATE.set(Some(Late { blocks, alloc, free: free::<A>, outcome: ptr::from_ref(outcome) }));
}

/// Runs one thread of an exchange: allocates blocks, keeps some, sends the others to the next
/// thread, and frees the blocks that it keeps or receives.
fn trade<A: Allocator>(
    alloc: &A,
    seed: u64,
    to: Sender<Block>,
    from: &Receiver<Block>,
) -> Result<(), Violation> {
    let mut rng = SplitMix::new(seed);
    let mut kept = Vec::new();
    let free = |block: Block| {
        block.check()?;
        // SAFETY: this allocator, which all threads of the exchange share, allocated the block.
        unsafe { block.free(alloc) };
        Ok(())
    };
    for _ in 0..EXCHANGE_ROUNDS {
        let largest = if rng.below(8) == 0 { 3_000 } else { 200 };
        let size = rng.below(largest);
        let align = 1 << rng.below(7);
        let layout = Layout::from_size_align(size, align).expect("small sizes and powers of two");
        if let Ok(given) = alloc.allocate(layout) {
            let seed = (rng.draw() >> 56) as u8;
            // SAFETY: the allocator has just allocated the block with this layout.
            let block = unsafe { Block::fill(given.cast(), layout, seed) };
            if rng.below(2) == 0 {
                kept.push(block);
            } else if let Err(refused) = to.send(block) {
                // The receiving thread found a violation and has ended.
                free(refused.0)?;
            }
        }
        if rng.below(2) == 0 && !kept.is_empty() {
            free(kept.swap_remove(rng.below(kept.len())))?;
        }
        from.try_iter().take(2).try_for_each(free)?;
    }
    drop(to);
    kept.into_iter().try_for_each(free)?;
    // The iteration ends when the previous thread has dropped its sender.
    from.iter().try_for_each(free)
}
