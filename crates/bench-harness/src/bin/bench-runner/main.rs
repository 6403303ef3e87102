//! `bench-runner`: compares allocators and writes a report, counts instructions, or replays a
//! trace. The measuring processes run this program, too.

mod cli;
mod icount;

use core::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write, stdout};
use std::process::ExitCode;
use std::time::Instant;

use bench_harness::calibrate::Calibration;
use bench_harness::card::{ContenderClass, Info};
use bench_harness::host::Host;
use bench_harness::report::baseline::{Baseline, Comparison};
use bench_harness::report::{self, BenchReport};
use bench_harness::runner::{self, ContenderState, Progress, RunPlan, WorkloadOutcome};
use bench_harness::workloads::{Document, Sources, ticks_per_ns};
use bench_harness::{contenders, replay};
use clap::Parser;
use ephemera_measure::progress::{STEPS, progress_bar};
use indicatif::{HumanDuration, ProgressBar};

use crate::cli::{RunnerArguments, RunnerTask};

fn main() -> ExitCode {
    match RunnerArguments::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-runner: {error}");
            ExitCode::FAILURE
        }
    }
}

impl RunnerArguments {
    /// Runs the command. Returns `false` only if a smoke run found a contender that crashed or gave
    /// wrong results.
    fn run(&self) -> Result<bool, Box<dyn Error>> {
        if let Some(job) = &self.child {
            runner::serve(&serde_json::from_str(job)?, &mut BufWriter::new(stdout().lock()))?;
            return Ok(true);
        }
        if let Some(region) = &self.region {
            icount::region(region)?;
            return Ok(true);
        }
        if self.list {
            self.print_list()?;
            return Ok(true);
        }
        if Host::unoptimised() && !self.smoke {
            eprintln!(
                "warning: built without optimisation; the figures mean nothing (use `--profile bench`)"
            );
        }
        if let Some(RunnerTask::Replay(options)) = &self.task {
            ephemera_trace::replay::run(options, &contenders::keys(), replay::field)?;
            return Ok(true);
        }
        fs::create_dir_all(&self.out)?;
        if self.icount {
            return self.count();
        }
        let plan = self.plan()?;
        if self.smoke { self.smoke(&plan) } else { self.compare(plan) }
    }

    fn print_list(&self) -> Result<(), Box<dyn Error>> {
        let mut out = stdout().lock();
        writeln!(out, "workloads")?;
        for spec in self.specs()? {
            writeln!(out, "  {:<24} {}", spec.id, spec.title)?;
        }
        for class in ContenderClass::ALL {
            writeln!(out, "contenders that hand out {}", class.word())?;
            for entry in contenders::of(class) {
                let Info { name, version, notes, .. } = entry.info;
                writeln!(out, "  {:<24} {name} {version}  {notes}", entry.key)?;
            }
        }
        Ok(())
    }

    fn smoke(&self, plan: &RunPlan) -> Result<bool, Box<dyn Error>> {
        let bar = run_bar();
        let outcomes = runner::run(plan, |progress| show(&bar, &progress), |_| ())?;
        bar.finish_and_clear();
        let mut good = true;
        for outcome in &outcomes {
            let ran = outcome.states.values().filter(|state| state.ran()).count();
            println!("{:<24} {ran} contenders agree", outcome.spec.id);
            good &= complain(outcome);
        }
        Ok(good)
    }

    fn count(&self) -> Result<bool, Box<dyn Error>> {
        // This call reports unknown names in `--peers`.
        self.entries()?;
        let specs = self.specs()?;
        let bar = progress_bar(0, STEPS);
        let file = icount::run(&specs, &self.peers, self.seed, &self.out, |total, id| {
            bar.set_length(total);
            advance(&bar, id);
        })?;
        bar.finish_and_clear();
        println!("counted; the figures are in {}", file.display());
        Ok(true)
    }

