//! Measures the costs of the host and of the harness itself, before any workload runs.

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::blocks::Contender;
use crate::contenders::blocks::{System, Void};
use crate::workloads::blocks::pair::pair;
use crate::{os, stats};

/// The costs of the host and the harness, in nanoseconds unless a field says otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// The time of an iteration of a loop that hides its counter from the optimiser.
    pub loop_ns: f64,
    /// The time of a pair of S1 (allocate, touch, free) over the allocator that does nothing.
    pub void_pair_ns: f64,
    /// The time of an uncontended atomic addition.
    pub rmw_ns: f64,
    /// The median time between two consecutive readings of the clock.
    pub timer_median_ns: f64,
    /// The 99.9th percentile of the time between two readings.
    pub timer_p999_ns: f64,
    /// The longest of a hundred thousand times between two consecutive readings.
    pub timer_max_ns: f64,
    /// The resolution of the clock: the smallest difference above zero between any two of these
    /// times.
    pub timer_step_ns: f64,
    /// The apparent difference of the reference from itself: the distance between 1 and the median
    /// of its paired ratios.
    pub aa_floor: f64,
    /// The time of two threads that count in words of one cache line, divided by their time in
    /// words that are far apart. `None` if the process may use only one CPU, or if the system does
    /// not report the CPUs.
    pub false_sharing: Option<f64>,
}

impl Calibration {
    /// Measures all costs, usually in less than a second. Pins the calling thread to the last CPU
    /// that it may run on.
    pub fn run() -> Self {
        let cpus = os::cpus();
        if let Some(&cpu) = cpus.last() {
            os::pin(cpu);
        }
        let (timer, step) = timer();
        let quantile = |share: f64| timer[((timer.len() - 1) as f64 * share) as usize];
        let counter = AtomicU64::new(0);
        let void = Void::create();
        Self {
            loop_ns: per_op(1 << 20, |n| (0..n).map(black_box).fold(0, |_, i| i)),
            void_pair_ns: per_op(1 << 18, |n| pair::<_, 64>(void.by_ref(), n)),
            rmw_ns: per_op(1 << 18, |n| {
                (0..n).map(|_| counter.fetch_add(1, Ordering::Relaxed)).fold(0, u64::max)
            }),
            timer_median_ns: quantile(0.5),
            timer_p999_ns: quantile(0.999),
            timer_max_ns: quantile(1.0),
            timer_step_ns: step,
            aa_floor: aa_floor(),
            false_sharing: false_sharing(&cpus),
        }
    }
}

/// Calls `work` with `n` seven times, and returns the median in nanoseconds per operation.
fn per_op(n: u64, mut work: impl FnMut(u64) -> u64) -> f64 {
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            black_box(work(black_box(n)));
            start.elapsed().as_secs_f64() * 1e9 / n as f64
        })
        .collect();
    stats::median(&mut times).unwrap_or(0.0)
}

/// Returns the sorted times between two consecutive readings of the clock, and the resolution of
/// the clock, in nanoseconds.
fn timer() -> (Vec<f64>, f64) {
    let mut empty = Vec::with_capacity(100_000);
    for _ in 0..100_000 {
        let start = Instant::now();
        empty.push(start.elapsed().as_secs_f64() * 1e9);
    }
    empty.sort_unstable_by(f64::total_cmp);
    let step =
        empty.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0.0).fold(f64::MAX, f64::min);
    (empty, if step == f64::MAX { 0.0 } else { step })
}

/// Times the reference against itself in sixty short rounds. Returns the distance of the median
/// ratio from 1.
fn aa_floor() -> f64 {
    let system = System::create();
    let time = || {
        let start = Instant::now();
        black_box(pair::<_, 64>(system.by_ref(), 1 << 15));
        start.elapsed().as_secs_f64()
    };
    let mut ratios: Vec<f64> = (0..60)
        .map(|round| {
            let (first, second) = (time(), time());
            if round % 2 == 0 { second / first } else { first / second }
        })
        .collect();
    stats::median(&mut ratios).map_or(0.0, |ratio| (ratio - 1.0).abs())
}

/// The cache lines in which two threads write words.
#[repr(align(128))]
struct Lines([AtomicU64; 64]);

/// Returns the time of the slower of two threads that count in two words, `apart` words from each
/// other. Each thread runs on one of `cpus`. The threads use atomic additions, because plain writes
/// wait in a store buffer, which hides the cost of sharing a line.
fn two_writers(cpus: [usize; 2], apart: usize) -> Duration {
    let lines = Lines([const { AtomicU64::new(0) }; 64]);
    // The threads wait for each other before they start to count, so that their short loops
    // overlap.
    let ready = AtomicU64::new(0);
    let write = |index: usize, cpu: usize| {
        os::pin(cpu);
        ready.fetch_add(1, Ordering::Relaxed);
        while ready.load(Ordering::Relaxed) < 2 {
            core::hint::spin_loop();
        }
        let word = &lines.0[index];
        let start = Instant::now();
        for _ in 0..500_000 {
            word.fetch_add(1, Ordering::Relaxed);
        }
        start.elapsed()
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| write(0, cpus[0]));
        let second = scope.spawn(|| write(apart, cpus[1]));
        let times = [first.join(), second.join()];
        times.into_iter().map(|time| time.unwrap_or_default()).max().unwrap_or_default()
    })
}

fn false_sharing(cpus: &[usize]) -> Option<f64> {
    let &[first, second, ..] = cpus else { return None };
    let mut ratios: Vec<f64> = (0..9)
        .map(|_| {
            let apart = two_writers([first, second], 32).as_secs_f64();
            two_writers([first, second], 1).as_secs_f64() / apart.max(1e-9)
        })
        .collect();
    stats::median(&mut ratios)
}
