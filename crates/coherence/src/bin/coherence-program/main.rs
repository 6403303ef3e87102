//! The program that `cargo xtask coherence` traces. It runs a workload over one allocator, on a
//! given number of threads.
//!
//! Its arguments are a contender, a workload, a number of threads and a number of rounds. Threads
//! take turns, and marks tell the reader of the log which thread runs and whether that thread is in
//! the allocator.

#![expect(clippy::std_instead_of_core, reason = "a program that always has std")]

mod baton;
mod contenders;
mod known;
mod trace;
mod traced;
mod workloads;

use std::process::ExitCode;

use ephemera_coherence::CORES;
use ephemera_coherence::catalogue::TracedWorkload;

use self::traced::TracedRun;

fn main() -> ExitCode {
    // Abort on a panic. A thread that panicked would keep its turn, and the other threads would
    // never stop waiting.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        std::process::abort();
    }));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Some(()) => ExitCode::SUCCESS,
        None => {
            eprintln!(
                "usage: coherence-program CONTENDER WORKLOAD THREADS ROUNDS, with a contender of this build, \
                 1 to {CORES} threads and at least 1 round; `cargo xtask coherence` runs this program"
            );
            ExitCode::FAILURE
        }
    }
}

/// Runs the workload that the arguments name. Returns `None`, without running anything, if the
/// arguments are invalid or if this build does not have the contender.
fn run(arguments: &[String]) -> Option<()> {
    let [contender, workload, threads, rounds] = arguments else { return None };
    let run = TracedRun {
        workload: TracedWorkload::named(workload)?,
        threads: threads.parse().ok().filter(|threads| (1..=CORES).contains(threads))?,
        rounds: rounds.parse().ok().filter(|rounds| *rounds > 0)?,
    };
    if TracedWorkload::KNOWN.iter().any(|(known, _)| *known == run.workload) {
        known::run(&run);
        return Some(());
    }
    contenders::run(contender, &run)
}
