//! Memory over time: at regular numbers of allocations, the bytes that the workload holds and the
//! bytes taken for it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

use crate::runner::HeldAt;

/// The number of allocations at the next point. The largest number means that nothing watches.
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);
static WATCH: Mutex<Option<MemoryWatch>> = Mutex::new(None);

struct MemoryWatch {
    every: u64,
    taken: Box<dyn Fn() -> Option<u64> + Send>,
    points: Vec<HeldAt>,
}

/// Starts. There is a point every `every` allocations since the last reset.
pub(crate) fn begin(every: u64, taken: impl Fn() -> Option<u64> + Send + 'static) {
    if let Ok(mut watch) = WATCH.lock() {
        // The list has room for twice the expected points, so that it does not grow during a
        // measurement.
        *watch = Some(MemoryWatch { every, taken: Box::new(taken), points: Vec::with_capacity(256) });
        NEXT.store(every, Relaxed);
    }
}

/// Ends, and returns the points. There are none if nothing was watched.
pub(crate) fn end() -> Vec<HeldAt> {
    NEXT.store(u64::MAX, Relaxed);
    let watch = WATCH.lock().ok().and_then(|mut watch| watch.take());
    watch.map(|watch| watch.points).unwrap_or_default()
}

/// Records an allocation.
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
        watch.points.push(HeldAt { ops, taken, live });
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
        let expected = [10, 20, 30].map(|ops| HeldAt { ops, taken: 7, live: 2 * ops });
        assert_eq!(points, expected);
        note(40, 1);
        assert_eq!(end(), []);
    }
}
