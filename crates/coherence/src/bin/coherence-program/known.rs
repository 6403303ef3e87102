//! Workloads whose figure is known. They check the model, the marks and the reading of the trace.

use std::sync::atomic::{AtomicU64, Ordering};

use ephemera_coherence::CORES;
use ephemera_coherence::catalogue::Workload;
use ephemera_coherence::marks::Phase;

use crate::baton::in_turns;
use crate::contenders::Run;
use crate::trace::within;

/// The words of a line.
const LINE: usize = 8;

/// The words that threads add to.
#[repr(align(64))]
struct Words([AtomicU64; CORES * LINE]);

/// Runs one of the workloads.
pub(crate) fn run(run: &Run) {
    static WORDS: Words = Words([const { AtomicU64::new(0) }; CORES * LINE]);
    let distance = match run.workload {
        Workload::PingPong => 0,
        Workload::FalseSharing => 1,
        _ => LINE,
    };
    in_turns(run, |core| {
        // Consecutive threads share a line, so the turn of each moves a line that the one before had.
        let word = &WORDS.0[core * distance % LINE + if distance == LINE { core * LINE } else { 0 }];
        move |_round| {
            within(Phase::Allocator, core, || word.fetch_add(1, Ordering::Relaxed));
            1
        }
    });
}
