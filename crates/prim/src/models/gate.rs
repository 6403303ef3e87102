//! Models of the gate: it has one holder at a time, and each holder sees the writes of the last
//! holder.

use loom::cell::UnsafeCell;
use loom::thread;

use super::explore;
use super::memory::ModelArc;
use crate::gate::Gate;

struct Guarded {
    gate: Gate,
    visits: UnsafeCell<u32>,
}

impl Guarded {
    fn visit(&self) -> u32 {
        let Some(_pass) = self.gate.enter() else { return 0 };
        // SAFETY: loom reports any race before this write.
        self.visits.with_mut(|visits| unsafe { *visits += 1 });
        1
    }
}

#[test]
fn loom_gate_admits_one_holder_at_a_time() {
    explore(|| {
        let guarded = ModelArc::new(Guarded { gate: Gate::new(), visits: UnsafeCell::new(0) });
        let others = [0, 1].map(|_| {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.get().visit())
        });
        let mut went_in = guarded.get().visit();
        for other in others {
            went_in += other.join().unwrap();
        }
        // SAFETY: loom reports any race before this read.
        assert_eq!(guarded.get().visits.with(|visits| unsafe { *visits }), went_in);
        assert!(went_in >= 1 && guarded.get().gate.try_enter().is_some());
    });
}
