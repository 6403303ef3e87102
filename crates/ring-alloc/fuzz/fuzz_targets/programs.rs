//! Decodes the input into a program, and runs the program on a ring of tiny chunks. The oracle
//! checks each step.
#![no_main]

#[path = "../../tests/support/tiny.rs"]
mod tiny;

use ephemera_testkit::backing::Hostile;
use ephemera_testkit::program::Program;
use ephemera_testkit::subject::Subject;
use ephemera_testkit::suite::run;
use libfuzzer_sys::fuzz_target;
use ring_alloc::{Builder, Geometry, RingAlloc};
use tiny::Tiny;

#[derive(Default)]
struct Ring(Hostile);

impl Subject for Ring {
    type Alloc<'s> = RingAlloc<&'s Hostile, Tiny>;
    const REFUSES_HUGE: bool = true;

    fn fresh(&self) -> Self::Alloc<'_> {
        Builder::new().geometry().build_in(&self.0)
    }

    fn sizes(&self) -> &[usize] {
        &[Tiny::SMALL_MAX, Tiny::MEDIUM_MAX, Tiny::SMALL_CHUNK, Tiny::MEDIUM_CHUNK]
    }

    fn trim(&self, ring: &Self::Alloc<'_>) {
        ring.flush();
    }

    fn finish(&self, ring: Self::Alloc<'_>) -> usize {
        drop(ring);
        self.0.held().bytes
    }
}

fuzz_target!(|bytes: &[u8]| {
    run(&Ring::default(), &Program::from_bytes(bytes));
});
