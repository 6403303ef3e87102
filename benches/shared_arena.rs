//! Pools of objects: `cargo bench -p benches --bench shared_arena -- 'pair/40'`.

fn main() {
    benches::run(bench_harness::card::ContenderClass::Objects);
}
