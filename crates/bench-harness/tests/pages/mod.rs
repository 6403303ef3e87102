//! Makes pages in which every part has contents, from invented figures.

use std::sync::OnceLock;

use bench_harness::calibrate::Calibration;
use bench_harness::contenders::{self, ALWAYS, Entry};
use bench_harness::host::Host;
use bench_harness::report::{self, BenchReport};
use bench_harness::runner::{
    AloneRun, ContenderState, Latencies, Measurements, PeakMemory, SampleSize, TimedSample, WorkloadOutcome,
};
use bench_harness::stats::{Estimate, Verdict};
use bench_harness::workloads::{
    AfterBurst, AloneFigures, AloneOrder, HeldAt, MOMENTS, WorkloadSpec, catalogue,
};
use ephemera_trace::advise::Advice;
use ephemera_trace::replay::{ReplayRow, Replayed};
use ephemera_trace::{Trace, TraceEvent, TraceProfile, What, Writer, page};

const IDS: [&str; 11] = [
    "S1/pair/64",
    "W/window/16x136",
    "S6/straggler/1e-2",
    "S9/larson/1",
    "S9/larson/2",
    "S9/larson/4",
    "S1-objects/pair/40",
    "S6-objects/straggler/1e-2",
    "R3/http",
    "S12/idle/remote",
    "S13/ageing",
];

/// Returns the workloads of the page.
pub(crate) fn specs() -> Vec<WorkloadSpec> {
    catalogue().into_iter().filter(|spec| IDS.contains(&spec.id.as_str())).collect()
}

/// Returns the time of a contender as a multiple of the reference's time.
fn factor(index: usize) -> f64 {
    if index < 3 { 1.0 } else { (index as f64 * 0.4 - 2.0).exp2() }
}

/// Returns samples in which the reference's second entry is `twin` times as slow as the reference.
fn samples(spec: &WorkloadSpec, entries: &[&Entry], twin: f64) -> Vec<TimedSample> {
    let sample = |process: u32, round: i32, (index, entry): (usize, &&Entry)| TimedSample {
        workload: spec.id.clone(),
        contender: entry.key.to_owned(),
        process,
        round,
        // Costs differ a little from round to round, in a different pattern for each contender.
        ns: 1000.0
            * factor(index)
            * if index == 2 { twin } else { 1.0 }
            * (1.0 + 0.001 * f64::from((round * (index as i32 + 3)) % 7)),
        ops: 100,
        involuntary_switches: Some(0),
        minor_faults: Some(0),
        steal: Some(0),
    };
    let rounds = (0..2).flat_map(|process| (0..6).map(move |round| (process, round)));
    rounds
        .flat_map(|(process, round)| entries.iter().enumerate().map(move |at| sample(process, round, at)))
        .collect()
}

fn memory(index: usize, entry: &Entry) -> PeakMemory {
    let live = 1 << 20;
    let over_time = (1..=60).map(|step| HeldAt {
        at: (step * 20_000) as f64,
        taken: live + step * 40_000 * index as u64,
        live: live / 2 + step * 8000,
    });
    PeakMemory {
        contender: entry.key.to_owned(),
        peak: live + 2_400_000 * index as u64,
        peak_live: live,
        exact: index.is_multiple_of(2),
        over_time: over_time.collect(),
    }
}

fn latencies(index: usize, entry: &Entry) -> Latencies {
    let above = |step: i32| {
        let ns = 20_000.0 * (1.0 + 0.1 * index as f64) * f64::from(step).exp2().powf(0.3);
        (ns as u64, (-f64::from(step)).exp2())
    };
    Latencies {
        contender: entry.key.to_owned(),
        requests: 4000,
        rate: Some(12_345.0),
        p50: 24_000,
        p99: 80_000,
        p999: 150_000,
        max: 300_000,
        above: (0..12).map(above).collect(),
    }
}

/// Returns the runs of a contender, whose resident memory falls with time.
fn alone(spec: &WorkloadSpec, index: usize, entry: &Entry) -> Vec<AloneRun> {
    let run = |order: AloneOrder| {
        let burst: u64 = 64 << 20;
        let at: Vec<f64> = match order.after {
            Some(_) => MOMENTS.into_iter().filter(|at| *at <= order.until).collect(),
            None => (1..=60).map(|reading| f64::from(reading) / 60.0).collect(),
        };
        let held = |at: f64| HeldAt {
            at,
            // The reference keeps its memory while its threads sleep.
            taken: if index == 1 && order.after == Some(AfterBurst::Asleep) {
                burst
            } else {
                (burst as f64 / (1.0 + at * (20 - index) as f64)) as u64
            },
            live: if spec.is_burst() { 0 } else { (2 << 20) + (at * 1e7) as u64 },
        };
        AloneRun {
            contender: entry.key.to_owned(),
            after: order.after,
            figures: AloneFigures {
                checksum: 7,
                ops: 100,
                seconds: 0.5,
                peak_live: burst,
                peak: burst + (index << 20) as u64,
                held: at.into_iter().map(held).collect(),
                calls: None,
            },
        }
    };
    spec.alone_orders(false).into_iter().map(run).collect()
}

