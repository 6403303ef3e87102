//! The parent process: starts children, reads their answers, and records the death of a child as a
//! contender's state.

use core::hash::BuildHasher;
use core::time::Duration;
use std::hash::RandomState;
use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Instant;
use std::{env, fs, thread};

use ephemera_measure::lanes::in_lanes;

use super::checks::compare;
use super::plan::{Clock, Progress, RunPlan, StepWork};
use super::record::{ContenderState, Job, Measurements, Mode, WorkloadOutcome};
use crate::contenders::{ALWAYS, Entry, REFERENCE, TWIN, VOID};
use crate::stats;
use crate::workloads::{AfterBurst, Load, WorkloadSpec};

/// The load under which latencies are measured, as a share of the reference's rate in a closed
/// loop.
const LOAD: f64 = 0.6;

/// The time after which the parent considers a child hung and kills it.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs the plan. Calls `watch` before each step, and `measured` with the outcome of each workload
/// after its last step. The time that `measured` takes does not count towards the time of the run.
///
/// # Errors
///
/// Returns an error if a child cannot be started, or if a child that runs all contenders dies
/// before it notes a turn. The crash of a contender is not an error: it becomes a
/// [`ContenderState`].
pub fn run(
    plan: &RunPlan,
    mut watch: impl FnMut(Progress<'_>),
    mut measured: impl FnMut(&WorkloadOutcome),
) -> io::Result<Vec<WorkloadOutcome>> {
    let mut outcomes: Vec<WorkloadOutcome> = plan.specs.iter().map(|spec| outcome(plan, spec)).collect();
    let steps = plan.steps();
    // Workloads without rounds take a fixed time. The total includes it, so that the other
    // workloads keep all of `plan.total`.
    let fixed: Duration =
        steps.iter().filter(|step| step.work == StepWork::Alone).map(|step| step.weight).sum();
    let mut clock = Clock::start(plan.total + fixed, steps.iter().map(|step| step.weight));
    for (index, step) in steps.iter().enumerate() {
        let outcome = &mut outcomes[step.spec];
        let name = match step.work {
            StepWork::Memory => format!("{} (memory)", outcome.spec.id),
            StepWork::Latencies => format!("{} (latencies)", outcome.spec.id),
            StepWork::Check | StepWork::Time(_) | StepWork::Alone => outcome.spec.id.clone(),
        };
        let (progress, budget) = clock.begin(&name);
        watch(progress);
        match step.work {
            StepWork::Check => attempt(plan, outcome, Mode::Check, (0, Duration::ZERO))?,
            StepWork::Time(0) if plan.isolated => {
                let start = Instant::now();
                alone(plan, outcome, 1, &[Mode::Check], &[])?;
                attempt(plan, outcome, Mode::Time, (0, budget.saturating_sub(start.elapsed())))?;
            }
            StepWork::Time(0) => attempt(plan, outcome, Mode::CheckAndTime, (0, budget))?,
            StepWork::Time(process) => attempt(plan, outcome, Mode::Time, (process, budget))?,
            StepWork::Alone => {
                let orders = outcome.spec.alone_orders(plan.isolated);
                let modes: Vec<Mode> = orders.into_iter().map(Mode::Alone).collect();
                alone(plan, outcome, outcome.spec.lanes(plan.isolated), &modes, &[ALWAYS[TWIN]])?;
            }
            // Leave out the allocator that does nothing, whose memory is only its own buffer, and
            // the reference's second entry, which takes as much memory as the reference.
            StepWork::Memory => {
                alone(plan, outcome, 1, &[Mode::Memory], &[ALWAYS[VOID], ALWAYS[TWIN]])?;
            }
            StepWork::Latencies => {
                let load = Load::share(LOAD, median_cost(outcome), plan.latencies);
                alone(plan, outcome, 1, load.map(Mode::Latencies).as_slice(), &[ALWAYS[TWIN]])?;
            }
        }
        if steps[index + 1..].iter().all(|later| later.spec != step.spec) {
            compare(outcome);
            clock.pause(|| measured(outcome));
        }
    }
    Ok(outcomes)
}

/// Starts one child for each contender that can still run and each of `modes`, with up to `lanes`
/// children at a time. Leaves out the keys in `without`. If a child dies, its contender's state
/// becomes `Crashed`.
fn alone(
    plan: &RunPlan,
    outcome: &mut WorkloadOutcome,
    lanes: usize,
    modes: &[Mode],
    without: &[&str],
) -> io::Result<()> {
    let mut jobs = Vec::new();
    for key in running(outcome).into_iter().filter(|key| !without.contains(&key.as_str())) {
        for mode in modes {
            let job = job(plan, outcome, *mode, (0, Duration::ZERO));
            jobs.push(Job { contenders: vec![key.clone()], ..job });
        }
    }
    let done = in_lanes(lanes.min(jobs.len()), jobs, |lane, mut job| {
        job.marker = plan.scratch.join(format!("turn-{lane}"));
        job.lane = lane;
        Ok((child(&job)?, job))
    })?;
    for (answer, job) in done {
        match answer {
            Ok(answer) => outcome.measured.absorb(answer),
            Err(how) => {
                let crashed = ContenderState::Crashed(format!("{how}, {}", pass(job.mode)));
                outcome.states.extend(job.contenders.into_iter().map(|key| (key, crashed.clone())));
            }
        }
    }
    Ok(())
}

/// Returns a phrase that says in which pass a child died.
fn pass(mode: Mode) -> &'static str {
    match mode {
        Mode::Check => "when checked",
        Mode::CheckAndTime | Mode::Time => "when timed",
        Mode::Memory => "when its memory was measured",
        Mode::Latencies(_) => "under load",
        Mode::Alone(order) => order.after.map_or("in its process", AfterBurst::word),
    }
}

