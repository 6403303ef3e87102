//! Benches of `ringal` and others: byte buffers.
//!
//! `cargo bench -p benches --bench ringal -- 'S1-buffers/fixed'` runs the workloads whose name has
//! that text.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Buffers);
}
