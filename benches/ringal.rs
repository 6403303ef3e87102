//! `ringal` beside the others: byte buffers.
//!
//! `cargo bench -p benches --bench ringal -- 'S1-buffers/fixed'` runs the workloads of that name.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Buffers);
}
