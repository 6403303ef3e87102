//! The figures of workloads that run each contender in its own process: S12, the memory that stays
//! after a burst, and S13, the memory and the tail latencies of an ageing heap.
//!
//! The figures describe a whole process, so another contender's heap in that process would distort
//! them. These workloads therefore do not have rounds or ratios.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The moments after a burst at which resident memory is read, in seconds.
pub const MOMENTS: [f64; 8] = [0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// The moments after a burst that tables show, in seconds. The pictures show all moments later than
/// 0.
pub const SHOWN: [f64; 4] = [0.0, 0.1, 1.0, 10.0];

/// The number of memory readings in a run of S13.
pub const READINGS: u64 = 60;

/// The work of the threads after a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterBurst {
    /// Every thread sleeps.
    Asleep,
    /// The thread that freed the burst allocates and frees a few blocks each millisecond. The
    /// others sleep.
    Working,
}

impl AfterBurst {
    /// Returns the word that heads a column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Asleep => "asleep",
            Self::Working => "working",
        }
    }
}

/// The work of one process: its size, and the readings of memory that follow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AloneOrder {
    /// The number of blocks of a burst, or of requests to an ageing heap.
    pub units: u64,
    /// The work of the threads after the burst. `None` if there is no burst.
    pub after: Option<AfterBurst>,
    /// The last moment after the burst at which memory is read, in seconds.
    pub until: f64,
}

/// The memory at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldAt {
    /// The moment: the number of allocations so far in the memory pass, the seconds since a burst,
    /// or the share of the requests that are done.
    pub at: f64,
    /// The bytes that the contender had taken. They are either the bytes that its backing allocator
    /// counts in the memory pass, or the resident bytes minus the resident bytes before the first
    /// allocation.
    pub taken: u64,
    /// The bytes that the workload had live at that moment.
    pub live: u64,
}

/// The figures of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AloneFigures {
    /// A checksum of everything that the workload read back, and of the number of blocks or calls.
    pub checksum: u64,
    /// The number of calls that allocated or freed a block.
    pub ops: u64,
    /// The time of the calls that `ops` counts and of the work between them, in seconds.
    pub seconds: f64,
    /// The largest number of bytes that were live at once.
    pub peak_live: u64,
    /// The peak of the resident bytes, minus the resident bytes before the first allocation.
    pub peak: u64,
    /// The readings of resident memory, in the order of time.
    pub held: Vec<HeldAt>,
    /// The times of single calls in nanoseconds, if calls were timed. The process reports them as
    /// latencies.
    #[serde(skip)]
    pub calls: Option<Histogram<u64>>,
}