/// Returns the reference's median time per operation in nanoseconds, or 0 if it has no samples.
fn median_cost(outcome: &WorkloadOutcome) -> f64 {
    let samples = outcome.measured.samples.iter().filter(|sample| sample.round >= 0);
    let mut costs: Vec<f64> = samples
        .filter(|sample| sample.contender == ALWAYS[REFERENCE])
        .map(|sample| sample.ns / sample.ops.max(1) as f64)
        .collect();
    stats::median(&mut costs).unwrap_or(0.0)
}

fn outcome(plan: &RunPlan, spec: &WorkloadSpec) -> WorkloadOutcome {
    let state = |entry: &Entry| match entry.absent.or_else(|| spec.need.missing(&entry.info.caps)) {
        Some(reason) => ContenderState::Missing(reason.to_owned()),
        None => ContenderState::Ran,
    };
    let states = plan.entries_of(spec.class).map(|entry| (entry.key.to_owned(), state(entry)));
    WorkloadOutcome { spec: spec.clone(), states: states.collect(), measured: Measurements::default() }
}

/// Returns the keys of the contenders that can still run.
fn running(outcome: &WorkloadOutcome) -> Vec<String> {
    outcome.states.iter().filter(|(_, state)| state.ran()).map(|(key, _)| key.clone()).collect()
}

fn job(plan: &RunPlan, outcome: &WorkloadOutcome, mode: Mode, (process, budget): (u32, Duration)) -> Job {
    Job {
        mode,
        workload: outcome.spec.id.clone(),
        contenders: running(outcome),
        process,
        lane: 0,
        rounds: plan.rounds,
        units: outcome.measured.size.map(|size| size.units),
        target_ns: plan.target.as_secs_f64() * 1e9,
        budget_ns: budget.as_secs_f64() * 1e9,
        seed: plan.seed,
        document: plan.document.clone(),
        document_length: plan.document_length,
        corpus: plan.corpus.clone(),
        marker: plan.scratch.join("turn"),
    }
}

