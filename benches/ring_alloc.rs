//! Benches of `ring-alloc` and others: blocks of any size.
//!
//! `cargo bench -p benches --bench ring_alloc -- 'S1/pair'` runs the workloads whose name has that
//! text.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Blocks);
}
