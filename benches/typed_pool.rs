//! Benches of nodes of data structures: `cargo bench -p benches --bench typed_pool -- 'S2-set'`.
//! The bench `shared_arena` runs the workloads of single objects.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Nodes);
}
