//! Threads that take turns: one thread works at a time, and then passes the turn to the next.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

use ephemera_coherence::marks::{Fact, Phase};

use crate::trace;
use crate::traced::TracedRun;

/// The minimum number of rounds in the warm-up.
const WARM: u64 = 16;

/// The turn, and the threads that wait for it.
#[derive(Debug, Default)]
struct Baton {
    turn: AtomicUsize,
    threads: OnceLock<Vec<Thread>>,
}

impl Baton {
    /// Waits until all threads are spawned and the calling thread, number `core`, has the turn.
    fn wait(&self, core: usize) {
        loop {
            // ORDERING: Acquire. Pairs with the Release in `Baton::pass`: this thread sees the work
            // of earlier turns.
            if self.threads.get().is_some() && self.turn.load(Ordering::Acquire) == core {
                return;
            }
            thread::park();
        }
    }

    /// Passes the turn to the thread with number `core`.
    fn pass(&self, core: usize) {
        // ORDERING: Release. Pairs with the Acquire in `Baton::wait`. Publishes: the work of this
        // thread.
        self.turn.store(core, Ordering::Release);
        if let Some(threads) = self.threads.get() {
            threads[core].unpark();
        }
    }
}

/// Runs a workload: a warm-up, and then the counted rounds. In each round, each thread has one
/// turn. Each thread calls `start` with its number. `start` returns a closure that does one turn:
/// it takes the number of the round, and returns the number of its operations. Prints the number of
/// counted operations for the reader of the log.
pub(crate) fn in_turns<T: FnMut(u64) -> u64>(run: &TracedRun, start: impl Fn(usize) -> T + Sync) {
    let (baton, start, warm) = (&Baton::default(), &start, run.rounds.div_ceil(2).max(WARM));
    trace::tell_statics();
    let last = run.threads - 1;
    let body = move |core: usize| {
        baton.wait(core);
        trace::tell_stack();
        let mut turn = start(core);
        let mut operations = 0;
        baton.pass((core + 1) % run.threads);
        for round in 0..warm + run.rounds {
            baton.wait(core);
            if core == 0 && round == warm {
                trace::mark(Phase::Begin, core);
            }
            let done = turn(round);
            operations += if round >= warm { done } else { 0 };
            if core == last && round == warm + run.rounds - 1 {
                trace::mark(Phase::End, core);
            }
            baton.pass((core + 1) % run.threads);
        }
        // Dropping the closure frees the thread's remaining blocks, so the threads take turns here
        // too.
        baton.wait(core);
        drop(turn);
        baton.pass((core + 1) % run.threads);
        operations
    };
    let operations = thread::scope(|scope| {
        let threads: Vec<_> = (0..run.threads).map(|core| scope.spawn(move || body(core))).collect();
        let handles: Vec<Thread> = threads.iter().map(|thread| thread.thread().clone()).collect();
        baton.threads.set(handles.clone()).expect("the baton has no threads yet");
        handles[0].unpark();
        threads.into_iter().map(|thread| thread.join().expect("a panic aborts")).sum()
    });
    trace::tell(&Fact::Operations(operations));
}
