//! Benchmarks of allocators for the nodes of data structures. To run the workloads whose name
//! contains `S2-set`, use `cargo bench -p benches --bench typed_pool -- 'S2-set'`. The bench target
//! `shared_arena` runs the workloads of single objects.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Nodes);
}
