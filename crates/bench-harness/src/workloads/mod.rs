//! The workloads: functions generic over a contender, and the cells that the runner times. Each
//! class of contenders has its own folder.
//!
//! A workload is a function, and its cell owns the contender and everything that lives from one
//! sample to the next. Dispatch within a sample is static: the runner calls a cell through `dyn`
//! only once per sample. `cargo bench` runs the same cells.

mod alone;
pub(crate) mod blocks;
pub(crate) mod buffers;
mod catalogue;
mod context;
mod crew;
pub(crate) mod draws;
mod handoff;
mod litter;
mod load;
pub(crate) mod nodes;
mod objects;
mod slots;
mod stock;
mod stragglers;

use hdrhistogram::Histogram;

pub use self::alone::{AfterBurst, AloneFigures, AloneOrder, HeldAt, MOMENTS, READINGS, SHOWN};
pub use self::blocks::json::Document;
pub use self::buffers::http::answer;
#[cfg(any(test, ephemera_cpp))]
pub(crate) use self::catalogue::Workload;
#[cfg(not(test))]
pub(crate) use self::catalogue::build;
pub use self::catalogue::{Need, Scale, WorkloadSpec, catalogue};
pub use self::context::Context;
pub use self::load::Load;
pub use self::nodes::{Corpus, Sources, ticks_per_ns};

/// One workload over one contender, ready to run.
pub trait Cell {
    /// Runs `units` units of work, each with the same number of operations. Returns a checksum. In
    /// a counted run, the checksum depends on everything that the workload reads back.
    fn run(&mut self, units: u64) -> u64;

    /// Returns the number of operations in each unit. The runner divides the time of a unit by this
    /// number.
    fn ops_per_unit(&self) -> u64 {
        1
    }

    /// Measures latencies and returns them in nanoseconds. A server answers requests under `load`.
    /// Other workloads run unit after unit for the length of `load`. Returns `None` if the
    /// latencies of the workload are not measured.
    fn latencies(&mut self, _load: &Load) -> Option<Histogram<u64>> {
        None
    }

    /// Does the work of `order` in a process without other contenders. Returns `None` if the
    /// workload has rounds, or if the system does not report resident memory.
    fn alone(&mut self, _order: &AloneOrder) -> Option<AloneFigures> {
        None
    }
}

/// A cell that consists of a state and a function that does units of work on it.
pub(crate) struct StateCell<S> {
    state: S,
    ops_per_unit: u64,
    run: fn(&mut S, u64) -> u64,
}

impl<S: 'static> StateCell<S> {
    pub(crate) fn boxed(ops_per_unit: usize, state: S, run: fn(&mut S, u64) -> u64) -> Box<dyn Cell> {
        Box::new(Self { state, ops_per_unit: ops_per_unit as u64, run })
    }
}

impl<S> Cell for StateCell<S> {
    fn run(&mut self, units: u64) -> u64 {
        (self.run)(&mut self.state, units)
    }

    fn ops_per_unit(&self) -> u64 {
        self.ops_per_unit
    }
}

/// Turns a number into a constant, and evaluates an expression with it: `by_const!(size, [16, 64],
/// SIZE => …)`. Panics if there is no workload with this number.
macro_rules! by_const {
    ($number:expr, [$($known:literal),+], $name:ident => $cell:expr) => {
        match $number {
            $($known => {
                const $name: usize = $known;
                $cell
            })+
            other => panic!("there is no such workload with {other}, only with {:?}", [$($known),+]),
        }
    };
}
use by_const;

/// Calls `unit` for each of `units` units of work, and combines the checksums that `unit` returns.
fn each(units: u64, mut unit: impl FnMut() -> u64) -> u64 {
    (0..units).fold(0, |sum, _| mix(sum, unit()))
}

/// Splits `units` into stretches of at most `most` units, and calls `run` with each of them.
/// Combines the checksums that `run` returns.
fn stretches(units: u64, most: u64, mut run: impl FnMut(u64) -> u64) -> u64 {
    let mut sum = 0;
    let mut left = units;
    while left > 0 {
        let ops = left.min(most);
        sum = mix(sum, run(ops));
        left -= ops;
    }
    sum
}

/// The start value of a fingerprint.
const FINGERPRINT: u64 = 0xCBF2_9CE4_8422_2325;

/// Continues the fingerprint `sum`, a 64-bit FNV-1a hash, with `bytes`.
fn fingerprint(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Folds a word into a checksum that depends on the order of the words.
#[inline(always)]
pub(crate) fn mix(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}