    fn compare(&self, mut plan: RunPlan) -> Result<bool, Box<dyn Error>> {
        // The baseline is read before the measurements start, so an error is reported at once.
        let baseline = self.baseline.as_deref().map(Baseline::load).transpose()?;
        let host = Host::here(&plan.entries);
        // The calibration has its own thread, because it pins that thread, and children inherit the
        // CPU mask of the thread that starts them.
        let calibration = std::thread::scope(|scope| scope.spawn(Calibration::run).join());
        let calibration = calibration.map_err(|_panic| "the calibration panicked")?;
        let document = Document::load(plan.document.as_deref(), plan.seed, plan.document_length);
        let mut report = BenchReport {
            mode: if self.full { "full" } else { "quick" }.to_owned(),
            seed: plan.seed,
            host,
            calibration,
            document: format!("{}, fingerprint {:016x}", document.origin, document.fingerprint()),
            trials: (plan.processes, plan.rounds),
            left_to_full: self.left_to_full(),
            tables: Vec::new(),
            alone: Vec::new(),
            bars: Vec::new(),
        };
        let mut corpus = None;
        for spec in &mut plan.specs {
            spec.title += &if spec.parses() {
                format!(": {}", document.origin)
            } else if spec.reads_sources() {
                let corpus = corpus.get_or_insert_with(|| Sources::corpus(plan.corpus.as_deref()));
                format!(": {}", corpus.origin)
            } else if let Some(ticks) = ticks_per_ns().filter(|_| spec.is_set()) {
                format!("; {ticks:.2} ticks of the time-stamp counter per ns")
            } else {
                String::new()
            };
        }
        drop(document);
        for (name, value) in report::host_block(&report) {
            println!("{name:<16} {value}");
        }
        let start = Instant::now();
        let bar = run_bar();
        let outcomes = runner::run(
            &plan,
            |progress| show(&bar, &progress),
            |outcome| {
                let table = report::terminal_table(report.add(outcome, &plan.entries));
                bar.suspend(|| print!("{table}"));
            },
        )?;
        bar.finish_and_clear();
        let measured = start.elapsed();
        report.judge(&outcomes);
        print!("{}", report::terminal_end(&report));
        let comparison = baseline.map(|baseline| baseline.compare(&report));
        if let Some(comparison) = &comparison {
            print!("{}", comparison.terminal());
        }
        self.write(&report, &outcomes, comparison.as_ref())?;
        println!(
            "measured for {:.0} s; report.html, report.md, summary.json, results.jsonl and svg/ are in {}",
            measured.as_secs_f64(),
            self.out.display()
        );
        // Contenders that crashed or gave wrong results are in the report. They fail a run only
        // with `--smoke`.
        for outcome in &outcomes {
            complain(outcome);
        }
        Ok(true)
    }

    fn write(
        &self,
        report: &BenchReport,
        outcomes: &[WorkloadOutcome],
        comparison: Option<&Comparison>,
    ) -> Result<(), Box<dyn Error>> {
        fs::write(self.out.join("report.md"), report::markdown(report, comparison))?;
        fs::write(self.out.join("report.html"), report::html(report, comparison))?;
        let mut summary = report::summary(report)?;
        if let Some(comparison) = comparison {
            summary["baseline"] = serde_json::to_value(comparison)?;
        }
        fs::write(self.out.join("summary.json"), serde_json::to_string_pretty(&summary)? + "\n")?;
        let mut samples = BufWriter::new(File::create(self.out.join("results.jsonl"))?);
        report::write_samples(outcomes, &mut samples)?;
        report::write_pictures(report, &self.out.join("svg"))?;
        Ok(())
    }
}

/// Prints each contender that crashed or gave wrong results in a workload. Returns `true` if there
/// is none.
fn complain(outcome: &WorkloadOutcome) -> bool {
    let mut good = true;
    for (key, state) in &outcome.states {
        if let ContenderState::Crashed(what) | ContenderState::Wrong(what) = state {
            eprintln!("{}: {key}: {what}", outcome.spec.id);
            good = false;
        }
    }
    good
}

/// Shows the next step in the bar, or prints a line for the step if there is no terminal.
fn advance(bar: &ProgressBar, step: &str) {
    if bar.is_hidden() {
        eprintln!("[{:>3}/{}] {step}", bar.position() + 1, bar.length().unwrap_or_default());
    }
    bar.set_message(step.to_owned());
    bar.inc(1);
}

/// Creates the progress bar of a run, which shows the share of the work that is done.
fn run_bar() -> ProgressBar {
    progress_bar(1000, "{bar:30}  {elapsed} elapsed, {msg}")
}

/// Shows the progress of a run in the bar, or prints a line for the step if there is no terminal.
fn show(bar: &ProgressBar, progress: &Progress<'_>) {
    let left = match progress.left {
        Some(left) => format!("about {} left", HumanDuration(left)),
        None => "starting".to_owned(),
    };
    let Progress { step, number, steps, done, .. } = progress;
    if bar.is_hidden() {
        eprintln!("[{number:>3}/{steps}] {left:<24} {step}");
    }
    bar.set_message(format!("{left}  {number}/{steps}  {step}"));
    bar.set_position((done * 1000.0) as u64);
}
