//! The processes of a workload that runs each contender in its own process.

use core::time::Duration;

use super::{Workload, WorkloadSpec};
use crate::os;
use crate::workloads::alone::{AfterBurst, AloneOrder};
use crate::workloads::blocks::idle::MEAN;

impl WorkloadSpec {
    /// Returns whether each contender runs in its own process, without rounds.
    pub fn is_alone(&self) -> bool {
        matches!(self.workload, Workload::Idle(_) | Workload::Ageing)
    }

    /// Returns whether the workload is the burst of S12.
    pub fn is_burst(&self) -> bool {
        matches!(self.workload, Workload::Idle(_))
    }

    /// Returns one order for each process that the workload starts for a contender, and none for
    /// workloads that run in rounds. S12 has one process for each [`AfterBurst`]. In a quick run,
    /// the process frees a burst of 64 MiB and samples its resident memory for one second. In a
    /// full run, the burst has 256 MiB, and the sampling takes ten seconds.
    pub fn alone_orders(&self, full: bool) -> Vec<AloneOrder> {
        match self.workload {
            Workload::Idle(_) => {
                let (mib, until) = if full { (256, 10.0) } else { (64, 1.0) };
                let units = (mib << 20) / u64::from(MEAN);
                let order = |after| AloneOrder { units, after: Some(after), until };
                [AfterBurst::Asleep, AfterBurst::Working].map(order).to_vec()
            }
            Workload::Ageing => {
                let units = if full { 2_000_000 } else { 250_000 };
                vec![AloneOrder { units, after: None, until: 0.0 }]
            }
            _ => Vec::new(),
        }
    }

    /// Returns the largest number of processes that measure at the same time. The processes of S12
    /// mostly sleep, so up to 16 of them run at a time if there is enough memory for their bursts.
    /// Each process of S13 has its own processor, and a full run has one process at a time.
    pub fn lanes(&self, full: bool) -> usize {
        const MOST: u64 = 16;
        match self.workload {
            Workload::Idle(_) => {
                let burst = self.alone_orders(full).first().map_or(1, |order| order.units * u64::from(MEAN));
                let room = os::available().map_or(MOST, |bytes| bytes / (2 * burst));
                room.clamp(1, MOST) as usize
            }
            _ if full => 1,
            _ => os::cpus().len().clamp(1, 2),
        }
    }

    /// Returns an estimate of the time that one process takes.
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
