//! A second thread for workloads of two, with a job that is known from the start; and a cell that is there twice.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::{Cell, mix};
use crate::blocks::Contender;
use crate::card::Info;
use crate::os;

/// A pool known to several threads.
#[derive(Debug)]
pub(super) struct AcrossThreads<P>(pub(super) Arc<P>);

// SAFETY: cells with several threads are built for contenders whose card says that these may make or drop objects, each
// workload by its `Need`. The value itself is dropped after the others were joined.
unsafe impl<P> Send for AcrossThreads<P> {}

impl<P> Clone for AcrossThreads<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Contender> Contender for AcrossThreads<C> {
    const INFO: Info = C::INFO;
    type Metered = Self;
    type Backing = C::Backing;
    type Ref<'a> = C::Ref<'a>;

    fn create() -> Self {
        Self(Arc::new(C::create()))
    }

    #[inline(always)]
    fn by_ref(&self) -> C::Ref<'_> {
        self.0.by_ref()
    }
}

/// Handles on their way to another thread.
#[derive(Debug)]
pub(super) struct Travelling<H>(pub(super) Vec<H>);

// SAFETY: as for `AcrossThreads`: the card says that any thread may drop the objects.
unsafe impl<H> Send for Travelling<H> {}

/// Where threads meet before they start: by spinning, so that they start within a few nanoseconds.
#[derive(Debug)]
pub(super) struct Meeting {
    came: AtomicUsize,
    threads: usize,
}

impl Meeting {
    /// Of so many threads.
    pub(super) fn new(threads: usize) -> Self {
        Self { came: AtomicUsize::new(0), threads }
    }

    /// Returns once all have come for the `round`th time, counted from zero.
    pub(super) fn wait(&self, round: usize) {
        // ORDERING: what each did before the meeting, the others see behind it. Pairs with the load in `wait`.
        self.came.fetch_add(1, Ordering::AcqRel);
        let mut turns = 0_u32;
        // ORDERING: as above. Pairs with the addition in `wait`.
        while self.came.load(Ordering::Acquire) < self.threads * (round + 1) {
            core::hint::spin_loop();
            turns += 1;
            if turns.is_multiple_of(1 << 8) {
                // Where two share a processor, spinning alone would keep the other from coming.
                std::thread::yield_now();
            }
        }
    }
}

/// The second thread: does so many units when told, and answers with a checksum.
#[derive(Debug)]
pub(super) struct Mate {
    orders: Option<SyncSender<u64>>,
    answers: Receiver<u64>,
    thread: Option<JoinHandle<()>>,
}

impl Mate {
    /// Starts the thread. `prepare` runs on it and makes what does the work.
    pub(super) fn new<W: FnMut(u64) -> u64>(
        cpu: Option<usize>,
        prepare: impl FnOnce() -> W + Send + 'static,
    ) -> Self {
        let (orders, todo) = sync_channel::<u64>(1);
        let (done, answers) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            if let Some(cpu) = cpu {
                os::pin(cpu);
            }
            let mut work = prepare();
            while let Ok(units) = todo.recv() {
                if done.send(work(units)).is_err() {
                    return;
                }
            }
        });
        Self { orders: Some(orders), answers, thread: Some(thread) }
    }

    /// Tells the thread to do so many units.
    pub(super) fn order(&self, units: u64) {
        let orders = self.orders.as_ref().expect("the thread is there until the cell is dropped");
        orders.send(units).expect("the second thread ended early");
    }

    /// Waits for its answer.
    pub(super) fn answer(&self) -> u64 {
        self.answers.recv().expect("the second thread ended early")
    }
}

impl Drop for Mate {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// A cell twice at once, on this thread and on another one, which stays on this thread's processor: where each has a mate on the second
/// processor, there are more threads than processors.
#[derive(Debug)]
pub(super) struct Twice<C> {
    // Dropped first: what both share ends on this thread.
    there: Mate,
    here: C,
}

impl<C: Cell> Twice<C> {
    /// Makes one on either thread.
    pub(super) fn new(make: impl FnOnce() -> C + Clone + Send + 'static) -> Self {
        let theirs = make.clone();
        let there = Mate::new(None, move || {
            let mut cell = theirs();
            move |units| cell.run(units)
        });
        Self { there, here: make() }
    }
}

impl<C: Cell> Cell for Twice<C> {
    fn run(&mut self, units: u64) -> u64 {
        self.there.order(units);
        let sum = self.here.run(units);
        mix(sum, self.there.answer())
    }

    fn ops_per_unit(&self) -> u64 {
        2 * self.here.ops_per_unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_leaves_a_meeting_before_the_last_has_come() {
        const THREADS: usize = 3;
        let (meeting, came, early) = (Meeting::new(THREADS), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (meeting, came, early) = (&meeting, &came, &early);
                scope.spawn(move || {
                    for round in 0..20 {
                        if thread == round % THREADS {
                            // The last one, if the others wait for it.
                            std::thread::sleep(core::time::Duration::from_millis(1));
                        }
                        came.fetch_add(1, Ordering::Relaxed);
                        meeting.wait(round);
                        // Counted, since a thread that panicked here would let the others wait for ever.
                        let all = came.load(Ordering::Relaxed) >= THREADS * (round + 1);
                        early.fetch_add(usize::from(!all), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((came.into_inner(), early.into_inner()), (THREADS * 20, 0));
    }
}
