//! Memory over time: records the live bytes of the workload, and the bytes that the contender has
//! taken, after every fixed number of allocations.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

use crate::workloads::HeldAt;

/// The number of allocations at which the next point is due, or `u64::MAX` if memory is not
/// watched.
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);
static WATCH: Mutex<Option<MemoryWatch>> = Mutex::new(None);

struct MemoryWatch {
    every: u64,
    taken: Box<dyn Fn() -> Option<u64> + Send>,
    points: Vec<HeldAt>,
}

/// Starts to watch memory: `note` then records a point every `every` allocations. `taken` returns
/// the bytes that the contender has taken.
pub(crate) fn begin(every: u64, taken: impl Fn() -> Option<u64> + Send + 'static) {
    if let Ok(mut watch) = WATCH.lock() {
        // The list has room for more points than expected, so it does not grow during a
        // measurement.
        *watch = Some(MemoryWatch { every, taken: Box::new(taken), points: Vec::with_capacity(256) });
        NEXT.store(every, Relaxed);
    }
}

/// Stops watching, and returns the points. The list is empty if nothing was watched.
pub(crate) fn end() -> Vec<HeldAt> {
    NEXT.store(u64::MAX, Relaxed);
    let watch = WATCH.lock().ok().and_then(|mut watch| watch.take());
    watch.map(|watch| watch.points).unwrap_or_default()
}

/// Records a point if one is due. `ops` is the number of allocations so far, and `live` is the
/// number of live bytes.
pub(super) fn note(ops: u64, live: u64) {
    if ops >= NEXT.load(Relaxed) {
        point(ops, live);
    }
}

#[cold]
fn point(ops: u64, live: u64) {
    let Ok(mut watch) = WATCH.lock() else { return };
    let Some(watch) = watch.as_mut() else { return };
    NEXT.store(ops + watch.every, Relaxed);
    if let Some(taken) = (watch.taken)() {
        watch.points.push(HeldAt { at: ops as f64, taken, live });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_a_fixed_distance() {
        note(5, 1);
        begin(10, || Some(7));
        for ops in 1..=35 {
            note(ops, ops * 2);
        }
        let points = end();
        let expected = [10, 20, 30].map(|ops| HeldAt { at: ops as f64, taken: 7, live: 2 * ops });
        assert_eq!(points, expected);
        note(40, 1);
        assert_eq!(end(), []);
    }
}
