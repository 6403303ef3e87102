//! The command `replay`: measures all candidates, prints a table, and writes the figures beside
//! the trace.
#![forbid(unsafe_code)]

use core::error::Error;
use std::path::{Path, PathBuf};

use crate::units::bytes;
use crate::{figures, output, text};
use clap::Args;
use ephemera_measure::progress::{STEPS, progress_bar};
use ephemera_recorder::Trace;

use super::memory::{self, MemoryMeter};
use super::replayed::{REFERENCE, ReplayRow, Replayed, TWIN};
use super::room::{self, needs};
use super::{Field, ReplayProgram, parent, timed};

/// The size in bytes of the smallest trace for which the replay prints that it is reading the
/// trace.
const LARGE: u64 = 64 << 20;

/// The maximum number of rounds, about a thousand times the default.
const MOST_ROUNDS: i64 = 10_000;

/// The arguments of a replay.
#[derive(Debug, Args)]
pub struct ReplayOptions {
    /// The trace to replay
    trace: PathBuf,
    /// Measure only these allocators and the reference
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    peers: Vec<String>,
    /// The number of rounds; each allocator has one turn in each
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=MOST_ROUNDS))]
    rounds: u32,
    /// The seed of the order of turns
    #[arg(long, value_name = "N", default_value_t = 4141)]
    seed: u64,
    // A replay passes the next three arguments to its child processes.
    /// Measure the memory of one contender
    #[arg(long, hide = true, value_name = "KEY")]
    memory_of: Option<String>,
    /// The ID of the parent process; this process ends when its parent ends
    #[arg(long, hide = true, value_name = "PID")]
    parent: Option<u32>,
    /// Touch no pages beyond the first of a block
    #[arg(long, hide = true)]
    sparse: bool,
    // For tests.
    /// Assume that this many bytes of memory are available
    #[arg(long, hide = true, value_name = "BYTES")]
    room: Option<u64>,
}

/// Runs a replay over the allocators that `field` returns. `field` receives whether the program has
/// several threads, and the keys that the user named. No key means all allocators. `known` lists
/// all keys.
///
/// A replay starts the calling program again, with [`SUBCOMMAND`](super::SUBCOMMAND) and
/// [`ReplayOptions`] as its arguments, to measure the memory of one allocator in a separate
/// process.
///
/// # Errors
///
/// Returns an error if a key is unknown, if the trace cannot be read or has no call, if the figures
/// cannot be written or printed, if there is too little memory or disk space, or if the reference
/// cannot play.
pub fn run(
    options: &ReplayOptions,
    known: &[&str],
    field: impl Fn(bool, &[String]) -> Field,
) -> Result<(), Box<dyn Error>> {
    options.parent.map_or(Ok(()), parent::end_with)?;
    let trace =
        Trace::open(&options.trace).map_err(|error| format!("{}: {error}", options.trace.display()))?;
    if let Some(key) = &options.memory_of {
        let program = program(&options.trace, &trace)?;
        // The parent process names only a candidate of its own field, and `field` includes every
        // allocator that is named.
        let field = field(program.is_threaded(), core::slice::from_ref(key));
        return memory::measure_this_process(&program, key, &field, options.sparse);
    }
    if let Some(peer) = options.peers.iter().find(|peer| !known.contains(&peer.as_str())) {
        return Err(
            format!("no contender `{peer}` in this build; the contenders are {}", known.join(", ")).into()
        );
    }
    figures::check(&options.trace)?;
    if trace.bytes >= LARGE {
        output::note(&format!(
            "Reading {} of trace. Its operations go to a file of about the same size beside it.",
            bytes(trace.bytes)
        ));
    }
    let program = program(&options.trace, &trace)?;
    let mut field = field(program.is_threaded(), &options.peers);
    list_missing(&mut field, &options.peers);
    let available = options.room.or_else(room::available);
    announce(&program, field.candidates.len(), available)?;
    let replayed = measure(options, &program, field, available, &trace.command)?;
    let mut said = text::replay(&replayed);
    // The figures are written first, because printing may fail.
    let kept = figures::keep(&options.trace, &replayed);
    if let Ok(out) = &kept {
        said.push_str(&format!("wrote {}\n", out.display()));
    }
    let printed = output::print(&said);
    kept?;
    printed?;
    Ok(())
}

/// Adds to `left_out` each allocator that the user named and that `field` does not list, with the
/// reason.
fn list_missing(field: &mut Field, peers: &[String]) {
    for peer in peers {
        let takes_part = field.candidates.iter().any(|candidate| candidate.key == peer);
        if !takes_part && !field.left_out.iter().any(|(key, _)| key == peer) {
            let why = "it does not serve blocks of any size, so it cannot replay a trace";
            field.left_out.push((peer.clone(), why.to_owned()));
        }
    }
}

