//! Defines errands: work that the suite asks a subject to do on another thread.
//!
//! A thread that is sent to free blocks frees the later half of them during thread exit. It does so
//! from a thread-local destructor that was registered before the thread first used the allocator.

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

/// The kinds of errand.
#[derive(Debug)]
enum Work {
    /// Checks these blocks and frees them.
    Free(Vec<Block>),
    /// Allocates a block with this layout and returns it.
    Allocate(Layout),
    /// Several threads allocate, send blocks to each other, check and free them, all at the same
    /// time.
    Exchange { seed: u64 },
}

/// Work for a subject to do on another thread, or on the calling thread if the allocator cannot be
/// shared.
#[derive(Debug)]
pub struct Errand(Work);

/// The result of an errand.
#[derive(Debug)]
pub struct Done {
    /// The thread that ran the errand.
    pub(crate) thread: ThreadId,
    /// The first violation found in a block.
    pub(crate) outcome: Result<(), Violation>,
    /// The block that the errand allocated, or the refusal. For an errand that does not allocate,
    /// this is an error without meaning.
    pub(crate) given: Result<Given, AllocError>,
}

/// A new block on its way between threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given(pub(crate) NonNull<[u8]>);

// SAFETY: no other code has the block yet. Only `run_elsewhere` sends it to another thread, and
// requires there that the allocator is `Sync`.
unsafe impl Send for Given {}

impl Errand {
    /// Creates an errand that checks `blocks` and frees them in order.
    ///
    /// # Safety
    ///
    /// The allocator that the errand runs with allocated all of them, or is equivalent to the one
    /// that did.
    pub(crate) unsafe fn free(blocks: Vec<Block>) -> Self {
        Self(Work::Free(blocks))
    }

    pub(crate) const fn allocate(layout: Layout) -> Self {
        Self(Work::Allocate(layout))
    }

    pub(crate) const fn exchange(seed: u64) -> Self {
        Self(Work::Exchange { seed })
    }

    /// Runs the errand on the calling thread.
    #[must_use]
    pub fn run_here<A: Allocator>(self, alloc: &A) -> Done {
        let mut given = Err(AllocError);
        let outcome = match self.0 {
            Work::Free(blocks) => blocks.into_iter().try_for_each(|block| {
                block.check()?;
                // SAFETY: the caller of `Errand::free` guaranteed that this allocator allocated the
                // blocks.
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
        Done { thread: thread::current().id(), outcome, given }
    }

    /// Runs the errand on one or more new threads, and joins them.
    ///
    /// # Panics
    ///
    /// Panics if one of those threads panics.
    #[must_use]
    pub fn run_elsewhere<A: Allocator + Sync>(mut self, alloc: &A) -> Done {
        let late_outcome = Mutex::new(Ok(()));
        thread::scope(|scope| {
            let Work::Exchange { seed } = self.0 else {
                let errand = || {
                    if let Work::Free(blocks) = &mut self.0 {
                        let late = blocks.split_off(blocks.len() / 2);
                        // SAFETY: the thread is joined below, before `alloc` and `late_outcome` are
                        // dropped. The caller of `Errand::free` guaranteed that `alloc` allocated
                        // the blocks.
                        unsafe { free_at_exit(alloc, late, &late_outcome) };
                    }
                    self.run_here(alloc)
                };
                // Joins by the handle, which waits for the thread's destructors. Without the join,
                // `thread::scope` might return before they have run.
                let joined = scope.spawn(errand).join();
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
                        Done { thread: thread::current().id(), outcome, given: Err(AllocError) }
                    })
                })
                .collect();
            let all: Vec<Done> = threads
                .into_iter()
                .map(|handle| handle.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect();
            let thread = all[0].thread;
            Done {
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
    /// The allocator, whose type only `free` knows.
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
        // `free` is the function for its type.
        let outcome = unsafe { (self.free)(self.alloc, core::mem::take(&mut self.blocks)) };
        // SAFETY: the caller of `free_at_exit` guaranteed that the mutex outlives the thread.
        let slot = unsafe { &*self.outcome };
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
    }
}

/// Registers `blocks` to be checked and freed during the exit of the calling thread. The first
/// violation is stored in `outcome`.
///
/// # Safety
///
/// `alloc` and `outcome` outlive the calling thread, its destructors included. `alloc` allocated
/// the blocks.
unsafe fn free_at_exit<A: Allocator>(alloc: &A, blocks: Vec<Block>, outcome: &Mutex<Result<(), Violation>>) {
    /// Checks and frees `blocks`, with an allocator of type `A` at `alloc`.
    unsafe fn free<A: Allocator>(alloc: *const (), blocks: Vec<Block>) -> Result<(), Violation> {
        // SAFETY: `free_at_exit` made the pointer from a reference, which its caller guaranteed to
        // be valid until the thread has ended.
        let alloc = unsafe { &*alloc.cast::<A>() };
        blocks.into_iter().try_for_each(|block| {
            block.check()?;
            // SAFETY: the caller of `free_at_exit` guaranteed that this allocator allocated the
            // blocks.
            unsafe { block.free(alloc) };
            Ok(())
        })
    }
    let alloc = ptr::from_ref(alloc).cast::<()>();
    LATE.set(Some(Late { blocks, alloc, free: free::<A>, outcome: ptr::from_ref(outcome) }));
}

/// Runs one thread of an exchange: allocates, keeps some blocks, sends others to the next thread,
/// and frees its own and those it receives.
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
        // SAFETY: all threads of an exchange share one allocator, and each block has one owner at a
        // time.
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
    // This loop ends when the sending thread has dropped its sender.
    from.iter().try_for_each(free)
}
