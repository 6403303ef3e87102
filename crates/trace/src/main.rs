//! `ephemera-trace`: shows the contents of a trace, and estimates what another allocator would
//! save.

use core::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use ephemera_trace::advise::Advice;
use ephemera_trace::{Summary, Trace, TraceProfile, figures, page, text, units};
use indicatif::ProgressBar;

/// Reads a trace of the recorder and says what the program would gain from another allocator
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  ephemera-trace advise TRACE --html advice.html
  ephemera-trace summary TRACE"
)]
struct TraceArguments {
    #[command(subcommand)]
    task: TraceTask,
}

#[derive(Debug, Subcommand)]
enum TraceTask {
    /// Print sizes, lifetimes, orders of frees, and a verdict; this runs no program
    Advise(AdviseOptions),
    /// Print a few numbers
    Summary {
        /// The trace
        trace: PathBuf,
    },
}

#[derive(Debug, Args)]
struct AdviseOptions {
    /// The trace
    trace: PathBuf,
    /// Also write a page with pictures
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

fn main() -> ExitCode {
    let done = match TraceArguments::parse().task {
        TraceTask::Advise(options) => advise(&options),
        TraceTask::Summary { trace } => summary(&trace),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ephemera-trace: {error}");
            ExitCode::FAILURE
        }
    }
}

fn open(path: &Path) -> Result<Trace, Box<dyn Error>> {
    Trace::open(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn summary(path: &Path) -> Result<(), Box<dyn Error>> {
    let trace = open(path)?;
    println!("{}\n{}", trace.command, Summary::of(&trace)?);
    Ok(())
}

fn advise(options: &AdviseOptions) -> Result<(), Box<dyn Error>> {
    let trace = open(&options.trace)?;
    let bar = ProgressBar::new_spinner();
    let profile = TraceProfile::of(&trace, |events| {
        bar.set_message(format!("{} events read", units::grouped(events)));
        bar.tick();
    });
    bar.finish_and_clear();
    let profile = profile.map_err(|error| format!("{}: {error}", options.trace.display()))?;
    let replayed = figures::of(&options.trace, &trace);
    let advice = Advice::of(&profile, replayed.as_ref());
    print!("{}", text::report(&profile, &advice));
    if let Some(out) = &options.html {
        fs::write(out, page::page(&profile, &advice, replayed.as_ref()))?;
        println!("\nwrote {}", out.display());
    }
    Ok(())
}
