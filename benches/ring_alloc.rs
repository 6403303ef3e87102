//! Criterion over the workloads of the harness, for its HTML history.
//!
//! Criterion's order is serial: it finishes one allocator before it starts the next, so that whatever drifts meanwhile
//! becomes a difference between them. Compare an allocator with its own past here; to rank several, use
//! `cargo xtask bench`, which runs the same functions interleaved and compares pairs.
//!
//! `cargo bench -p benches -- 'S1/pair'` runs the workloads of that name.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use bench_harness::contenders::{self, TWIN};
use bench_harness::workloads::blocks::json::Document;
use bench_harness::workloads::{Context, Scale, catalogue};
use criterion::Criterion;

/// Registers every quick workload as a group, every contender that can run it as a function of it.
fn all(criterion: &mut Criterion) {
    let seed = 4141;
    let document = Document::load(Document::find().as_deref(), seed).into();
    let context = Context { seed, document, second_cpu: None };
    for spec in catalogue().iter().filter(|spec| spec.scale == Scale::Quick) {
        let mut group = criterion.benchmark_group(&spec.id);
        for (index, entry) in contenders::of(spec.class()).iter().enumerate() {
            // Without pairs, the reference's second registration says nothing.
            if index == TWIN || spec.need.missing(&entry.info.caps).is_some() {
                continue;
            }
            // Made when criterion first asks, so that a filter builds no cell that it leaves out.
            let mut cell = None;
            group.bench_function(entry.key, |bencher| {
                let cell = cell.get_or_insert_with(|| (entry.timed)(spec, &context));
                bencher.iter_custom(|units| {
                    let start = Instant::now();
                    black_box(cell.run(black_box(units)));
                    start.elapsed()
                });
            });
        }
        group.finish();
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    all(&mut criterion);
    criterion.final_summary();
}
