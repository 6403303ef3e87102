//! Runs the harness's workloads under criterion, which keeps the history of each benchmark as HTML
//! pages. Each bench target only calls [`run`].
//!
//! Criterion measures one allocator after another. If the host slows down during the run, the later
//! allocators look slower. Use criterion to compare an allocator with earlier versions of itself.
//! To rank several allocators, use `cargo xtask bench`, which interleaves the same functions and
//! compares paired samples.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use bench_harness::card::ContenderClass;
use bench_harness::contenders::{self, TWIN};
use bench_harness::workloads::{Context, Corpus, Document, Scale, Sources, WorkloadSpec, catalogue};
use criterion::Criterion;

/// Runs the quick workloads of `class` that the command line selects, except workloads that need a
/// process for each contender. Each workload is a benchmark group, with one function for each
/// contender that can run the workload.
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
    // A workload that runs each contender in its own process does not have rounds, so criterion
    // cannot time it.
    let chosen = |spec: &WorkloadSpec| spec.scale == Scale::Quick && spec.class == class && !spec.is_alone();
    let specs: Vec<_> = catalogue().into_iter().filter(chosen).collect();
    let document = if specs.iter().any(|spec| spec.parses()) {
        Document::load(Document::find().as_deref(), seed, Document::LENGTH)
    } else {
        Document::generated(seed, 1000)
    };
    let sources = Sources::new(Corpus::find().as_deref());
    let context = Context { seed, document: document.into(), sources: sources.into(), second_cpu: None };
    for spec in &specs {
        let mut group = criterion.benchmark_group(&spec.id);
        for (index, entry) in contenders::of(class).iter().enumerate() {
            // The reference's second entry is for paired comparisons, which criterion does not
            // make.
            let missing = entry.absent.or_else(|| spec.need.missing(&entry.info.caps));
            if index == TWIN || missing.is_some() {
                continue;
            }
            // Build the cell when criterion first runs the function. Criterion never runs a
            // function that the filter leaves out.
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
