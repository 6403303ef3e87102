//! Benchmarks of `ringal` and the other sources of byte buffers.
//!
//! `cargo bench -p benches --bench ringal -- 'S1-buffers/fixed'` runs the workloads whose name
//! contains `S1-buffers/fixed`.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Buffers);
}