fn outcome(spec: WorkloadSpec, all: &[Entry], twin: f64) -> WorkloadOutcome {
    let entries: Vec<&Entry> = all.iter().filter(|entry| entry.class == spec.class).collect();
    let state = |index: usize, entry: &Entry| match spec.need.missing(&entry.info.caps) {
        Some(why) => ContenderState::Missing(why.to_owned()),
        None if index == 6 => ContenderState::Crashed("aborted: no <luck>, when timed".to_owned()),
        None if index == 7 => ContenderState::Wrong("3 blocks lost what was written".to_owned()),
        None => ContenderState::Ran,
    };
    let ran: Vec<(usize, &Entry)> =
        entries.iter().copied().enumerate().filter(|(index, _)| *index != 0).collect();
    let watched = |wanted: bool| ran.iter().filter(move |_| wanted);
    let straggles = spec.id.contains("straggler");
    let states = entries.iter().enumerate();
    let states = states.map(|(index, entry)| (entry.key.to_owned(), state(index, entry)));
    let measured = Measurements {
        samples: samples(&spec, &entries, twin),
        memory: watched(straggles).map(|&(index, entry)| memory(index, entry)).collect(),
        latencies: watched(spec.has_latencies() || spec.is_alone())
            .map(|&(index, entry)| latencies(index, entry))
            .collect(),
        alone: watched(spec.is_alone()).flat_map(|&(index, entry)| alone(&spec, index, entry)).collect(),
        size: Some(SampleSize { units: 100, ops_per_unit: 1 }),
        ..Measurements::default()
    };
    WorkloadOutcome { states: states.collect(), measured, spec }
}

/// Returns the report's page, which is made once for all tests.
pub(crate) fn report() -> &'static str {
    static PAGE: OnceLock<String> = OnceLock::new();
    PAGE.get_or_init(make_report)
}

fn make_report() -> String {
    report::html(&compared(1.0), None)
}

/// Returns the report as data. The reference's second entry is `twin` times as slow as the
/// reference.
pub(crate) fn compared(twin: f64) -> BenchReport {
    let entries = contenders::all();
    let outcomes: Vec<WorkloadOutcome> =
        specs().into_iter().map(|spec| outcome(spec, &entries, twin)).collect();
    assert_eq!(outcomes.len(), IDS.len(), "all of them are in the catalogue");
    let calibration = Calibration {
        loop_ns: 0.3,
        void_pair_ns: 1.5,
        rmw_ns: 5.2,
        timer_median_ns: 20.0,
        timer_p999_ns: 40.0,
        timer_max_ns: 9000.0,
        timer_step_ns: 10.0,
        aa_floor: 0.0002,
        false_sharing: Some(3.5),
    };
    let mut report = BenchReport {
        mode: "quick".to_owned(),
        seed: 1,
        host: Host::here(&entries),
        calibration,
        document: "a document <of the test>".to_owned(),
        trials: (2, 6),
        left_to_full: vec!["S2/batch/25x16".to_owned()],
        tables: Vec::new(),
        alone: Vec::new(),
        bars: Vec::new(),
    };
    for outcome in &outcomes {
        report.add(outcome, &entries);
    }
    report.judge(&outcomes);
    report
}

/// Returns the page of advice on a program that frees each block after a thousand more allocations,
/// except for one block in seven. The page is made once for all tests.
pub(crate) fn advice() -> &'static str {
    static PAGE: OnceLock<String> = OnceLock::new();
    PAGE.get_or_init(make_advice)
}

fn make_advice() -> String {
    let mut writer = Writer::new("cc -c <file>.c");
    let mut sequence = 0;
    let mut call = |what: What| {
        sequence += 1;
        writer.push(&TraceEvent { sequence, time: sequence * 100, thread: 1, what });
    };
    for i in 0..20_000_u64 {
        call(What::Alloc { address: i * 4096, size: 1 + i * 7919 % 3000, align_log2: 0, zeroed: false });
        if let Some(before) = i.checked_sub(1000)
            && before % 7 != 0
        {
            call(What::Free { address: before * 4096 });
        }
    }
    let path =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{}", std::process::id()));
    writer.save(&path).expect("cargo's directory can be written");
    let trace = Trace::open(&path).expect("it was just written");
    let profile = TraceProfile::of(&trace, |_| {}).expect("it is whole");
    let _ = std::fs::remove_file(path);
    let row = |key: &str, mid: f64, verdict| ReplayRow {
        key: key.to_owned(),
        name: key.to_owned(),
        ratio: Estimate { mid, low95: mid * 0.9, high95: mid * 1.2, low99: mid * 0.8, high99: mid * 1.3 },
        verdict,
        ns: 20.0 * mid,
        peak: Some(3 << 20),
    };
    let replayed = Replayed {
        digest: String::new(),
        command: "cc".to_owned(),
        ops: 40_000,
        lanes: 1,
        threads: 1,
        huge: 0,
        peak_live: 1 << 20,
        rounds: 9,
        seed: 1,
        rows: vec![
            row(ALWAYS[1], 1.0, Verdict::Same),
            row("mimalloc", 0.6, Verdict::Faster),
            row("one-ring", 1.7, Verdict::Slower),
        ],
        left_out: vec![("bumpalo".to_owned(), "cannot free block by block".to_owned())],
        notes: Vec::new(),
    };
    page::page(&profile, &Advice::of(&profile, Some(&replayed)), Some(&replayed))
}
