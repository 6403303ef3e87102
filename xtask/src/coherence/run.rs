//! Builds the traced program and runs it under valgrind.

use core::time::Duration;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use ephemera_coherence::catalogue::{TracedContender, TracedWorkload};
use ephemera_coherence::{Measured, Replay};
use ephemera_measure::lanes::in_lanes;
use ephemera_measure::valgrind::valgrind;

use crate::cpeers::Support;
use crate::workspace::Workspace;

/// The package of the traced program, and the name of the program.
const PACKAGE: &str = "ephemera-coherence";
const PROGRAM: &str = "coherence-program";

/// The profile of traced builds: optimised, and the same on every host.
const PROFILE: &str = "icount";

/// The runs of a command: every workload over every contender with every number of threads.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) threads: Vec<usize>,
    pub(super) workloads: Vec<TracedWorkload>,
    pub(super) contenders: Vec<TracedContender>,
}

/// A figure, and the run that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) workload: TracedWorkload,
    pub(super) contender: &'static str,
    pub(super) threads: usize,
    pub(super) measured: Measured,
}

/// The program, ready to be traced.
#[derive(Debug)]
pub(super) struct Traced {
    program: PathBuf,
}

/// Builds the program with those contenders that can be built here, and removes the others from
/// `contenders`. Returns an error if valgrind does not start, if no contender remains, or if the
/// build fails.
pub(super) fn prepare(ws: &Workspace, contenders: &mut Vec<TracedContender>) -> Result<Traced> {
    let works = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    match works {
        Ok(status) if status.success() => {}
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "valgrind prints the memory accesses, and it is not installed: install it, for example by \
             `apt-get install valgrind`"
        ),
        _ => bail!("valgrind does not start: try `valgrind --version`"),
    }
    let support = Support::detect(ws);
    if let Some(left_out) = support.told() {
        eprintln!("{left_out}");
    }
    let features = [vec!["program"], support.features()].concat();
    contenders.retain(|contender| features.contains(&contender.feature));
    if contenders.is_empty() {
        bail!("none of the chosen contenders can be built here: see the message above");
    }
    eprintln!("Building the traced program. The first build takes some minutes.");
    ws.cargo()
        .args(["build", "--profile", PROFILE, "--package", PACKAGE, "--bin", PROGRAM])
        .arg(format!("--features={}", features.join(",")))
        .run_or("the traced program does not build: see the messages above")?;
    Ok(Traced { program: ws.target_dir(PROFILE).join(PROGRAM) })
}

/// Returns the number of counted rounds. Each thread has one turn in a round. Runs with few threads
/// have more rounds, to give slow paths the same weight as with many threads.
fn rounds(threads: usize) -> usize {
    (256 / threads).clamp(8, 64)
}

impl Traced {
    /// Traces workloads whose figures are known, and compares the measured figures with the known
    /// ones.
    ///
    /// # Errors
    ///
    /// Returns an error if a run fails or if a figure differs. A figure differs, for example, if
    /// valgrind prints an unknown format, or if the build of the program is unexpected.
    pub(super) fn check(&self) -> Result<()> {
        for (workload, lines) in TracedWorkload::KNOWN {
            let ours = |threads| -> Result<(u64, u64)> {
                let measured = self.measure(workload, "known", threads)?;
                Ok((measured.operations, measured.allocator.total().moved()))
            };
            let (operations, moved) = ours(2)?;
            let alone = ours(1)?.1;
            if moved != lines * operations || alone != 0 {
                bail!(
                    "the check `{}` moves {moved} lines in {operations} operations of two threads, and {alone} with one \
                     thread, instead of {} and 0: this valgrind may print another format",
                    workload.name(),
                    lines * operations
                );
            }
        }
        Ok(())
    }

    /// Makes all runs of the plan. Returns the figures in no particular order. If a run has no
    /// figure, prints the reason.
    pub(super) fn count(&self, plan: &Plan) -> io::Result<Vec<Figure>> {
        let mut runs = Vec::new();
        // The longest runs come first, so that all lanes end at about the same time.
        for &threads in plan.threads.iter().rev() {
            for &workload in &plan.workloads {
                runs.extend(plan.contenders.iter().map(|contender| (threads, workload, *contender)));
            }
        }
        let all = runs.len();
        let lanes = thread::available_parallelism().map_or(1, usize::from);
        let runs: Vec<_> = runs.into_iter().enumerate().collect();
        let figures = in_lanes(lanes, runs, |_, (index, (threads, workload, contender))| {
            let name = contender.name;
            eprintln!("[{}/{all}] {}, {threads} threads, {name}", index + 1, workload.name());
            // A contender that cannot run under valgrind gets a cell without a figure.
            let measured = self.measure(workload, contender.key, threads);
            let measured = measured.inspect_err(|error| eprintln!("NOT COUNTED: {error:#}")).ok();
            Ok(measured.map(|measured| Figure { workload, contender: contender.key, threads, measured }))
        })?;
        Ok(figures.into_iter().flatten().collect())
    }

    /// Traces one run, replays its accesses, and returns the counts. Returns an error if the
    /// program or the replay fails.
    fn measure(&self, workload: TracedWorkload, contender: &str, threads: usize) -> Result<Measured> {
        let mut child = traced(&self.program)
            .args([contender, workload.name(), &threads.to_string(), &rounds(threads).to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("valgrind does not start")?;
        let log = child.stderr.take().context("the log is piped")?;
        let replayed = Replay::run(BufReader::with_capacity(1 << 20, Patient(log)));
        let status = child.wait()?;
        let run = || format!("{} over {contender} with {threads} threads", workload.name());
        match replayed {
            Ok(measured) if status.success() => Ok(measured),
            Ok(_) => bail!("{} ended with {status}", run()),
            Err((broken, messages)) => {
                let messages = messages.join("\n");
                bail!("{}: {broken} ({status})\n{messages}", run())
            }
        }
    }
}

/// A pipe whose reader sleeps before each read, so that each read returns a large piece. valgrind
/// writes line by line, and a reader that woke up for each line would take most of the time.
#[derive(Debug)]
struct Patient<R>(R);

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        thread::sleep(Duration::from_micros(500));
        self.0.read(buffer)
    }
}

/// Returns the command that traces `program` under valgrind, without arguments for the program.
fn traced(program: &Path) -> Command {
    let mut command = valgrind();
    command.args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no"]).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::{PACKAGE, PROFILE, PROGRAM, rounds};
    use crate::workspace::Workspace;

    #[test]
    fn the_traced_program_and_its_profile_exist() {
        let ws = Workspace::load().unwrap();
        assert_eq!(ws.package(PACKAGE).unwrap().bins, [PROGRAM]);
        let manifest = std::fs::read_to_string(ws.root.join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("[profile.{PROFILE}]")));
    }

    #[test]
    fn fewer_threads_take_more_rounds() {
        assert_eq!([1, 2, 8, 64, 128].map(rounds), [64, 64, 32, 8, 8]);
    }
}
