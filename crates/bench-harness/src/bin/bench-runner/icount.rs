//! `--icount`: counts instructions per operation with callgrind. The program runs itself under
//! valgrind.
//!
//! For each workload and contender, a process runs the workload three times: first without
//! counting, to warm up, and then twice with counting, the second time with twice as much work. The
//! difference between the two counts is the cost of the work itself, because the fixed cost of a
//! run cancels out. Nothing is random: the environment is minimal, tables come from the seed, and
//! inputs are generated or part of the harness, so two runs give the same figures.

#![expect(clippy::std_instead_of_alloc, reason = "a program of a host")]

use core::error::Error;
use core::hint::black_box;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::{env, io, thread};

use bench_harness::contenders::{self, ALWAYS, Entry, REFERENCE, VOID};
use bench_harness::host::Host;
use bench_harness::workloads::{Cell, Context, Document, Need, Sources, WorkloadSpec};
use ephemera_measure::lanes::in_lanes;
use ephemera_measure::valgrind::{InstructionCounts, VALGRIND, WorkloadCounts, valgrind};

/// The name of the function that callgrind watches: [`ephemera_measured`].
const REGION: &str = "ephemera_measured";

/// The keys of this workspace's contenders.
const OURS: [&str; 9] =
    ["ring", "one-ring", "ringal", "pool", "arena", "shared", "typed-pool", "pooled-box", "pooled-allocator"];

/// The minimum length, in bytes, of the document that R1 parses. The document is generated, so it
/// is the same on every host.
const DOCUMENT: usize = 40_000;

/// The counted region: one call of a cell, the same call that the runner times.
// SAFETY: no other function of this program has that name.
#[unsafe(no_mangle)]
#[inline(never)]
extern "Rust" fn ephemera_measured(cell: &mut dyn Cell, units: u64) -> u64 {
    // The call must not be the function's last operation. A tail call would leave the region early.
    black_box(cell.run(units))
}

/// Returns whether a workload's count depends only on the program: the workload has one thread, and
/// its input does not come from the host. This excludes R2, R4 and R5, which read files of the
/// host, R3, which serves requests, and S12 and S13, which measure whole processes.
fn counted(spec: &WorkloadSpec) -> bool {
    let threads = matches!(spec.need, Need::OtherThread | Need::Shared | Need::ThreadsEnd);
    !threads && !spec.is_served() && !spec.reads_host() && !spec.is_alone()
}

/// Returns the contenders that can run a workload and that `peers` names. An empty `peers` stands
/// for the contenders of this workspace, the allocator that does nothing, and the reference.
fn entries(spec: &WorkloadSpec, peers: &[String]) -> Vec<Entry> {
    let by_default = [&OURS[..], &[ALWAYS[VOID], ALWAYS[REFERENCE]]].concat();
    let chosen = |key: &str| match peers {
        [] => by_default.contains(&key),
        _ => peers.iter().any(|peer| peer == key),
    };
    let able = |entry: &Entry| entry.absent.is_none() && spec.need.missing(&entry.info.caps).is_none();
    contenders::of(spec.class).into_iter().filter(|entry| chosen(entry.key) && able(entry)).collect()
}

