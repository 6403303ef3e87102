//! `bench-runner`: runs the comparison and writes its report. The same binary is its own measuring process.

mod cli;

use core::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write, stdout};
use std::process::ExitCode;
use std::time::Instant;

use bench_harness::calibrate::Calibration;
use bench_harness::card::{Class, Info};
use bench_harness::contenders;
use bench_harness::host::Host;
use bench_harness::report::{self, Report};
use bench_harness::runner::{self, Outcome, Plan, State};
use bench_harness::workloads::blocks::json::Document;
use bench_harness::workloads::nodes::{Sources, ticks_per_ns};
use bench_harness::workloads::{Kind, NodeWorkload};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::Arguments;

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-runner: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    /// Does what was asked; whether all is well.
    fn run(&self) -> Result<bool, Box<dyn Error>> {
        if let Some(job) = &self.child {
            runner::serve(&serde_json::from_str(job)?, &mut BufWriter::new(stdout().lock()))?;
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
        fs::create_dir_all(&self.out)?;
        let plan = self.plan()?;
        if self.smoke { self.smoke(&plan) } else { self.compare(plan) }
    }

    fn print_list(&self) -> Result<(), Box<dyn Error>> {
        let mut out = stdout().lock();
        writeln!(out, "workloads")?;
        for spec in self.specs()? {
            writeln!(out, "  {:<24} {}", spec.id, spec.title)?;
        }
        for class in Class::ALL {
            writeln!(out, "contenders that hand out {}", class.word())?;
            for entry in contenders::of(class) {
                let Info { name, version, notes, .. } = entry.info;
                writeln!(out, "  {:<24} {name} {version}  {notes}", entry.key)?;
            }
        }
        Ok(())
    }

    fn smoke(&self, plan: &Plan) -> Result<bool, Box<dyn Error>> {
        let bar = progress(plan.specs.len() as u64);
        let outcomes = runner::smoke(plan, |step| advance(&bar, step))?;
        bar.finish_and_clear();
        let mut good = true;
        for outcome in &outcomes {
            let ran = outcome.states.values().filter(|state| state.ran()).count();
            println!("{:<24} {ran} contenders agree", outcome.spec.id);
            good &= complain(outcome);
        }
        Ok(good)
    }

    fn compare(&self, mut plan: Plan) -> Result<bool, Box<dyn Error>> {
        let host = Host::here(&plan.entries);
        // On a thread of its own: it pins itself, and children inherit the mask of whoever starts them.
        let calibration = std::thread::scope(|scope| scope.spawn(Calibration::run).join());
        let calibration = calibration.map_err(|_panic| "the calibration panicked")?;
        let document = Document::load(plan.document.as_deref(), plan.seed);
        let mut report = Report {
            mode: if self.full { "full" } else { "quick" }.to_owned(),
            seed: plan.seed,
            host,
            calibration,
            document: format!("{}, fingerprint {:016x}", document.origin, document.fingerprint()),
            trials: (plan.processes, plan.rounds),
            tables: Vec::new(),
            bars: Vec::new(),
        };
        for spec in plan.specs.iter_mut().filter(|spec| spec.parses()) {
            spec.title = format!("{}: {}", spec.title, document.origin);
        }
        drop(document);
        let mut corpus = None;
        for spec in &mut plan.specs {
            let Kind::Nodes(workload) = spec.kind else { continue };
            if workload.reads_sources() {
                let corpus = corpus.get_or_insert_with(|| Sources::corpus(plan.corpus.as_deref()));
                spec.title = format!("{}: {}", spec.title, corpus.origin);
            } else if let (NodeWorkload::Set(..), Some(ticks)) = (workload, ticks_per_ns()) {
                spec.title = format!("{}; {ticks:.2} ticks of the time-stamp counter a ns", spec.title);
            }
        }
        for (name, value) in report::host_block(&report) {
            println!("{name:<16} {value}");
        }
        let start = Instant::now();
        let bar = progress(plan.steps());
        let outcomes = runner::run(&plan, |step| advance(&bar, step))?;
        bar.finish_and_clear();
        let measured = start.elapsed();
        report = Report::new(&outcomes, &plan.entries, report);
        print!("{}", report::terminal(&report));
        self.write(&report, &outcomes)?;
        println!(
            "measured for {:.0} s; report.md, summary.json, results.jsonl and svg/ are in {}",
            measured.as_secs_f64(),
            self.out.display()
        );
        // A contender that crashed or went wrong is a cell, which is a result; `--smoke` is the test.
        for outcome in &outcomes {
            complain(outcome);
        }
        Ok(true)
    }

    fn write(&self, report: &Report, outcomes: &[Outcome]) -> Result<(), Box<dyn Error>> {
        fs::write(self.out.join("report.md"), report::markdown(report))?;
        let summary = serde_json::to_string_pretty(&report::summary(report)?)?;
        fs::write(self.out.join("summary.json"), summary + "\n")?;
        let mut samples = BufWriter::new(File::create(self.out.join("results.jsonl"))?);
        report::write_samples(outcomes, &mut samples)?;
        report::write_pictures(report, &self.out.join("svg"))?;
        Ok(())
    }
}

/// Says what went wrong; whether nothing did.
fn complain(outcome: &Outcome) -> bool {
    let mut good = true;
    for (key, state) in &outcome.states {
        if let State::Crashed(what) | State::Wrong(what) = state {
            eprintln!("{}: {key}: {what}", outcome.spec.id);
            good = false;
        }
    }
    good
}

fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed} gone, {eta} left  {msg}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

/// Shows the next step; as a line a step where there is no terminal.
fn advance(bar: &ProgressBar, step: &str) {
    if bar.is_hidden() {
        eprintln!("[{:>3}/{}] {step}", bar.position() + 1, bar.length().unwrap_or_default());
    }
    bar.set_message(step.to_owned());
    bar.inc(1);
}
