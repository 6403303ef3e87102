//! `ephemera-trace`: shows the contents of a trace, and estimates what another allocator would
//! save.

use core::error::Error;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ephemera_measure::progress::progress_bar;
use ephemera_trace::advise::Advice;
use ephemera_trace::{Summary, Trace, TraceError, TraceProfile, figures, output, page, text, units};
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
    Advise {
        /// The trace to read
        trace: PathBuf,
        /// Also write a page with pictures
        #[arg(long, value_name = "OUT")]
        html: Option<PathBuf>,
    },
    /// Print the numbers of events, blocks, resizes and threads, the peak of the live bytes, and
    /// the number of blocks left at the end
    Summary {
        /// The trace to read
        trace: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match TraceArguments::parse().task {
        TraceTask::Advise { trace, html } => advise(&trace, html.as_deref()),
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

/// Opens a trace and reads it with `pass`. Returns the trace and the result of `pass`. Shows on the
/// terminal that the trace is being read. A thread redraws the bar, because a summary does not
/// report its progress.
fn read<T>(
    path: &Path,
    pass: impl FnOnce(&Trace, &ProgressBar) -> Result<T, TraceError>,
) -> Result<(Trace, T), String> {
    let of_trace = |error| format!("{}: {error}", path.display());
    let trace = Trace::open(path).map_err(of_trace)?;
    let message = format!("reading {} of trace", units::bytes(trace.bytes));
    let bar = progress_bar(0, "{spinner} {elapsed} elapsed  {msg}").with_message(message);
    bar.enable_steady_tick(Duration::from_millis(100));
    let figures = pass(&trace, &bar);
    bar.finish_and_clear();
    Ok((trace, figures.map_err(of_trace)?))
}

fn summary(path: &Path) -> Result<(), Box<dyn Error>> {
    let (trace, summary) = read(path, |trace, _| Summary::of(trace))?;
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

fn advise(path: &Path, html: Option<&Path>) -> Result<(), Box<dyn Error>> {
    // The page is checked first, because reading the trace may take minutes.
    html.map_or(Ok(()), |out| check_page(out, path))?;
    let (_, profile) = read(path, |trace, bar| {
        TraceProfile::of(trace, |events| bar.set_message(format!("{} events read", units::grouped(events))))
    })?;
    let replayed = figures::of(path, &profile);
    let advice = Advice::of(&profile, replayed.as_ref());
    let mut said = text::report(&profile, &advice);
    // The page is written first, because printing may fail.
    let mut written = Ok(());
    if let Some(out) = html {
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
