//! `ephemera-trace`: shows the contents of a trace, and estimates what another allocator would
//! save.

use core::error::Error;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use ephemera_trace::advise::Advice;
use ephemera_trace::{Summary, Trace, TraceError, TraceProfile, figures, output, page, text, units};
use indicatif::{ProgressBar, ProgressStyle};

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
    /// Print the numbers of events, blocks, resizes and threads, the peak of the live bytes, and
    /// the number of blocks left at the end
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
            output::note(&format!("ephemera-trace: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Shows on the terminal that a trace is being read, until the caller clears the bar. A thread
/// redraws the bar, because a summary does not report its progress.
fn reading(trace: &Trace) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} gone  {msg}") {
        bar.set_style(style);
    }
    bar.set_message(format!("reading {} of trace", units::bytes(trace.bytes)));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Adds the path of a trace to an error.
fn of_trace(path: &Path) -> impl Fn(TraceError) -> String {
    move |error| format!("{}: {error}", path.display())
}

fn summary(path: &Path) -> Result<(), Box<dyn Error>> {
    let trace = Trace::open(path).map_err(of_trace(path))?;
    let bar = reading(&trace);
    let summary = Summary::of(&trace);
    bar.finish_and_clear();
    let summary = summary.map_err(of_trace(path))?;
    output::print(&format!("{}\n{summary}\n", trace.command))?;
    Ok(())
}

/// Returns an error if the page cannot be written, or if it would replace the trace, the figures of
/// its replay, or another trace.
fn check_page(out: &Path, trace: &Path) -> Result<(), Box<dyn Error>> {
    let replaced = if output::is_same(out, trace) {
        "the trace"
    } else if output::is_same(out, &figures::path(trace)) {
        "the figures of the trace's replay"
    } else if output::is_trace(out) {
        "a trace"
    } else {
        return Ok(output::check(out)?);
    };
    Err(format!("{}: the page would replace {replaced}; choose another name for it", out.display()).into())
}

fn advise(options: &AdviseOptions) -> Result<(), Box<dyn Error>> {
    // The page is checked first, because reading the trace may take minutes.
    options.html.as_deref().map_or(Ok(()), |out| check_page(out, &options.trace))?;
    let trace = Trace::open(&options.trace).map_err(of_trace(&options.trace))?;
    let bar = reading(&trace);
    let profile = TraceProfile::of(&trace, |events| {
        bar.set_message(format!("{} events read", units::grouped(events)));
    });
    bar.finish_and_clear();
    let profile = profile.map_err(of_trace(&options.trace))?;
    let replayed = figures::of(&options.trace, &profile);
    let advice = Advice::of(&profile, replayed.as_ref());
    let mut said = text::report(&profile, &advice);
    // The page is written first, because printing may fail.
    let mut written = Ok(());
    if let Some(out) = &options.html {
        written = output::replace(out, &page::page(&profile, &advice, replayed.as_ref()));
        if written.is_ok() {
            said.push_str(&format!("\nwrote {}\n", out.display()));
        }
    }
    let printed = output::print(&said);
    written?;
    printed?;
    Ok(())
}
