//! The workloads that run on a traced allocator. The function of each workload passes `in_turns` a
//! closure that prepares a thread and returns a second closure, which does one turn.

use std::sync::{Mutex, PoisonError};

use ephemera_coherence::catalogue::TracedWorkload;
use ephemera_coherence::marks::Phase;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use crate::baton::in_turns;
use crate::trace::within;
use crate::traced::{LARGEST, TracedAllocator, TracedRun};

/// The number of blocks that a thread allocates in a turn, except in `fan`.
const BATCH: u64 = 32;
/// The number of live blocks of a thread in `own`.
const WINDOW: usize = 64;
/// The number of live blocks of an array in `larson`.
const ARRAY: usize = 256;
/// The number of rounds after which an array moves to another thread.
const STAY: u64 = 4;
/// The number of blocks that `fan` allocates in a turn for each freeing thread.
const SHARE: u64 = 8;

/// For each thread, the items that were sent to it and that it has not freed yet. In `larson`, each
/// list is an array of live items. The lists have room for all of their items, so the program
/// itself does not allocate while the model counts.
struct ItemMail<I>(Vec<Mutex<Vec<I>>>);

impl<I> ItemMail<I> {
    fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Mutex::new(Vec::with_capacity(8 * 1024))).collect())
    }

    fn send(&self, to: usize, item: I) {
        self.0[to].lock().unwrap_or_else(PoisonError::into_inner).push(item);
    }

    /// Runs `work` on the list of the thread `of`, and returns the result.
    fn with<R>(&self, of: usize, work: impl FnOnce(&mut Vec<I>) -> R) -> R {
        work(&mut self.0[of].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The state of one thread: the contender, and the thread's heap, number and random numbers.
struct Core<'a, C: TracedAllocator> {
    contender: &'a C,
    heap: C::Heap,
    index: usize,
    rng: Xoshiro256PlusPlus,
}

impl<'a, C: TracedAllocator> Core<'a, C> {
    fn new(contender: &'a C, index: usize) -> Self {
        let heap = contender.heap();
        Self { contender, heap, index, rng: Xoshiro256PlusPlus::seed_from_u64(index as u64) }
    }

    /// Requests an item with a random size of 16 to 512 bytes, and fills it.
    fn make(&mut self) -> C::Item {
        let bytes = self.rng.random_range(16..=LARGEST);
        let mut item = within(Phase::Allocator, self.index, || self.contender.make(&mut self.heap, bytes));
        within(Phase::Use, self.index, || C::fill(&mut item));
        item
    }

    /// Reads an item and frees it.
    fn free(&self, item: C::Item) {
        within(Phase::Use, self.index, || C::look(&item));
        within(Phase::Allocator, self.index, || drop(item));
    }

    /// Replaces a random item. Returns 1, the number of operations.
    fn replace(&mut self, items: &mut [C::Item]) -> u64 {
        let slot = self.rng.random_range(0..items.len());
        let old = std::mem::replace(&mut items[slot], self.make());
        self.free(old);
        1
    }
}

pub(crate) fn run<C: TracedAllocator>(contender: &C, run: &TracedRun) {
    match run.workload {
        TracedWorkload::Own => own(contender, run),
        TracedWorkload::Ring => hand_over(contender, run, |core, threads| (core.index + 1) % threads),
        TracedWorkload::All => hand_over(contender, run, |core, threads| core.rng.random_range(0..threads)),
        TracedWorkload::Fan => fan(contender, run),
        _ => larson(contender, run),
    }
}

fn own<C: TracedAllocator>(contender: &C, run: &TracedRun) {
    in_turns(run, |index| {
        let mut core = Core::new(contender, index);
        let mut items: Vec<_> = (0..WINDOW).map(|_| core.make()).collect();
        move |_round| (0..BATCH).map(|_| core.replace(&mut items)).sum()
    });
}

/// In each turn, a thread frees the items that were sent to it. Then it sends a batch, each item to
/// the thread that `next` chooses.
fn hand_over<C: TracedAllocator>(
    contender: &C,
    run: &TracedRun,
    next: impl Fn(&mut Core<'_, C>, usize) -> usize + Sync,
) {
    let (mail, next, threads) = (&ItemMail::new(run.threads), &next, run.threads);
    in_turns(run, |index| {
        let mut core = Core::new(contender, index);
        move |_round| {
            mail.with(index, |items| items.drain(..).for_each(|item| core.free(item)));
            for _ in 0..BATCH {
                let to = next(&mut core, threads);
                let item = core.make();
                mail.send(to, item);
            }
            BATCH
        }
    });
}

fn fan<C: TracedAllocator>(contender: &C, run: &TracedRun) {
    let (mail, threads) = (&ItemMail::new(run.threads), run.threads);
    in_turns(run, |index| {
        let mut core = Core::new(contender, index);
        move |_round| {
            mail.with(index, |items| items.drain(..).for_each(|item| core.free(item)));
            if index > 0 {
                return 0;
            }
            // Neighbouring blocks go to different threads if there are at least two other threads.
            // If there is no other thread, this thread frees the blocks.
            let others = (threads - 1).max(1);
            for step in 0..SHARE as usize * others {
                let item = core.make();
                mail.send((1 + step % others) % threads, item);
            }
            SHARE * others as u64
        }
    });
}

fn larson<C: TracedAllocator>(contender: &C, run: &TracedRun) {
    let (arrays, threads) = (&ItemMail::new(run.threads), run.threads);
    in_turns(run, |index| {
        let mut core = Core::new(contender, index);
        for _ in 0..ARRAY {
            arrays.send(index, core.make());
        }
        move |round| {
            let array = (index + (round / STAY) as usize) % threads;
            arrays.with(array, |items| (0..BATCH).map(|_| core.replace(items)).sum())
        }
    });
}
