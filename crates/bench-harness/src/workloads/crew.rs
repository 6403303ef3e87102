//! The threads of workloads with several threads: a second thread, a barrier, and two copies of a
//! cell that run at the same time.

use core::any::Any;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crossbeam_utils::Backoff;

use super::{Cell, StateCell, mix};
use crate::os;

/// The panic message if the second thread ended too early.
pub(super) const GONE: &str = "the second thread ended early";

/// A contender that several threads share, or items that one thread sends to another.
#[derive(Clone)]
pub(super) struct Travelling<I>(pub(super) I);

// SAFETY: the `Need` of a cell with several threads admits only contenders whose card lets these
// threads make or drop items. A contender is dropped after the other threads have been joined.
unsafe impl<I> Send for Travelling<I> {}

/// The type of the messages that threads send each other. The compiler compiles the standard
/// library's channel for each type of message, and there are hundreds of item types. So a message
/// is a box, and only the two ends of its channel know what is in the box.
pub(super) type Parcel = Travelling<Box<dyn Any>>;

impl Parcel {
    /// Returns the message in the box, or panics if the message has another type.
    pub(super) fn open<I: 'static>(self) -> Box<I> {
        self.0.downcast().expect("both threads have the same type of message")
    }
}

/// A barrier at which threads wait for each other before they start. Waiting threads spin at first,
/// so threads on different processors start within a few nanoseconds of each other.
pub(super) struct Meeting {
    arrived: AtomicUsize,
    threads: usize,
}

impl Meeting {
    pub(super) fn new(threads: usize) -> Self {
        Self { arrived: AtomicUsize::new(0), threads }
    }

    /// Returns when all threads have called this method as often as this thread.
    pub(super) fn wait(&self) {
        // ORDERING: AcqRel. Pairs with the Acquire in `Meeting::wait`. Publishes: the work of this
        // thread before the call.
        let before = self.arrived.fetch_add(1, Ordering::AcqRel);
        // No thread calls again before all have called, so the earlier calls of this round are the
        // remainder.
        let all = before - before % self.threads + self.threads;
        let backoff = Backoff::new();
        // ORDERING: Acquire. Pairs with the AcqRel in `Meeting::wait`: this thread sees the work of
        // the other threads before their calls.
        while self.arrived.load(Ordering::Acquire) < all {
            // `snooze` spins first and yields later, because two threads may share a processor.
            backoff.snooze();
        }
    }
}

/// Starts a thread that runs `work`, pinned to `cpu` if there is one. Like [`run_on`], this
/// function takes a boxed function, because otherwise the standard library's code that starts a
/// thread would be compiled for each type of function.
pub(super) fn spawn<R: Send + 'static>(
    cpu: Option<usize>,
    work: Box<dyn FnOnce() -> R + Send>,
) -> JoinHandle<R> {
    std::thread::spawn(move || {
        cpu.map(os::pin);
        work()
    })
}

/// Runs `work` on a new thread, pinned to `cpu` if there is one, and waits for its end.
pub(super) fn run_on(cpu: Option<usize>, work: Box<dyn FnOnce() + Send + '_>) {
    let body = move || {
        cpu.map(os::pin);
        work();
    };
    std::thread::scope(|scope| scope.spawn(body).join()).expect("the thread ended well");
}

/// A thread that is joined when this value is dropped.
pub(super) struct Joined(pub(super) Option<JoinHandle<()>>);

impl Drop for Joined {
    fn drop(&mut self) {
        // A thread that panicked has printed its message already.
        let _ = self.0.take().map(JoinHandle::join);
    }
}

/// The function that the second thread calls with a number of units. The result is a checksum.
type CrewWork = Box<dyn FnMut(u64) -> u64>;

/// A second thread. On request it does a number of units of work and answers with a checksum.
pub(super) struct Mate {
    // This field is dropped first, which ends the thread.
    orders: SyncSender<u64>,
    answers: Receiver<u64>,
    _thread: Joined,
}

impl Mate {
    /// Starts the thread, pinned to `cpu` if there is one. `prepare` runs on the thread and returns
    /// the function that does the work.
    pub(super) fn new<W: FnMut(u64) -> u64 + 'static>(
        cpu: Option<usize>,
        prepare: impl FnOnce() -> W + Send + 'static,
    ) -> Self {
        Self::start(cpu, Box::new(move || Box::new(prepare())))
    }

    fn start(cpu: Option<usize>, prepare: Box<dyn FnOnce() -> CrewWork + Send>) -> Self {
        let (orders, todo) = sync_channel::<u64>(1);
        let (done, answers) = sync_channel(1);
        let work = Box::new(move || {
            let mut work = prepare();
            while let Ok(units) = todo.recv() {
                if done.send(work(units)).is_err() {
                    return;
                }
            }
        });
        Self { orders, answers, _thread: Joined(Some(spawn(cpu, work))) }
    }

    /// Requests `units` units of work.
    pub(super) fn order(&self, units: u64) {
        self.orders.send(units).expect(GONE);
    }

    /// Waits until the second thread has done the last order, and returns its checksum.
    pub(super) fn answer(&self) -> u64 {
        self.answers.recv().expect(GONE)
    }
}

/// Builds a cell of two cells that run at the same time on one processor, one on this thread and
/// one on another thread. If each of the two has a mate on the second processor, two threads share
/// each of the two processors. Calls `make` on each of the two threads.
pub(super) fn twice(make: impl FnOnce() -> Box<dyn Cell> + Clone + Send + 'static) -> Box<dyn Cell> {
    let theirs = make.clone();
    let there = Mate::new(None, move || {
        let mut cell = theirs();
        move |units| cell.run(units)
    });
    let here = make();
    // The mate is dropped first, so that the last reference to the shared contender is dropped on
    // this thread.
    StateCell::boxed(2 * here.ops_per_unit() as usize, (there, here), |(there, here), units| {
        there.order(units);
        let sum = here.run(units);
        mix(sum, there.answer())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conc_no_thread_leaves_a_meeting_before_the_last_arrives() {
        const THREADS: usize = 3;
        let (meeting, came, early) = (Meeting::new(THREADS), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (meeting, came, early) = (&meeting, &came, &early);
                scope.spawn(move || {
                    for round in 0..20 {
                        if thread == round % THREADS {
                            // This thread reaches the meeting last. The others must wait for it.
                            std::thread::sleep(core::time::Duration::from_millis(1));
                        }
                        came.fetch_add(1, Ordering::Relaxed);
                        meeting.wait();
                        // The test counts instead of panicking, because a panic here would make the
                        // other threads wait without end.
                        let all = came.load(Ordering::Relaxed) >= THREADS * (round + 1);
                        early.fetch_add(usize::from(!all), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((came.into_inner(), early.into_inner()), (THREADS * 20, 0));
    }
}
