//! Runs the rounds: every program over every allocator, in random order.

use core::hash::Hasher as _;
use core::time::Duration;
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::DefaultHasher;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use ephemera_measure::progress::progress_bar;
use ephemera_measure::turns::next_round;
use ephemera_measure::{host, os};
use indicatif::ProgressBar;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::builds::{self, BuiltPaths};
use super::catalogue::{
    self, ALLOCATORS, GeneralAllocator, MeasuredProgram, PROGRAMS, ProgramPlan, ProgramWay, SystemCommand,
};
use super::figures::{ProgramEnd, ProgramRun};
use super::page::{self, ProgramReport};
use super::preload;
use super::process::{self, ProcessFigures};
use crate::bench::BenchOptions;
use crate::workspace::Workspace;

/// The time limit of a process. The slowest process takes a few seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// The exclusive upper bound of the padding that moves a process's stack, in bytes.
const PADDING: usize = 4096;

/// The user's environment variables that an installed program keeps, because it needs them to find
/// its own programs.
const INHERITED: [&str; 2] = ["PATH", "HOME"];

/// The page that `--record` writes, as a path from the root of the workspace.
const PAGE: &str = "docs/benchmarks/programs.md";

/// Runs `bench --programs`. Returns `true` if every chosen contender ran every chosen program with
/// the reference's result.
pub(super) fn main(ws: &Workspace, options: &BenchOptions) -> Result<bool> {
    if options.processes.list {
        print!("{}", list());
        return Ok(true);
    }
    // The load is read first, because the build below would raise it.
    let load = os::load_average();
    let plan = ProgramPlan {
        programs: installed(catalogue::programs(options.filter.as_deref())?)?,
        allocators: catalogue::allocators(options.peers.as_deref())?,
        rounds: options.rounds_of_programs(),
        seed: options.seed.unwrap_or_else(now),
    };
    let out = match &options.out {
        Some(dir) => std::path::absolute(dir)?,
        None => ws.target_dir("bench-programs"),
    };
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let built = BuiltPrograms::build(ws, &plan)?;
    // The page states the other conditions at the start of the run.
    let head = page::facts(ws, &plan, load)?;
    let lines = out.join("programs.jsonl");
    let mut file = BufWriter::new(File::create(&lines).context("cannot write the samples")?);
    let bar = progress(&plan);
    let runs = measure(
        &plan,
        |program, allocator, padding| built.start(ws, program, allocator, padding, &out),
        |run, at| {
            bar.set_message(format!("{} over {}", run.program, run.contender));
            bar.set_position(at as u64);
            serde_json::to_writer(&mut file, run)?;
            Ok(file.write_all(b"\n")?)
        },
    )?;
    bar.finish_and_clear();
    file.flush()?;
    let report = ProgramReport::new(&plan, head, &runs);
    print!("{}", report.text());
    let text = report.markdown();
    fs::write(out.join("programs.md"), &text)?;
    if options.processes.record {
        fs::write(ws.root.join(PAGE), &text)?;
        println!("recorded in {PAGE}");
    }
    println!("wrote {} and programs.md beside it", lines.display());
    Ok(report.is_whole())
}

fn list() -> String {
    let mut text = String::from("Programs:\n");
    for program in PROGRAMS {
        text.push_str(&format!("  {:16} {}\n", program.name, program.what));
    }
    text.push_str("Contenders:\n");
    for allocator in ALLOCATORS {
        text.push_str(&format!("  {:16} {}\n", allocator.key, allocator.label));
    }
    text
}

/// Returns the seconds since 1970, as a seed that differs from one run to the next.
pub(super) fn now() -> u64 {
    // A clock before 1970 gives the seed 0, which is as good as any other.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn progress(plan: &ProgramPlan) -> ProgressBar {
    let processes = plan.rounds as usize * plan.programs.len() * plan.allocators.len();
    eprintln!(
        "{} rounds of {} programs over {} contenders: {processes} processes.",
        plan.rounds,
        plan.programs.len(),
        plan.allocators.len()
    );
    bar(processes)
}

pub(super) fn bar(processes: usize) -> ProgressBar {
    progress_bar(processes as u64, "{bar:30} {pos}/{len} {msg} [{elapsed}, {eta} left]")
}

