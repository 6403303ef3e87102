//! `cargo xtask bench --icount`: counts instructions per operation and compares them with the
//! record in `benches/icount.json`.
//!
//! On a busy machine, times cannot show a regression of a few per cent. Counts of instructions can
//! show it, because they are the same in every run. Counts do not tell which allocator is faster:
//! an access counts as one instruction, whether it hits or misses the cache.

mod compare;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use ephemera_measure::valgrind::InstructionCounts;

use self::compare::{BUILD, judged, merged, table};
use crate::bench;
use crate::steps::{Outcome, Step};
use crate::workspace::Workspace;

/// The record's path from the root.
const RECORD: &str = "benches/icount.json";

const UNRECORDED: &str =
    "there is no benches/icount.json; `cargo xtask bench --icount --full --rebase` writes it";

const PROFILE: &str = "icount";

/// The regular expression for the workloads that `ci` counts, within two minutes: the fast path,
/// the refill and the worst case of each crate.
const IN_CI: &str = "^(S1/pair/(64|1024|8192)|S2/batch/100x16|W/window/1024x136|S3/slots/[bc]\
|S5/(push|reserve_exact)/146|S6/straggler/1e-2|S11/frames|R1/json|R6/replay/(git|serde_json)\
|S1-objects/pair/40|S2-objects/batch/20000x32|S3-objects/slots|S6-objects/straggler/1e-2\
|S2-set/insert|S1-buffers/(fixed/64|extend|freeze)|S7-buffers/packet/1024)$";

/// Counts instructions, and compares the counts with the record or writes a new record. Returns
/// `false` if a count exceeds the bounds of its record, or if no contender of this workspace was
/// counted. Returns `true` otherwise, even if the counts cannot be compared with the record.
pub(crate) fn main(ws: &Workspace, options: &bench::BenchOptions) -> Result<bool> {
    let counts = count(ws, options)?;
    let path = ws.root.join(RECORD);
    let record = load(&path)?;
    let whole = options.is_whole();
    if options.rebase {
        print!("{}", table(&counts, record.as_ref()));
        let counts = match record {
            Some(record) if !whole => merged(record, counts)?,
            _ => counts,
        };
        fs::create_dir_all(path.parent().context("the record lies in a directory")?)?;
        fs::write(&path, serde_json::to_string_pretty(&counts)? + "\n")?;
        println!("recorded in {RECORD}");
        return Ok(true);
    }
    let Some(record) = record else {
        print!("{}", table(&counts, None));
        bail!(UNRECORDED);
    };
    match judged(&counts, &record, whole) {
        Outcome::Failed(why) => {
            println!("FAILED: {why}");
            Ok(false)
        }
        Outcome::Passed(what) | Outcome::Skipped(what) => {
            println!("{what}");
            Ok(true)
        }
    }
}

/// Returns the step of `ci` that counts instructions.
pub(crate) fn step() -> Step<'static> {
    Step::new("icount", "no operation takes more instructions than recorded", |ws| {
        if !starts(Command::new("valgrind").arg("--version")) {
            return Ok(without_valgrind());
        }
        let record = load(&ws.root.join(RECORD))?.context(UNRECORDED)?;
        let counts = count(ws, &bench::BenchOptions::only(IN_CI, &compare::gated(&record)))?;
        Ok(judged(&counts, &record, false))
    })
}

/// Returns the outcome without valgrind: a failure if `apt-get` offers valgrind, otherwise a
/// skipped step.
fn without_valgrind() -> Outcome {
    let way = "`apt-get install valgrind`, or your system's package manager";
    if starts(Command::new("apt-get").args(["install", "--simulate", "valgrind"])) {
        Outcome::Failed(format!("valgrind is not installed, but is available: {way}"))
    } else {
        Outcome::Skipped(format!("valgrind, which counts instructions, is not installed: {way}"))
    }
}

fn starts(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Builds the harness, runs it in counting mode, and returns the counts.
fn count(ws: &Workspace, options: &bench::BenchOptions) -> Result<InstructionCounts> {
    let harness = |what| bench::harness(ws, what, PROFILE, None);
    eprintln!("Building the harness: {BUILD}. The first build takes some minutes.");
    harness("build")?.run_or("the harness does not build: see the messages above")?;
    let out = match &options.out {
        Some(dir) => std::path::absolute(dir)?,
        None => ws.target_dir("bench-icount"),
    };
    let mut run = harness("run")?.args(["--quiet", "--", "--icount", "--out"]).arg(&out);
    run = run.args(options.chosen());
    run.run_or("the harness could not count: see its messages above")?;
    load(&out.join("icount.json"))?.context("the harness wrote no figures")
}

fn load(path: &Path) -> Result<Option<InstructionCounts>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let counts = serde_json::from_str(&text).with_context(|| {
        format!("{} holds no figures: `--icount --full --rebase` writes a new record", path.display())
    })?;
    Ok(Some(counts))
}
