//! Workloads for which the number of moved lines is known. Running them tests the model, the marks
//! and the reader of the log.

use std::sync::atomic::{AtomicU64, Ordering};

use ephemera_coherence::CORES;
use ephemera_coherence::catalogue::TracedWorkload;
use ephemera_coherence::marks::Phase;

use crate::baton::in_turns;
use crate::trace::within;
use crate::traced::TracedRun;

/// The number of words in a cache line.
const LINE: usize = 8;

/// The words that threads add to.
#[repr(align(64))]
struct SharedWords([AtomicU64; CORES * LINE]);

/// Runs `run.workload`, which must be one of [`TracedWorkload::KNOWN`].
pub(crate) fn run(run: &TracedRun) {
    static WORDS: SharedWords = SharedWords([const { AtomicU64::new(0) }; CORES * LINE]);
    let distance = match run.workload {
        TracedWorkload::PingPong => 0,
        TracedWorkload::FalseSharing => 1,
        _ => LINE,
    };
    in_turns(run, |core| {
        let word = &WORDS.0[core * distance];
        move |_round| {
            within(Phase::Allocator, core, || word.fetch_add(1, Ordering::Relaxed));
            1
        }
    });
}