/// Runs every program over every allocator in each round. A contender that fails a program does not
/// run that program in later rounds. `start` runs one process with a padding of the given number of
/// bytes. `done` receives each run and the number of runs so far.
///
/// # Errors
/// Returns an error if `done` returns one.
pub(super) fn measure(
    plan: &ProgramPlan,
    start: impl Fn(&MeasuredProgram, &GeneralAllocator, usize) -> Result<(ProcessFigures, String), String>,
    mut done: impl FnMut(&ProgramRun, usize) -> Result<()>,
) -> Result<Vec<ProgramRun>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let mut programs: Vec<_> = plan.programs.iter().collect();
    let mut order: Vec<_> = (0..plan.allocators.len()).collect();
    let mut failed = HashSet::new();
    let mut runs = Vec::new();
    for round in 0..plan.rounds {
        programs.shuffle(&mut rng);
        for program in &programs {
            next_round(&mut rng, &mut order);
            for &turn in &order {
                let allocator = &plan.allocators[turn];
                let padding = rng.random_range(0..PADDING);
                if failed.contains(&(program.name, allocator.key)) {
                    continue;
                }
                let ended = match start(program, allocator, padding) {
                    Ok((figures, checksum)) => ProgramEnd::Ran { checksum, figures },
                    Err(reason) => {
                        failed.insert((program.name, allocator.key));
                        ProgramEnd::Failed { reason }
                    }
                };
                let run =
                    ProgramRun { program: program.name.to_owned(), contender: allocator.key, round, ended };
                runs.push(run);
                done(&runs[runs.len() - 1], runs.len())?;
            }
        }
    }
    Ok(runs)
}

/// Returns the path of a command's executable, or the command's name if the command does not print
/// the path of a file.
fn executable_of(command: &SystemCommand) -> OsString {
    let asked = (!command.finds_itself.is_empty()).then(|| {
        let path = host::first_line(command.program, command.finds_itself)?;
        Path::new(&path).is_file().then_some(path)
    });
    asked.flatten().unwrap_or_else(|| command.program.to_owned()).into()
}

/// The executables of linked programs, and the libraries for programs that are installed on the
/// system.
struct BuiltPrograms {
    executables: BuiltPaths,
    libraries: BuiltPaths,
    /// The executables of the installed programs, by the name of the command.
    found: BTreeMap<&'static str, OsString>,
}

impl BuiltPrograms {
    /// Builds the executables and libraries that the plan needs.
    fn build(ws: &Workspace, plan: &ProgramPlan) -> Result<Self> {
        let any = |wanted: fn(&MeasuredProgram) -> bool| plan.programs.iter().any(wanted);
        let commands = plan.programs.iter().filter_map(MeasuredProgram::command);
        let found = commands.map(|command| (command.program, executable_of(&command))).collect();
        let mut built = Self { executables: BuiltPaths::new(), libraries: BuiltPaths::new(), found };
        if any(|program| program.package().is_some()) {
            built.executables = builds::build(ws, &plan.programs, &plan.allocators)?;
        }
        if any(|program| program.command().is_some()) {
            built.libraries = preload::build(ws, &plan.allocators)?;
        }
        Ok(built)
    }

    /// Runs a program over an allocator. Returns the figures and the checksum of the process, or
    /// the reason for its failure. `padding` is the number of bytes by which the stack moves. `out`
    /// is the directory that keeps the output until it is read.
    fn start(
        &self,
        ws: &Workspace,
        program: &MeasuredProgram,
        allocator: &GeneralAllocator,
        padding: usize,
        out: &Path,
    ) -> Result<(ProcessFigures, String), String> {
        // The user's variables may configure an allocator, so this function clears them. The
        // stack's address alone can reverse a comparison, so a variable of random length moves the
        // stack.
        let clean = |program: &OsStr| {
            let mut command = Command::new(program);
            command.env_clear().env("PADDING", "x".repeat(padding)).current_dir(&ws.root);
            command
        };
        match program.way {
            ProgramWay::Linked { .. } => {
                let executable = path(&self.executables, allocator)?.ok_or("it was not built")?;
                let mut command = clean(executable.as_os_str());
                command.arg(program.name).arg(&ws.root);
                let (figures, output) = process::run(command, LIMIT, out)?;
                Ok((figures, checksum(&output)?))
            }
            ProgramWay::Preloaded(system) => {
                let mut command = clean(&self.found[system.program]);
                command.args(system.arguments).envs(system.variables.iter().copied());
                command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
                if let Some(library) = path(&self.libraries, allocator)? {
                    command.env("LD_PRELOAD", library);
                }
                if let Some(input) = system.input {
                    fs::write(out.join(input.name), input.text())
                        .map_err(|error| format!("its input cannot be written: {error}"))?;
                    command.current_dir(out);
                }
                let (figures, output) = process::run(command, LIMIT, out)?;
                Ok((figures, hashed(&output)))
            }
        }
    }
}

/// Returns the path that was built for an allocator, or the reason why there is none. Returns
/// `Ok(None)` if nothing was built for the allocator: the reference needs no library.
fn path<'built>(
    built: &'built BuiltPaths,
    allocator: &GeneralAllocator,
) -> Result<Option<&'built Path>, String> {
    match built.get(allocator.key) {
        Some(Ok(path)) => Ok(Some(path)),
        Some(Err(reason)) => Err(reason.clone()),
        None => Ok(None),
    }
}

