//! Criterion over the workloads of the harness, for its HTML history. A bench target for each crate, thin over [`run`].
//!
//! Criterion's order is serial: it finishes one allocator before it starts the next, so that whatever drifts meanwhile
//! becomes a difference between them. Compare an allocator with its own past here; to rank several, use
//! `cargo xtask bench`, which runs the same functions interleaved and compares pairs.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use bench_harness::card::ContenderClass;
use bench_harness::contenders::{self, TWIN};
use bench_harness::workloads::blocks::json::Document;
use bench_harness::workloads::nodes::{Corpus, Sources};
use bench_harness::workloads::{Context, Scale, catalogue};
use criterion::Criterion;

/// Runs the quick workloads of a class, as the arguments of the command line choose: a group for each, a function of it for
/// each contender that can run it.
pub fn run(class: ContenderClass) {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    all(class, &mut criterion);
    criterion.final_summary();
}

fn all(class: ContenderClass, criterion: &mut Criterion) {
    let seed = 4141;
    let specs: Vec<_> =
        catalogue().into_iter().filter(|spec| spec.scale == Scale::Quick && spec.class == class).collect();
    let document = if specs.iter().any(|spec| spec.parses()) {
        Document::load(Document::find().as_deref(), seed)
    } else {
        Document::generated(seed, 1000)
    };
    let sources = Sources::new(Corpus::find().as_deref());
    let context = Context { seed, document: document.into(), sources: sources.into(), second_cpu: None };
    for spec in &specs {
        let mut group = criterion.benchmark_group(&spec.id);
        for (index, entry) in contenders::of(class).iter().enumerate() {
            // Without pairs, the reference's second registration says nothing.
            let missing = entry.absent.or_else(|| spec.need.missing(&entry.info.caps));
            if index == TWIN || missing.is_some() {
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