/// Counts each workload of `specs` that can be counted. Writes `icount.json` into `out`, and
/// returns its path. Before it counts a workload, calls `step` with the total number of workloads
/// to count and the id of that workload. Returns an error if none of `specs` can be counted, if
/// valgrind is missing, or if a counted process fails.
pub(crate) fn run(
    specs: &[WorkloadSpec],
    peers: &[String],
    seed: u64,
    out: &Path,
    step: impl Fn(u64, &str) + Sync,
) -> Result<PathBuf, Box<dyn Error>> {
    let specs: Vec<&WorkloadSpec> = specs.iter().filter(|spec| counted(spec)).collect();
    if specs.is_empty() {
        return Err(
            "none of these workloads can be counted: they have several threads, read files of the host, or measure whole \
             processes"
                .into(),
        );
    }
    let valgrind = version()?;
    let scratch = std::path::absolute(out.join("scratch"))?;
    fs::create_dir_all(&scratch)?;
    // Counts do not depend on the load of the host, so one process runs on each processor.
    let lanes = thread::available_parallelism().map_or(1, usize::from);
    let total = specs.len() as u64;
    let done = in_lanes(lanes, specs, |lane, spec| {
        step(total, &spec.id);
        let file = scratch.join(format!("callgrind-{lane}"));
        let mut instructions = BTreeMap::new();
        for entry in entries(spec, peers) {
            let found = count(spec, entry.key, seed, &file)
                .map_err(|error| io::Error::other(format!("{}: {}: {error}", spec.id, entry.key)))?;
            instructions.insert(entry.key.to_owned(), found);
        }
        Ok((spec.id.clone(), WorkloadCounts { op: spec.op.to_owned(), instructions }))
    })?;
    let host = Host::here(&[]);
    let counts = InstructionCounts {
        rustc: host.rustc,
        target: host.target,
        build: host.profile,
        libc: host.libc,
        valgrind,
        commit: host.commit,
        seed,
        workloads: done.into_iter().collect(),
    };
    let file = out.join("icount.json");
    fs::write(&file, serde_json::to_string_pretty(&counts)? + "\n")?;
    Ok(file)
}

/// Returns the version of valgrind. If valgrind is missing, the error says how to install it.
fn version() -> Result<String, Box<dyn Error>> {
    let asked = valgrind().arg("--version").output().map_err(not_there)?;
    Ok(String::from_utf8_lossy(&asked.stdout).trim().to_owned())
}

fn not_there(error: io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        format!(
            "{VALGRIND} counts the instructions, and it is not installed: install it, \
             for example by `apt-get install valgrind`"
        )
    } else {
        format!("{VALGRIND} does not start: {error}")
    }
}

/// Counts the instructions per operation of one contender in one workload. Callgrind writes its
/// dumps beside `file`.
fn count(spec: &WorkloadSpec, contender: &str, seed: u64, file: &Path) -> Result<f64, Box<dyn Error>> {
    let program = env::current_exe()?;
    let (Some(directory), Some(name)) = (program.parent(), program.file_name()) else {
        return Err("the path of this program has no directory".into());
    };
    let units = spec.check_units().max(spec.least_units);
    // Callgrind interprets a percent sign in a file name as a directive.
    let path = file.to_string_lossy();
    let output = valgrind()
        .arg("--tool=callgrind")
        .arg(format!("--toggle-collect={REGION}"))
        .arg(format!("--dump-after={REGION}"))
        .arg(format!("--callgrind-out-file={}", path.replace('%', "%%")))
        .arg(Path::new(".").join(name))
        .arg("--region")
        .arg(serde_json::to_string(&(&spec.id, contender, units, seed))?)
        .current_dir(directory)
        .output()
        .map_err(not_there)?;
    let ops_per_unit = said(&output)?;
    // Callgrind writes a dump whenever the region returns, and one when the process ends.
    let total = |dump: u32| -> Result<u64, Box<dyn Error>> {
        let name = format!("{path}.{dump}");
        let text = fs::read_to_string(&name).map_err(|error| format!("no count was written: {error}"))?;
        fs::remove_file(name)?;
        totals(&text).ok_or_else(|| "callgrind's file has no totals".into())
    };
    let (once, twice) = (total(1)?, total(2)?);
    let _ = fs::remove_file(file);
    let slope = twice.checked_sub(once).filter(|slope| *slope > 0).ok_or_else(|| {
        format!("{once} instructions in {units} units and {twice} in twice as many: nothing was counted")
    })?;
    // Round to three decimals, to keep the file readable.
    Ok((slope as f64 / (units * ops_per_unit) as f64 * 1000.0).round() / 1000.0)
}

