//! Tests of packed operations and of the lanes that store them.

use std::sync::Arc;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::pack::{KINDS, LONGEST, pack, unpack};
use super::{Action, Lane, ProgramOp};

/// Returns a random operation.
fn op(rng: &mut Xoshiro256PlusPlus) -> ProgramOp {
    let action = KINDS[rng.random_range(0..KINDS.len())];
    let mut number = |wanted: bool| {
        let shift = rng.random_range(0..32);
        let number = rng.random::<u32>() >> shift;
        if wanted { number } else { 0 }
    };
    let waits = number(true).is_multiple_of(2) && matches!(action, Action::Free | Action::Resize);
    ProgramOp {
        action,
        align_log2: (number(true) % 32) as u8,
        slot: number(true),
        size: number(true),
        old: number(action == Action::Resize),
        wait: number(waits),
        publish: number(true).is_multiple_of(3),
    }
}

#[test]
fn operations_are_unpacked_as_they_were_packed() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
    let mut ops: Vec<ProgramOp> = (0..5000).map(|_| ProgramOp { publish: false, ..op(&mut rng) }).collect();
    let far = ProgramOp { slot: u32::MAX, size: u32::MAX, old: u32::MAX, wait: u32::MAX, ..ProgramOp::BEGIN };
    ops.push(ProgramOp { action: Action::Resize, align_log2: 31, ..far });
    ops.push(ProgramOp { action: Action::Free, slot: 0, old: 0, ..far });
    let (mut bytes, mut unpacked) = (vec![1], vec![ProgramOp::BEGIN]);
    pack(&ops, &mut bytes);
    unpack(&bytes, &mut unpacked);
    assert!(unpacked == ops);
    assert!(bytes.len() <= ops.len() * LONGEST);
}

#[test]
fn a_lane_returns_its_operations_from_memory_and_from_a_file() {
    for file in [None, Some(tempfile::tempfile().expect("the directory for temporary files is writable"))] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let file = file.map(Arc::new);
        let (mut lane, mut beside) = (Lane::new(file.clone()), Lane::new(file.clone()));
        let mut all: Vec<ProgramOp> = Vec::new();
        for count in 0..100_000 {
            let next = op(&mut rng);
            all.push(next);
            assert_eq!(lane.push(next).expect("there is room"), count);
            beside.push(op(&mut rng)).expect("there is room");
            // Some operations that were pushed long ago become published.
            let at = rng.random_range(0..all.len() as u64);
            if at.is_multiple_of(5) {
                all[at as usize].publish = true;
                lane.publish(at);
            }
        }
        assert!(lane.ops().eq(all.iter().copied()), "{file:?}");
        let Some(file) = file else {
            assert_eq!((lane.whole(), lane.on_disk()), (Some(&*all), 0));
            continue;
        };
        assert!(lane.whole().is_none());
        assert_eq!(lane.segments.len(), 24);
        let disk = lane.on_disk() + beside.on_disk();
        assert!(disk > 400_000, "{disk}");
        assert_eq!(file.metadata().expect("it is open").len(), disk);
        assert!(lane.resident() < 2 << 20, "{}", lane.resident());
    }
}
