//! Nodes of data structures: `cargo bench -p benches --bench typed_pool -- 'S2-set'`. Single objects are in `shared_arena`.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Nodes);
}
