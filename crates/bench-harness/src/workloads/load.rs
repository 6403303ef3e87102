//! The load for a workload whose latencies are measured: one request per interval, however long the
//! answers take.

use core::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency that a histogram records. It records longer latencies with this value.
const SLOWEST: Duration = Duration::from_secs(60);

/// Returns an empty histogram of latencies in nanoseconds, exact to three digits.
pub(super) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, SLOWEST.as_nanos() as u64, 3).expect("the constant bounds are valid")
}

/// Requests at a steady rate.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Load {
    /// The time between two requests, above zero.
    pub interval: Duration,
    /// The duration of the load.
    pub length: Duration,
}

impl Load {
    /// Returns a load that lasts for `length`, at `share` times the full rate. The full rate is one
    /// operation every `cost_ns` nanoseconds. Returns `None` if the interval between two requests
    /// would not be a positive `Duration`.
    pub fn share(share: f64, cost_ns: f64, length: Duration) -> Option<Self> {
        let interval = Duration::try_from_secs_f64(cost_ns / share * 1e-9).ok()?;
        (interval > Duration::ZERO).then_some(Self { interval, length })
    }

    /// Returns the number of requests, at least one.
    pub fn requests(&self) -> u64 {
        (self.length.as_nanos() / self.interval.as_nanos().max(1)).max(1) as u64
    }

    /// Returns the time from the start of the load until `request` is due. Requests are counted
    /// from 0.
    pub fn due(&self, request: u64) -> Duration {
        Duration::from_nanos((self.interval.as_nanos() as u64).saturating_mul(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_a_share_of_the_rate() {
        let load = Load::share(0.5, 20_000.0, Duration::from_millis(10)).expect("a positive cost");
        assert_eq!((load.interval, load.requests()), (Duration::from_micros(40), 250));
        assert_eq!(load.due(3), Duration::from_micros(120));
        for cost in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Load::share(0.6, cost, Duration::from_millis(10)).is_none(), "{cost}");
        }
    }
}