/// Returns the programs without the programs that are not installed on the system. Prints the names
/// of the programs that it leaves out. Returns an error if no program remains.
fn installed(programs: Vec<MeasuredProgram>) -> Result<Vec<MeasuredProgram>> {
    let starts = |command: SystemCommand| {
        let mut asked = Command::new(command.program);
        asked.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    };
    let there = |program: &MeasuredProgram| program.command().is_none_or(starts);
    let (there, missing): (Vec<_>, Vec<_>) = programs.into_iter().partition(there);
    for program in &missing {
        eprintln!("LEFT OUT: {} is not installed.", program.name);
    }
    if there.is_empty() {
        bail!("none of the chosen programs is installed");
    }
    Ok(there)
}

/// Returns the hash of a program's output. All runs of one build of xtask give the same hash for
/// the same output.
fn hashed(output: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(output);
    format!("{:016x}", hasher.finish())
}

/// Returns the checksum that a program printed, or a message if it printed none.
pub(super) fn checksum(output: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(output);
    let found = text.lines().find_map(|line| line.strip_prefix("checksum "));
    found.map(|sum| sum.trim().to_owned()).ok_or_else(|| "it printed no checksum".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{ProgramPlan, checksum, hashed, installed, list, measure};
    use crate::programs::catalogue::{ALLOCATORS, MeasuredProgram, PROGRAMS, ProgramWay, SystemCommand};
    use crate::programs::figures::ProgramEnd;
    use crate::programs::process::ProcessFigures;

    fn plan(rounds: u32) -> ProgramPlan {
        ProgramPlan { programs: PROGRAMS.to_vec(), allocators: ALLOCATORS.to_vec(), rounds, seed: 7 }
    }

    fn good() -> Result<(ProcessFigures, String), String> {
        let figures =
            ProcessFigures { wall_ns: 1, user_ns: 1, system_ns: 1, peak_bytes: 1, resident: Vec::new() };
        Ok((figures, "c".to_owned()))
    }

    #[test]
    fn every_program_runs_over_every_allocator_in_each_round_and_in_a_new_order() {
        let runs = measure(&plan(3), |_, _, _| good(), |_, _| Ok(())).unwrap();
        let all = PROGRAMS.len() * ALLOCATORS.len();
        assert_eq!(runs.len(), 3 * all);
        let names = |round: usize| -> Vec<_> {
            runs[round * all..][..all].iter().map(|run| (run.program.clone(), run.contender)).collect()
        };
        for round in 0..3 {
            let mut distinct = names(round);
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), all);
            assert!(runs[round * all..][..all].iter().all(|run| run.round == round as u32));
        }
        assert_ne!(names(0), names(1));
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = || {
            let runs = measure(&plan(2), |_, _, _| good(), |_, _| Ok(())).unwrap();
            runs.into_iter().map(|run| (run.program, run.contender)).collect::<Vec<_>>()
        };
        assert_eq!(order(), order());
    }

    #[test]
    fn a_contender_that_fails_a_program_runs_it_once_and_the_others_go_on() {
        let start = |program: &_, allocator: &crate::programs::catalogue::GeneralAllocator, _| {
            if *program == PROGRAMS[1] && allocator.key == "jemalloc" {
                return Err("signal 11 ended it".to_owned());
            }
            good()
        };
        let runs = measure(&plan(4), start, |_, _| Ok(())).unwrap();
        assert_eq!(runs.len(), 4 * PROGRAMS.len() * ALLOCATORS.len() - 3);
        let failed: Vec<_> =
            runs.iter().filter(|run| matches!(run.ended, ProgramEnd::Failed { .. })).collect();
        assert_eq!(failed.len(), 1);
        assert_eq!((failed[0].program.as_str(), failed[0].contender), (PROGRAMS[1].name, "jemalloc"));
    }

    #[test]
    fn a_checksum_is_read_and_a_missing_one_is_an_error() {
        assert_eq!(checksum(b"notes\nchecksum 06e1\n").unwrap(), "06e1");
        assert_eq!(checksum(b"").unwrap_err(), "it printed no checksum");
    }

    #[test]
    fn outputs_that_differ_have_different_hashes() {
        assert_eq!(hashed(b"a"), hashed(b"a"));
        assert_ne!(hashed(b"a"), hashed(b"b"));
    }

    #[test]
    fn a_program_that_is_not_installed_is_left_out() {
        let command = SystemCommand {
            program: "no-such-program",
            finds_itself: &[],
            arguments: &[],
            variables: &[],
            input: None,
        };
        let missing = MeasuredProgram { name: "missing", what: "", way: ProgramWay::Preloaded(command) };
        assert_eq!(installed(vec![missing, PROGRAMS[0]]).unwrap(), [PROGRAMS[0]]);
        assert!(installed(vec![missing]).unwrap_err().to_string().contains("installed"));
    }

    #[test]
    fn the_list_names_every_program_and_contender() {
        let list = list();
        assert!(PROGRAMS.iter().all(|program| list.contains(program.name)), "{list}");
        assert!(ALLOCATORS.iter().all(|allocator| list.contains(allocator.key)), "{list}");
    }
}
