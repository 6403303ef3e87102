//! Benchmarks of `ring-alloc` and the other allocators of blocks of any size.
//!
//! `cargo bench -p benches --bench ring_alloc -- 'S1/pair'` runs the workloads whose name contains
//! `S1/pair`.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Blocks);
}
