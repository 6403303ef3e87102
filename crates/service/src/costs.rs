//! `RequestCosts`: the memory that the requests of each kind held.

use alloc::collections::BTreeMap;
use core::fmt::Write as _;

use typed_pool::Usage;

/// The costs of all requests, summed by kind.
#[derive(Debug, Default)]
pub struct RequestCosts {
    kinds: BTreeMap<&'static str, KindCost>,
}

/// The costs of the requests of one kind, in numbers of requests and in bytes.
#[derive(Debug, Default)]
struct KindCost {
    requests: usize,
    over_limit: usize,
    peak_sum: usize,
    peak_max: usize,
    /// The bytes in units and large blocks that outlived their requests, for example because they
    /// held blocks of an answer, summed over all requests.
    escaped: usize,
}

impl RequestCosts {
    /// Adds the costs of a request. `usage` is the report of the request's scope.
    pub fn add(&mut self, usage: &Usage) {
        let cost = self.kinds.entry(usage.name).or_default();
        cost.requests += 1;
        cost.over_limit += usize::from(usage.over_limit);
        cost.peak_sum += usage.bytes_peak;
        cost.peak_max = cost.peak_max.max(usage.bytes_peak);
        cost.escaped += usage.bytes_held;
    }

    /// Returns a table with a line for each kind of request.
    #[must_use]
    pub fn page(&self) -> String {
        let mut text = String::from("kind requests over-limit mean-peak highest-peak escaped\n");
        for (kind, cost) in &self.kinds {
            let mean = cost.peak_sum / cost.requests;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{kind} {} {} {mean} {} {}",
                cost.requests, cost.over_limit, cost.peak_max, cost.escaped
            );
        }
        text
    }
}
