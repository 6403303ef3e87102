//! Benchmarks of pools of objects. To run the workloads whose name contains `pair/40`, use
//! `cargo bench -p benches --bench shared_arena -- 'pair/40'`.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Objects);
}