/// Runs children until one succeeds. If a child dies, the state of the contender whose turn it was
/// becomes `Crashed`, and the next child leaves out that contender. Returns an error if the child
/// died before it noted a turn.
fn attempt(
    plan: &RunPlan,
    outcome: &mut WorkloadOutcome,
    mode: Mode,
    turn: (u32, Duration),
) -> io::Result<()> {
    loop {
        let job = job(plan, outcome, mode, turn);
        let Err(how) = child(&job)?.map(|answer| outcome.measured.absorb(answer)) else { return Ok(()) };
        let culprit = fs::read_to_string(&job.marker).unwrap_or_default();
        let Some(state) = outcome.states.get_mut(culprit.trim()).filter(|state| state.ran()) else {
            return Err(io::Error::other(format!(
                "{}: the measuring process ended early: {how}",
                job.workload
            )));
        };
        let process = match mode {
            Mode::Check => String::new(),
            _ => format!(", in process {} of {}", turn.0 + 1, plan.processes),
        };
        *state = ContenderState::Crashed(format!("{how}, {}{process}", pass(mode)));
    }
}

/// Returns a random number that does not depend on the seed. Two runs with the same seed do the
/// same operations, but in differently placed memory.
pub(super) fn chance() -> u64 {
    RandomState::new().hash_one(env::args_os().len())
}

/// Runs one child. Returns its measurements, or a text that says how it died or why its answer
/// cannot be read.
///
/// # Errors
///
/// Returns an error if the child cannot be started, or if the wait for its exit fails.
fn child(job: &Job) -> io::Result<Result<Measurements, String>> {
    let unrun = |error: io::Error| io::Error::other(format!("a measuring process could not be run: {error}"));
    let _ = fs::remove_file(&job.marker);
    let orders = serde_json::to_string(job).map_err(|error| unrun(error.into()))?;
    // The length of the environment shifts the stack, and so determines which variables share a
    // cache line or a page. Each child gets a random length.
    let padding = chance() as usize % 4096;
    let mut child = Command::new(env::current_exe().map_err(unrun)?)
        .arg("--child")
        .arg(orders)
        .env("EPHEMERA_PADDING", "x".repeat(padding))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(unrun)?;
    let stdout = child.stdout.take().map(reader);
    let stderr = child.stderr.take().map(reader);
    let answer = stdout.and_then(|text| text.recv_timeout(LIMIT).ok());
    if answer.is_none() {
        // The kill fails if the child has just ended on its own, which does no harm.
        let _ = child.kill();
    }
    let status = child.wait().map_err(unrun)?;
    let said = stderr.and_then(|text| text.recv_timeout(LIMIT).ok()).unwrap_or_default();
    let Some(answer) = answer.filter(|_| status.success()) else {
        return Ok(Err(death(status, &said)));
    };
    Ok(serde_json::from_str(&answer).map_err(|error| format!("its answer could not be read: {error}")))
}

/// Reads a pipe to its end on a separate thread, which sends the text through the returned channel.
/// If reading fails, the thread sends nothing.
fn reader(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if pipe.read_to_end(&mut bytes).is_ok() {
            // The send fails if the receiver has timed out and no longer needs the text.
            let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
        }
    });
    receive
}

/// Returns in a few words how a process died, from its status and the text `said` on its standard
/// error.
fn death(status: ExitStatus, said: &str) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return match signal {
            libc::SIGKILL => "killed: took longer than 180 s, or memory ran out".to_owned(),
            libc::SIGSEGV => "segmentation fault".to_owned(),
            libc::SIGABRT => format!("aborted: {}", last_line(said)),
            other => format!("signal {other}"),
        };
    }
    format!("{status}: {}", last_line(said))
}

fn last_line(said: &str) -> &str {
    let mut lines = said.lines().filter(|line| !line.is_empty() && !line.starts_with("note: "));
    lines.next_back().unwrap_or("said nothing")
}
