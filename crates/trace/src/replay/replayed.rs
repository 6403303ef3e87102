//! Defines [`Replayed`], the figures of a replay.
#![forbid(unsafe_code)]

use ephemera_measure::stats::{Estimate, Verdict};
use serde::{Deserialize, Serialize};

/// The key of the reference. Every ratio divides by the reference's time.
pub const REFERENCE: &str = "glibc";
/// The key of the reference's second entry, whose ratio should be 1.
pub const TWIN: &str = "glibc-aa";
/// The keys of general allocators that a program can use without a change of its code.
const GENERAL: [&str; 3] = ["mimalloc", "jemalloc", "snmalloc"];

/// The figures of one allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplayRow {
    /// The candidate's key.
    pub key: String,
    /// The candidate's name.
    pub name: String,
    /// The candidate's time divided by the reference's time in the same round.
    pub ratio: Estimate,
    /// Whether the ratio shows a difference from the reference.
    pub verdict: Verdict,
    /// The median processor time of an operation in nanoseconds, without waiting.
    pub ns: f64,
    /// The highest growth of the resident set in bytes, if it was measured.
    pub peak: Option<u64>,
}

/// The figures of a replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replayed {
    /// The digest of the trace's operations. Older files have none.
    #[serde(default)]
    pub digest: String,
    /// The command that was recorded.
    pub command: String,
    /// The number of operations of the program.
    pub ops: u64,
    /// The number of lanes that played.
    pub lanes: usize,
    /// The number of threads of the trace.
    pub threads: usize,
    /// The number of blocks of 4 GiB - 1 bytes or more, which the replay leaves out.
    pub huge: u64,
    /// The peak of the live bytes.
    pub peak_live: u64,
    /// The number of rounds, without the warm-up.
    pub rounds: u32,
    /// The seed that determines the order of turns.
    pub seed: u64,
    /// The allocators, the reference first.
    pub rows: Vec<ReplayRow>,
    /// The key of each allocator that did not take part, and the reason.
    pub left_out: Vec<(String, String)>,
    /// Further notes that a reader must know.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Replayed {
    /// Returns the row of the allocator with this key, if it took part.
    pub fn row(&self, key: &str) -> Option<&ReplayRow> {
        self.rows.iter().find(|row| row.key == key)
    }

    /// Returns the nanoseconds that the reference took for the whole program, if it took part.
    pub fn reference_ns(&self) -> Option<f64> {
        self.row(REFERENCE).map(|row| row.ns * self.ops as f64)
    }

    /// Returns the fastest general allocator, if it is faster than the reference.
    pub fn best_general(&self) -> Option<&ReplayRow> {
        let general = |row: &&ReplayRow| GENERAL.contains(&row.key.as_str());
        let faster = self.rows.iter().filter(general).filter(|row| row.verdict == Verdict::Faster);
        faster.min_by(|a, b| a.ratio.mid.total_cmp(&b.ratio.mid))
    }

    /// Returns whether the 95 % interval of the reference's second entry excludes 1, the ratio of
    /// two equal allocators. If so, no figure can be trusted.
    pub fn untrusted(&self) -> bool {
        self.row(TWIN).is_some_and(|row| row.ratio.excludes_one())
    }
}