/// Returns the number that the measured process printed: the operations per unit. If the process
/// failed, the error has the last line of its standard error that valgrind did not write.
fn said(output: &Output) -> Result<u64, Box<dyn Error>> {
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let last = told.lines().rfind(|line| !line.starts_with("==")).unwrap_or("it said nothing");
        return Err(format!("under {VALGRIND}: {}: {last}", output.status).into());
    }
    Ok(said.trim().parse()?)
}

/// Returns the total count that a callgrind file states, or `None` if the file does not state one.
fn totals(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

/// Does the work of the measured process, and prints the number of operations per unit. The
/// argument has a workload, a contender, a number of units and the seed, as JSON.
pub(crate) fn region(argument: &str) -> Result<(), Box<dyn Error>> {
    let (workload, contender, units, seed): (String, String, u64, u64) = serde_json::from_str(argument)?;
    let specs = bench_harness::workloads::catalogue();
    let spec = specs.iter().find(|spec| spec.id == workload).ok_or("no such workload")?;
    let entry = contenders::of(spec.class).into_iter().find(|entry| entry.key == contender);
    let entry = entry.ok_or("no such contender")?;
    let context = Context {
        seed,
        document: Arc::new(Document::generated(seed, if spec.parses() { DOCUMENT } else { 1000 })),
        sources: Arc::new(Sources::new(None)),
        second_cpu: None,
    };
    let mut cell = (entry.timed)(spec, &context);
    black_box(cell.run(black_box(units)));
    for units in [units, 2 * units] {
        black_box(ephemera_measured(&mut *cell, black_box(units)));
    }
    println!("{}", cell.ops_per_unit());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{OURS, counted, entries, totals};
    use bench_harness::contenders;
    use bench_harness::workloads::catalogue;

    #[test]
    fn the_total_of_a_callgrind_file_is_found() {
        assert_eq!(totals("events: Ir\nfn=x\n0 5\n\ntotals: 316033\n"), Some(316_033));
        assert_eq!(totals("events: Ir\nsummary: 7\n"), None);
    }

    #[test]
    fn ours_are_counted_beside_the_loop_and_the_reference() {
        let known = contenders::keys();
        assert!(OURS.iter().all(|key| known.contains(key)), "{OURS:?} of {known:?}");
        let specs = catalogue();
        let of = |id: &str, peers: &[String]| -> Vec<&str> {
            let spec = specs.iter().find(|spec| spec.id == id).expect("the workload is there");
            entries(spec, peers).iter().map(|entry| entry.key).collect()
        };
        assert_eq!(of("S1/pair/64", &[]), ["nothing", "glibc", "ring", "one-ring", "pooled-allocator"]);
        assert!(!of("R1/json", &[]).contains(&"nothing"), "it keeps no contents");
    }

    #[test]
    fn only_named_contenders_are_counted() {
        let specs = catalogue();
        let spec = specs.iter().find(|spec| spec.id == "S1-buffers/fixed/64").expect("the workload is there");
        let of = |peers: &[&str]| -> Vec<&str> {
            let peers: Vec<String> = peers.iter().map(|&peer| peer.to_owned()).collect();
            entries(spec, &peers).iter().map(|entry| entry.key).collect()
        };
        assert_eq!(of(&["ringal"]), ["ringal"]);
        assert_eq!(of(&["nothing", "ringal"]), ["nothing", "ringal"]);
    }

    #[test]
    fn workloads_with_threads_or_inputs_of_the_host_or_processes_of_their_own_are_not_counted() {
        let names: Vec<String> = catalogue().into_iter().filter(counted).map(|spec| spec.id).collect();
        for no in [
            "S8/handoff/64",
            "S9/larson/1",
            "S9-objects/at-once/10000",
            "S12/idle/local",
            "S13/ageing",
            "R2/csv",
            "R3/http",
            "R4/ast/clean",
        ] {
            assert!(!names.iter().any(|name| name == no), "{no}");
        }
        for yes in [
            "S1/pair/64",
            "R1/json",
            "R6/replay/git",
            "S3-objects/slots",
            "S2-set/insert",
            "S1-buffers/fixed/64",
        ] {
            assert!(names.iter().any(|name| name == yes), "{yes}");
        }
    }
}
