//! Runs random programs of requests and releases, with about 40 live buffers or fewer, and compares
//! the ring with an oracle.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/model.rs"]
mod model;

use ephemera_testkit::SplitMix;
use model::{Model, Program};
use proptest::prelude::*;
use ringal::RingAl;

/// Runs a program on a ring. Returns the numbers of served and refused requests.
fn run(store: usize, most: usize, bytes: &[u8]) -> (usize, usize) {
    let mut model = Model::new(RingAl::new(store), most);
    model.run(&mut Program(bytes));
    (model.served, model.refused)
}

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = SplitMix::new(seed);
    (0..len).map(|_| rng.draw() as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 200 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn prop_request_is_served_if_and_only_if_there_is_room(
        store in 64_usize..8_000,
        most in 1_usize..=40,
        program in prop::collection::vec(any::<u8>(), 0..if cfg!(miri) { 60 } else { 900 }),
    ) {
        run(store, most, &program);
    }
}

/// The programs are long, so the head wraps, restarts and meets long-lived buffers.
#[test]
fn seeded_programs_agree_with_the_oracle() {
    let (seeds, len) = if cfg!(miri) { (2, 160) } else { (16, 3_000) };
    let (mut served, mut refused) = (0, 0);
    for seed in 0..seeds {
        let most = 1 + seed as usize * 7 % 40;
        let counts = run(256 << (seed % 6), most, &random(seed, len));
        served += counts.0;
        refused += counts.1;
    }
    assert!(served > seeds as usize && refused > 0, "served {served}, refused {refused}");
}
