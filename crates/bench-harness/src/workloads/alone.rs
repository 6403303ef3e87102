//! Workloads that give each contender a process of its own: S12, the memory that stays after a
//! burst, and S13, the memory and the tails of a heap that ages.
//!
//! Their figures are about a whole process, so another contender's heap in that process would
//! disturb them. They have no rounds and no ratios.

use core::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::WorkloadSpec;
use super::blocks::idle::MEAN;
use super::catalogue::Workload;

/// The moments after a burst at which resident memory is read, in seconds.
pub const MOMENTS: [f64; 8] = [0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// The moments that tables show. The pictures show all.
pub const SHOWN: [f64; 4] = [0.0, 0.1, 1.0, 10.0];

/// The number of readings while a heap ages.
pub const READINGS: u64 = 60;

/// The activity of the threads after a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterBurst {
    /// Every thread sleeps.
    Asleep,
    /// The thread that freed the burst replaces a few blocks each millisecond. The others sleep.
    Working,
}

impl AfterBurst {
    /// Returns the word for the head of a column.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Asleep => "asleep",
            Self::Working => "working",
        }
    }
}

/// The work of one process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AloneOrder {
    /// The blocks of a burst, or the requests of a heap that ages.
    pub units: u64,
    /// The activity after the burst. `None` if there is no burst.
    pub after: Option<AfterBurst>,
    /// The last moment after the burst, in seconds.
    pub until: f64,
    /// The number of the process among those that run at the same time. It selects the processor.
    pub lane: usize,
}

/// The resident memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResidentAt {
    /// The seconds since the burst, or the share of the requests that are done.
    pub at: f64,
    /// The resident bytes above those before the first allocation.
    pub taken: u64,
    /// The bytes of live blocks.
    pub live: u64,
}

/// The figures of one process.
#[derive(Clone, Debug)]
pub struct AloneFigures {
    /// A checksum of everything that was read back, and of the number of blocks.
    pub checksum: u64,
    /// The calls that allocate or free.
    pub ops: u64,
    /// The duration of these calls with all that lies between them, in seconds.
    pub seconds: f64,
    /// The most live bytes at a time.
    pub peak_live: u64,
    /// The most resident bytes, above those before the first allocation.
    pub peak: u64,
    /// The readings.
    pub held: Vec<ResidentAt>,
    /// The nanoseconds of single calls, if they were timed.
    pub calls: Option<Histogram<u64>>,
}

impl WorkloadSpec {
    /// Returns whether each contender runs in a process of its own, without rounds.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        matches!(self.workload, Workload::Idle(_) | Workload::Ageing)
    }

    /// Returns whether the workload is the burst of S12.
    #[must_use]
    pub fn is_burst(&self) -> bool {
        matches!(self.workload, Workload::Idle(_))
    }

    /// Returns the work of each process of a contender. A quick run has a burst of 64 MiB and
    /// watches for a second. A full run has one of 256 MiB and watches for ten.
    #[must_use]
    pub fn alone_orders(&self, full: bool) -> Vec<AloneOrder> {
        match self.workload {
            Workload::Idle(_) => {
                let (mib, until) = if full { (256, 10.0) } else { (64, 1.0) };
                let units = (mib << 20) / u64::from(MEAN);
                let order = |after| AloneOrder { units, after: Some(after), until, lane: 0 };
                [AfterBurst::Asleep, AfterBurst::Working].map(order).to_vec()
            }
            Workload::Ageing => {
                let units = if full { 2_000_000 } else { 250_000 };
                vec![AloneOrder { units, after: None, until: 0.0, lane: 0 }]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the most processes that measure at the same time. Those of S12 mostly sleep, and
    /// their bursts fit the available memory. Those of S13 have a processor each, and in a full run
    /// there is one.
    #[must_use]
    pub fn lanes(&self, full: bool, cpus: usize) -> usize {
        const MOST: u64 = 16;
        match self.workload {
            Workload::Idle(_) => {
                let burst = self.alone_orders(full).first().map_or(1, |order| order.units * u64::from(MEAN));
                let room = ephemera_measure::os::available().map_or(MOST, |bytes| bytes / (2 * burst));
                room.clamp(1, MOST) as usize
            }
            _ if full => 1,
            _ => cpus.clamp(1, 2),
        }
    }

    /// Returns about how long one such process takes.
    #[must_use]
    pub fn alone_time(&self, full: bool) -> Duration {
        let orders = self.alone_orders(full);
        let seconds = match orders.first() {
            Some(order) if order.after.is_some() => order.until + order.units as f64 * 1e-6,
            Some(order) => order.units as f64 * 5e-6,
            None => 0.0,
        };
        Duration::from_secs_f64(seconds)
    }
}
