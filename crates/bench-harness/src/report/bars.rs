//! The bars: what this workspace's allocators are held to, as ratios to others in the same run.

use super::pairs::{Pairs, Rounds};
use crate::contenders::{ALWAYS, VOID};
use crate::runner::WorkloadOutcome;
use crate::stats::Estimate;

/// A ratio that a contender should stay below.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The workload.
    pub workload: String,
    /// Key of the contender.
    pub of: &'static str,
    /// Key of the contender it is compared to.
    pub to: &'static str,
    /// Whether the loop's cost is taken off.
    pub pairs: Pairs,
    /// The bar itself.
    pub at_most: f64,
}

/// A bar, and what was measured.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The bar.
    pub bar: Bar,
    /// What was measured; none where one of the two did not run.
    pub measured: Option<Estimate>,
}

impl Judged {
    /// Whether the median is at or below the bar.
    #[must_use]
    pub fn met(&self) -> Option<bool> {
        self.measured.map(|measured| measured.mid <= self.bar.at_most)
    }
}

const RING: &str = "ring";
const ONE: &str = "one-ring";
const BUFFERS: &str = "ringal";

/// Bars of the pools: workload, contender, who it is compared to, the ratio. Whole costs, as their users pay them.
const POOLS: [(&str, &str, &str, f64); 22] = [
    ("S1-objects/pair/32", "typed-pool", "mimalloc", 0.65),
    ("S1-objects/pair/32", "typed-pool", "glibc", 0.35),
    ("S1-objects/pair/32", "pooled-box", "mimalloc", 0.65),
    ("S1-objects/pair/32", "pooled-box", "glibc", 0.35),
    ("S1-objects/pair/32", "pooled-allocator", "mimalloc", 0.65),
    ("S1-objects/pair/32", "pooled-allocator", "glibc", 0.35),
    ("S2-objects/batch/20000x32", "pooled-box", "mimalloc", 1.0),
    ("S2-set/erase-insert", "pooled-allocator", "glibc", 0.75),
    ("S2-set/erase-insert", "pooled-allocator", "mimalloc", 1.0),
    ("S8-objects/handoff/4096x32", "pooled-box", "mimalloc", 0.55),
    ("S1-objects/pair/40", "shared", "upstream-shared", 0.16),
    ("S1-objects/pair/40", "shared", "mimalloc", 0.6),
    ("S1-objects/pair/40", "arena", "upstream-arena", 0.28),
    ("S1-objects/pair/40", "pool", "upstream-pool", 0.5),
    ("S2-objects/batch/100000x40", "shared", "upstream-shared", 0.4),
    ("S2-objects/batch/100000x40", "arena", "upstream-arena", 0.6),
    ("S2-objects/batch/100000x40", "pool", "upstream-pool", 0.9),
    ("S2-objects/batch/100000x40", "shared", "mimalloc", 1.0),
    ("S9-objects/at-once/10000", "shared", "mimalloc", 1.0),
    ("S9-objects/at-once/10000", "shared", "upstream-shared", 0.3),
    ("S8-objects/handoff/4096x40", "shared", "upstream-shared", 0.75),
    ("S8-objects/handoff/4096x40", "shared", "mimalloc", 0.6),
];

