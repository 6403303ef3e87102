//! Decodes the input as a program, runs it on a ring, and compares the ring with the oracle.
#![no_main]

#[path = "../../tests/support/model.rs"]
mod model;

extern crate alloc;

use libfuzzer_sys::fuzz_target;
use model::{Model, Program};
use ringal::RingAl;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[store, most], program)) = bytes.split_first_chunk() else { return };
    let ring = RingAl::new(64 + usize::from(store) * 37);
    Model::new(ring, 1 + usize::from(most) % 40).run(&mut Program(program));
});