/// Measures memory, then time. Leaves out a candidate that cannot play in its child process, and
/// does not time it. Returns an error if this candidate is the reference.
fn measure(
    options: &ReplayOptions,
    program: &ReplayProgram,
    field: Field,
    available: Option<u64>,
    command: &str,
) -> Result<Replayed, Box<dyn Error>> {
    let Field { candidates, mut left_out } = field;
    let too_large = room::too_large(program, available);
    // The limit is three quarters, because up to half of the available bytes may be live, and an
    // allocator takes more than it hands out.
    let limit = available.map(|bytes| bytes / 4 * 3);
    let meter = MemoryMeter { trace: &options.trace, limit, sparse: too_large.is_some() };
    let bar = progress_bar(candidates.len() as u64 + u64::from(options.rounds) + 1, STEPS);
    let (mut timed, mut peaks) = (Vec::new(), Vec::new());
    let mut notes: Vec<String> = too_large.into_iter().collect();
    for candidate in candidates {
        bar.set_message(format!("memory of {}", candidate.key));
        bar.inc(1);
        // The twin, the reference's second entry, takes as much memory as the reference.
        let measured = if candidate.key == TWIN { Ok((None, None)) } else { meter.peak_of(candidate.key) };
        match measured {
            Ok((peak, note)) => {
                timed.push(candidate);
                peaks.push(peak);
                notes.extend(note.filter(|note| !notes.contains(note)));
            }
            Err(why) if candidate.key == REFERENCE => return Err(no_reference(&why).into()),
            Err(why) => left_out.push((candidate.key.to_owned(), why)),
        }
    }
    let times = timed::time(program, &timed, options.rounds, options.seed, |round| {
        bar.set_message(format!("round {round}"));
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    notes.extend(timed.iter().zip(&times).filter_map(|(candidate, timed)| timed.swayed_note(candidate.name)));
    let rows = timed.iter().zip(times).zip(peaks).map(|((candidate, timed), peak)| ReplayRow {
        key: candidate.key.to_owned(),
        name: candidate.name.to_owned(),
        ratio: timed.ratio,
        verdict: timed.verdict,
        ns: timed.ns,
        peak,
    });
    Ok(Replayed {
        digest: program.digest.to_string(),
        command: command.to_owned(),
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
    })
}

/// Creates the program of a trace, with a file beside the trace for all operations except the last
/// ones of each lane. Returns an error if the trace cannot be read or has no call, or if the file
/// cannot be written.
fn program(path: &Path, trace: &Trace) -> Result<ReplayProgram, Box<dyn Error>> {
    let program = ReplayProgram::beside(trace, output::directory_of(path))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    if program.ops == 0 {
        return Err(format!("{}: the trace has no call to replay", path.display()).into());
    }
    Ok(program)
}

/// Prints how much memory and disk space the replay needs, before the replay takes most of it.
/// Returns an error if less memory is available than the replay takes for itself.
fn announce(program: &ReplayProgram, players: usize, available: Option<u64>) -> Result<(), String> {
    let needed = needs(program, players);
    let free = available.map_or_else(String::new, |free| format!("; {} are free here", bytes(free)));
    output::note(&format!(
        "The replay takes {} of memory for itself and up to {} for the blocks of the program{free}. Its operations take \
         {} on the disk of the trace, and twice that while memory is measured.",
        bytes(needed),
        bytes(program.peak_live),
        bytes(program.on_disk()),
    ));
    match available.filter(|free| needed > *free) {
        None => Ok(()),
        Some(free) => Err(format!(
            "the replay needs {} of memory for itself, and {} are free: name fewer allocators (`--peers`), or use a \
             larger machine",
            bytes(needed),
            bytes(free)
        )),
    }
}

fn no_reference(why: &str) -> String {
    format!(
        "{REFERENCE} cannot replay this trace, and all others are compared with it: {why}. Most often memory is short: free \
         some, raise a limit (`ulimit -v`), use a larger machine, or record less (`--max-bytes`)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Candidate;

    #[test]
    fn a_named_allocator_that_cannot_replay_is_listed_once() {
        let mut field = Field {
            candidates: vec![Candidate::new::<std::alloc::System>("ring", "Ring")],
            left_out: vec![("arena".to_owned(), "it frees nothing".to_owned())],
        };
        let peers = ["ring", "slab", "arena", "slab", "bytes"].map(str::to_owned);
        list_missing(&mut field, &peers);
        let keys: Vec<&str> = field.left_out.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["arena", "slab", "bytes"]);
        assert_eq!(field.left_out[0].1, "it frees nothing", "the reason stays");
    }
}
