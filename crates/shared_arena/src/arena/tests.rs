//! Tests arenas whose gate is shut, and arenas of another copy of the crate.

use alloc::vec::Vec;
use core::time::Duration;
use std::sync::mpsc::channel;
use std::thread;

use super::{SharedArena, Trim};
use crate::store::ArenaStore;

/// Another thread can keep the gate shut, for statistics or a trim, for longer than a claim first
/// waits. Before a refusal, the claim waits longer.
#[test]
fn conc_a_claim_waits_longer_for_a_shut_gate_before_a_refusal() {
    type Value = [u8; 256];
    let first = SharedArena::<Value>::with_capacity(1).statistics().bytes_held;
    // The limit has room for a shard in addition to the first page, but not for a second page.
    let arena = SharedArena::<Value>::builder().capacity(1).limit(first + (4 << 10)).build();
    let (shut, is_shut) = channel();
    thread::scope(|scope| {
        let arena = &arena;
        scope.spawn(move || {
            let pass = arena.core.store().gate.enter();
            shut.send(pass.is_some()).unwrap();
            thread::sleep(Duration::from_millis(20));
            drop(pass);
        });
        assert!(is_shut.recv().unwrap());
        let values: Vec<_> = (0..63).map_while(|_| arena.try_alloc([1; 256]).ok()).collect();
        assert_eq!((values.len(), arena.stats()), (63, (63, 0)));
        assert!(arena.try_alloc([2; 256]).is_err_and(|error| error.refused().by_limit()));
    });
}

/// If the gate is shut when a thread should trim, the thread trims in a later slow path.
#[test]
fn a_request_to_trim_waits_for_an_open_gate() {
    let arena = SharedArena::<[u64; 64]>::builder().trim(Trim::Manual).build();
    let fill = |count| (0..count).map(|value| arena.alloc([value; 64])).collect::<Vec<_>>();
    drop(fill(if cfg!(miri) { 260 } else { 1_000 }));
    let (store, pages) = (arena.core.store(), arena.statistics().pages);
    // Ask for a trim, like a call to `shrink_to_fit` on another thread.
    store.epoch.raise();
    let pass = store.gate.enter();
    assert!(pass.is_some());
    let kept = fill(70);
    drop(pass);
    assert_eq!(arena.statistics().pages, pages, "nothing is trimmed while the gate is shut");
    let more = fill(70);
    assert!(arena.statistics().pages < pages, "the request was forgotten");
    drop((kept, more));
}

/// Simulates a plugin with its own copy of the crate. The plugin's threads have the same seats as
/// threads of the host.
#[test]
fn an_arena_of_another_copy_of_the_crate_refuses_new_values() {
    let arena = SharedArena::<u64>::new();
    let kept = arena.alloc(1);
    // SAFETY: the arena is live, and no other thread uses it.
    unsafe { ArenaStore::disown(arena.core.store) };
    // The spawned thread has no slot at hand in the arena, so its claim checks which copy made the
    // arena.
    thread::scope(|scope| {
        let refused = scope.spawn(|| arena.try_alloc(2).unwrap_err().refused()).join().unwrap();
        assert!(refused.other_copy, "{refused}");
    });
    assert_eq!(*kept, 1);
}
