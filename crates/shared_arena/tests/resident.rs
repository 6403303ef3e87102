//! Measures the resident memory of live values, and of arenas that are dropped before their values.
//! Resident memory is a figure of a whole process, so these tests run in their own process.
#![cfg(all(feature = "std", target_os = "linux"))]

extern crate alloc;

use ephemera_testkit::bursts::resident;
use ephemera_testkit::suite::take_turn;
use shared_arena::{ArenaBox, SharedArena};

#[test]
#[cfg_attr(miri, ignore = "resident memory is the interpreter's")]
#[cfg_attr(
    ephemera_poison = "asan",
    ignore = "the sanitizer keeps freed memory, and adds a red zone to each block"
)]
fn a_live_word_costs_at_most_16_resident_bytes() {
    const COUNT: usize = 126_000;
    take_turn();
    let mut values: Vec<ArenaBox<u64>> = Vec::with_capacity(COUNT);
    // These values make the vector's own pages resident before the measurement.
    let warm = SharedArena::new();
    values.extend((0..COUNT as u64).map(|value| warm.alloc(value)));
    values.clear();
    drop(warm);
    let arena = SharedArena::new();
    let (before, held) = (resident(), arena.statistics().bytes_held);
    values.extend((0..COUNT as u64).map(|value| arena.alloc(value)));
    let grown = resident().saturating_sub(before).max(arena.statistics().bytes_held - held);
    assert!(grown <= 16 * COUNT, "{} resident bytes a word", grown as f64 / COUNT as f64);
    assert_eq!(values.iter().map(|value| **value as usize).sum::<usize>(), COUNT * (COUNT - 1) / 2);
}

/// Each of the threads has one arena and one value at a time.
#[test]
#[cfg_attr(miri, ignore = "resident memory is the interpreter's")]
#[cfg_attr(ephemera_poison = "asan", ignore = "the sanitizer keeps freed memory")]
fn eight_threads_that_drop_arenas_before_values_stay_within_16_mib() {
    const THREADS: usize = 8;
    take_turn();
    let before = resident();
    let most = std::thread::scope(|scope| {
        let end_many = || {
            let mut most = 0;
            for round in 0..10_000_u64 {
                let arena = SharedArena::new();
                let value = arena.alloc([round; 8]);
                drop(arena);
                drop(value);
                if round % 1_000 == 0 {
                    most = most.max(resident());
                }
            }
            most
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(end_many)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    });
    let grown = most.max(resident()).saturating_sub(before);
    assert!(grown <= 16 << 20, "{grown} resident bytes for {THREADS} values");
}
