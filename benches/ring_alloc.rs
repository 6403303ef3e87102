//! `ring-alloc` beside the others: blocks of any size.
//!
//! `cargo bench -p benches --bench ring_alloc -- 'S1/pair'` runs the workloads of that name.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Blocks);
}