/// All bars.
#[must_use]
pub fn bars() -> Vec<Bar> {
    use Pairs::{Net, Whole};

    let mut all = Vec::new();
    let mut bar = |workload: &str, of, to, pairs, at_most| {
        all.push(Bar { workload: workload.to_owned(), of, to, pairs, at_most });
    };
    bar("S1/pair/4", RING, "bumpalo", Whole, 1.4);
    bar("S1/pair/4", RING, "upstream-ring", Whole, 1.05);
    bar("S1/pair/4", ONE, "upstream-one-ring", Whole, 0.1);
    bar("S1/pair/4", ONE, "mimalloc", Whole, 0.45);
    for window in ["16x136", "16x1032", "1024x136", "1024x1032"] {
        let workload = format!("W/window/{window}");
        bar(&workload, RING, "upstream-ring", Net, 0.45);
        bar(&workload, RING, "mimalloc", Net, 0.35);
        bar(&workload, ONE, "mimalloc", Net, 0.4);
        bar(&workload, ONE, "glibc", Net, 0.2);
    }
    for (how, limits) in [("push", [0.5, 0.6, 1.0, 1.1]), ("reserve_exact", [0.4, 0.35, 0.3, 1.05])] {
        for (n, at_most) in [10, 146, 2134, 17_453].into_iter().zip(limits) {
            let workload = format!("S5/{how}/{n}");
            bar(&workload, RING, "glibc", Whole, at_most);
            bar(&workload, ONE, "glibc", Whole, at_most);
        }
    }
    for batch in [64, 4096] {
        let workload = format!("S8/handoff/{batch}");
        bar(&workload, ONE, "mimalloc", Net, 0.6);
        bar(&workload, ONE, "upstream-one-ring", Net, 0.8);
    }
    bar("R1/json", RING, "mimalloc", Whole, 0.8);
    for capacity in [64, 256, 4096] {
        let workload = format!("S1-buffers/fixed/{capacity}");
        bar(&workload, BUFFERS, "upstream-ringal", Whole, 0.42);
        bar(&workload, BUFFERS, "glibc", Whole, 0.5);
    }
    bar("S1-buffers/extend", BUFFERS, "upstream-ringal", Whole, 0.85);
    bar("S1-buffers/extend", BUFFERS, "glibc", Whole, 0.5);
    bar("S1-buffers/freeze", BUFFERS, "upstream-ringal", Whole, 0.75);
    bar("S1-buffers/freeze", BUFFERS, "bytes", Whole, 0.75);
    for batch in ["4096x64", "1024x1024"] {
        let workload = format!("S8-buffers/handoff/{batch}");
        bar(&workload, BUFFERS, "upstream-ringal", Net, 1.0);
        bar(&workload, BUFFERS, "glibc", Net, 0.25);
    }
    bar("S8-buffers/handoff/64x65536", BUFFERS, "glibc", Whole, 0.9);
    for (workload, of, to, at_most) in POOLS {
        bar(workload, of, to, Whole, at_most);
    }
    all
}

/// Measures every bar whose workload was run.
#[must_use]
pub fn judge(bars: &[Bar], outcomes: &[WorkloadOutcome], seed: u64) -> Vec<Judged> {
    let mut judged = Vec::new();
    for outcome in outcomes {
        let rounds = Rounds::new(&outcome.samples, ALWAYS[VOID], seed);
        let ran = |key: &str| outcome.states.get(key).is_some_and(|state| state.ran());
        for bar in bars.iter().filter(|bar| bar.workload == outcome.spec.id) {
            let measured = rounds.ratio(bar.of, bar.to, bar.pairs).filter(|_| ran(bar.of) && ran(bar.to));
            judged.push(Judged { bar: bar.clone(), measured });
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::catalogue;

    #[test]
    fn every_bar_names_a_workload_of_the_catalogue() {
        let known = catalogue();
        for bar in bars() {
            assert!(known.iter().any(|spec| spec.id == bar.workload), "{}", bar.workload);
            assert!(bar.at_most > 0.0);
        }
    }

    #[test]
    #[cfg(feature = "c-peers")]
    fn every_bar_names_contenders_of_the_registry() {
        use crate::contenders;

        let known = contenders::all();
        for bar in bars() {
            let spec = catalogue().into_iter().find(|spec| spec.id == bar.workload).expect("tested above");
            for key in [bar.of, bar.to] {
                let matches = |entry: &contenders::Entry| entry.key == key && entry.class == spec.class;
                assert!(known.iter().any(matches), "{key} in {}", spec.id);
            }
        }
    }

    #[test]
    fn a_bar_is_met_at_its_value_and_missed_above() {
        let judged = |mid: f64| {
            let measured = Some(Estimate { mid, low95: mid, high95: mid, low99: mid, high99: mid });
            Judged { bar: bars()[0].clone(), measured }.met()
        };
        assert_eq!((judged(1.4), judged(1.41)), (Some(true), Some(false)));
        assert_eq!(judge(&bars(), &[], 1).len(), 0);
    }
}
