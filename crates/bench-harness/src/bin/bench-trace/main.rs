//! `bench-trace`: replays a recorded program over other allocators, and says what it would gain from one.

mod figures;
mod memory;

use core::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench_harness::contenders::{self, ALWAYS, Entry, REFERENCE, TWIN};
use bench_harness::host::Host;
use bench_harness::trace::advise::Advice;
use bench_harness::trace::replay::{self, Program, Replayed, Row};
use bench_harness::trace::{Profile, Trace, page, text};
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

/// Replays a recorded program over other allocators, and says what it would gain from one.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  bench-trace advise TRACE --html advice.html
  bench-trace replay TRACE --peers mimalloc,one-ring
  bench-trace summary TRACE"
)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Sizes, lifetimes, orders, and a verdict; nothing is run
    Advise(AdviseOptions),
    /// Run it over every general allocator
    Replay(ReplayOptions),
    /// A few numbers
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

#[derive(Debug, Args)]
struct ReplayOptions {
    /// The trace
    trace: PathBuf,
    /// Only these contenders, beside the reference
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    peers: Vec<String>,
    /// Rounds, in each of which every contender has its turn
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seeds the order of turns
    #[arg(long, value_name = "N", default_value_t = 4141)]
    seed: u64,
    #[command(flatten)]
    own: memory::Own,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Task::Advise(options) => advise(&options),
        Task::Replay(options) => match &options.own.memory_of {
            Some(key) => memory::of_this_process(&options.trace, key, options.own.sparse),
            None => replay(&options),
        },
        Task::Summary { trace } => summary(&trace),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-trace: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Bytes of a trace that takes a while to read.
const LARGE: u64 = 64 << 20;

fn open(path: &Path) -> Result<Trace, Box<dyn Error>> {
    Trace::open(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn summary(path: &Path) -> Result<(), Box<dyn Error>> {
    let trace = open(path)?;
    println!("{}\n{}", trace.command, bench_harness::trace::Summary::of(&trace)?);
    Ok(())
}

fn advise(options: &AdviseOptions) -> Result<(), Box<dyn Error>> {
    let trace = open(&options.trace)?;
    let bar = ProgressBar::new_spinner();
    let profile = Profile::of(&trace, |events| {
        bar.set_message(format!("{} events read", text::grouped(events)));
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

/// The program of a trace. Most of its operations are kept in a file beside the trace.
fn program(path: &Path, trace: &Trace) -> Result<Program, Box<dyn Error>> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let program =
        Program::beside(trace, directory).map_err(|error| format!("{}: {error}", path.display()))?;
    if program.ops == 0 {
        return Err(format!("{}: nothing to replay", path.display()).into());
    }
    Ok(program)
}

/// Says what a replay will take, before it takes most of it; an error where there is too little.
fn announce(program: &Program, players: usize, room: Option<u64>) -> Result<(), String> {
    let needs = program.needs(players);
    let free = room.map_or_else(String::new, |room| format!("; {} are free here", text::bytes(room)));
    eprintln!(
        "The replay takes {} of memory for itself and up to {} for the blocks of the program{free}. Its operations take \
         {} on the disk of the trace, and twice that while memory is measured.",
        text::bytes(needs),
        text::bytes(program.peak_live),
        text::bytes(program.on_disk()),
    );
    match room.filter(|room| needs > *room) {
        None => Ok(()),
        Some(room) => Err(format!(
            "the replay needs {} of memory for itself, and {} are free: name fewer allocators (`--peers`), or use a \
             larger machine",
            text::bytes(needs),
            text::bytes(room)
        )),
    }
}

/// Nothing can be said where the reference failed.
fn no_reference(why: &str) -> String {
    format!(
        "{} cannot replay this trace, and all others are compared with it: {why}. Most often memory is short: free some, \
         lift a limit (`ulimit -v`), use a larger machine, or record less (`--max-bytes`)",
        ALWAYS[REFERENCE]
    )
}

fn replay(options: &ReplayOptions) -> Result<(), Box<dyn Error>> {
    if Host::unoptimised() {
        eprintln!("warning: built without optimisation; the figures mean nothing (use `--profile bench`)");
    }
    let known = contenders::keys();
    if let Some(peer) = options.peers.iter().find(|peer| !known.contains(&peer.as_str())) {
        return Err(format!("no contender `{peer}` in this build; there are {}", known.join(", ")).into());
    }
    let trace = open(&options.trace)?;
    if trace.bytes >= LARGE {
        eprintln!(
            "Reading {} of trace. Its operations go to a file beside it, which takes about as much.",
            text::bytes(trace.bytes)
        );
    }
    let program = program(&options.trace, &trace)?;
    let (players, left_out) = replay::players(program.is_threaded(), &options.peers);
    let room = options.own.room.or_else(replay::room);
    announce(&program, players.len(), room)?;
    let too_large = replay::too_large(&program, room);
    // What is alive may be half of the room; an allocator takes more than it hands out.
    let most = room.map(|room| room / 4 * 3);
    let meter = memory::Meter { trace: &options.trace, most, sparse: too_large.is_some() };
    // Memory first: a contender that crashes then does so in a process of its own, and is not timed.
    let bar = progress(players.len() as u64 + u64::from(options.rounds) + 1);
    let (mut timed, mut peaks, mut left_out) = (Vec::<Entry>::new(), Vec::new(), left_out);
    let mut notes: Vec<String> = too_large.iter().cloned().collect();
    for entry in players {
        bar.set_message(format!("memory of {}", entry.key));
        bar.inc(1);
        let measured = if entry.key == ALWAYS[TWIN] {
            // As the reference.
            Ok((None, None))
        } else {
            meter.peak_of(entry.key)
        };
        match measured {
            Ok((peak, note)) => {
                timed.push(entry);
                peaks.push(peak);
                notes.extend(note.filter(|note| !notes.contains(note)));
            }
            Err(why) if entry.key == ALWAYS[REFERENCE] => return Err(no_reference(&why).into()),
            Err(why) => left_out.push((entry.key.to_owned(), why)),
        }
    }
    let times = replay::time(&program, &timed, options.rounds, options.seed, |round| {
        bar.set_message(format!("round {round}"));
        bar.inc(1);
    })?;
    bar.finish_and_clear();

    notes.extend(timed.iter().zip(&times).filter_map(|(entry, timed)| timed.swayed_note(entry.info.name)));
    let rows = timed.iter().zip(times).zip(peaks).map(|((entry, timed), peak)| Row {
        key: entry.key.to_owned(),
        name: entry.info.name.to_owned(),
        ratio: timed.ratio,
        verdict: timed.verdict,
        ns: timed.ns,
        peak,
    });
    let replayed = Replayed {
        command: trace.command,
        ops: program.ops,
        lanes: program.lanes.len(),
        threads: program.threads,
        huge: program.huge,
        peak_live: program.peak_live,
        rounds: options.rounds,
        seed: options.seed,
        rows: rows.collect(),
        left_out,
        notes,
    };
    print!("{}", text::replay(&replayed));
    let out = figures::keep(&options.trace, program.digest, replayed)?;
    println!("wrote {}", out.display());
    Ok(())
}

/// A bar without a thread of its own: a second thread would change what allocators do.
fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed} gone, {eta} left  {msg}")
    {
        bar.set_style(style);
    }
    bar
}
