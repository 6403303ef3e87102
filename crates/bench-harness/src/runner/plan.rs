//! The plan of a run: its steps in order, and the time for each step.

use core::time::Duration;
use std::path::PathBuf;
use std::time::Instant;

use crate::card::ContenderClass;
use crate::contenders::Entry;
use crate::workloads::WorkloadSpec;

/// An estimate of the time that a child with one contender takes outside of its samples: its start,
/// set-up, check and end.
const CHILD: Duration = Duration::from_millis(60);

/// The plan of a run: its measurements and their times.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The workloads to run.
    pub specs: Vec<WorkloadSpec>,
    /// The contenders. Each class starts with the allocator that does nothing, the reference and
    /// its second entry.
    pub entries: Vec<Entry>,
    /// Whether the run only checks each workload once and measures nothing.
    pub smoke: bool,
    /// The number of processes that time each workload with rounds.
    pub processes: u32,
    /// The planned number of rounds in each process. A process runs fewer if that many would exceed
    /// its share of the time, and more if too many of them are contaminated.
    pub rounds: u32,
    /// The time of a sample, averaged over the contenders of its workload.
    pub target: Duration,
    /// The total time of all workloads with rounds. It does not depend on their number.
    pub total: Duration,
    /// The time for which the latency step of a workload measures each contender.
    pub latencies: Duration,
    /// Whether a separate process checks each contender before the contender shares a process with
    /// the others. Only a full run sets this flag, so the flag also selects the amount of work of
    /// the workloads without rounds. In any other run, all steps of the first workload come first,
    /// which lets its table appear early.
    pub isolated: bool,
    /// The seed of the workloads' tables. The same seed gives the same operations.
    pub seed: u64,
    /// The file with the text of R1, if there is one.
    pub document: Option<PathBuf>,
    /// The minimum length, in bytes, of the text that is generated for R1 if there is no file.
    pub document_length: usize,
    /// The directory with the sources of R4 and R5, if there is one.
    pub corpus: Option<PathBuf>,
    /// The directory of the files in which children note the contender of each turn.
    pub scratch: PathBuf,
}

/// The work of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepWork {
    /// Check all contenders in one process, and measure nothing.
    Check,
    /// Time all contenders in the process with this number. The step of process 0 also checks them.
    Time(u32),
    Memory,
    Latencies,
    /// Run each contender in its own processes.
    Alone,
}

/// A step of the plan: one kind of work on one workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunStep {
    /// The index of the workload in the plan.
    pub(super) spec: usize,
    pub(super) work: StepWork,
    /// An estimate of the time that the step takes if nothing limits it.
    pub(super) weight: Duration,
}

impl RunPlan {
    /// Returns the contenders of a class.
    pub fn entries_of(&self, class: ContenderClass) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.class == class)
    }

    /// Returns all steps in order. Steps that cannot be shortened come early, so that the clock can
    /// shorten the later steps by the time that the early ones take. Workloads without rounds come
    /// last, and their time is separate. The processes of a workload are spread over the run, so a
    /// short period of other load on the host usually affects only one process of each workload. If
    /// `isolated` is not set, the steps of the first workload come before all others. A smoke run
    /// has only one check for each workload, in the order of the plan.
    pub(super) fn steps(&self) -> Vec<RunStep> {
        let all = |work: StepWork, wanted: fn(&WorkloadSpec) -> bool| {
            let specs = self.specs.iter().enumerate().filter(move |(_, spec)| wanted(spec));
            specs.map(move |(spec, of)| RunStep { spec, work, weight: self.weight(of, work) })
        };
        if self.smoke {
            return all(StepWork::Check, |_| true).collect();
        }
        let timed = |spec: &WorkloadSpec| !spec.is_alone();
        let mut steps: Vec<RunStep> = all(StepWork::Time(0), timed).collect();
        steps.extend(all(StepWork::Memory, |spec| spec.holds_memory));
        steps.extend(all(StepWork::Latencies, WorkloadSpec::has_latencies));
        for process in 1..self.processes {
            steps.extend(all(StepWork::Time(process), timed));
        }
        steps.extend(all(StepWork::Alone, WorkloadSpec::is_alone));
        if !self.isolated {
            // The sort is stable, so the other steps keep their order.
            steps.sort_by_key(|step| step.spec > 0);
        }
        steps
    }

    fn weight(&self, spec: &WorkloadSpec, work: StepWork) -> Duration {
        let able = |entry: &&Entry| entry.absent.is_none() && spec.need.missing(&entry.info.caps).is_none();
        let contenders = self.entries_of(spec.class).filter(able).count() as u32;
        let each = match work {
            StepWork::Alone => {
                let processes = contenders * spec.alone_orders(self.isolated).len() as u32;
                let turns = processes.div_ceil(spec.lanes(self.isolated) as u32);
                return CHILD + spec.alone_time(self.isolated) * turns;
            }
            StepWork::Time(0) if self.isolated => CHILD + self.target * self.rounds,
            StepWork::Time(_) => self.target * self.rounds,
            StepWork::Check | StepWork::Memory => CHILD,
            StepWork::Latencies => CHILD + self.latencies,
        };
        CHILD + contenders * (CHILD / 4 + each)
    }
}

/// The progress of a run, for display.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The name of the step that starts now.
    pub step: &'a str,
    /// The number of that step, counted from 1.
    pub number: usize,
    /// The number of all steps.
    pub steps: usize,
    /// The share of the work that is done, from 0 to 1.
    pub done: f64,
    /// An estimate of the time that remains. `None` before the first step has ended.
    pub left: Option<Duration>,
}

/// The clock of a run. It divides the remaining time among the remaining steps by their weights.
pub(super) struct Clock {
    start: Instant,
    total: Duration,
    /// For each step, the sum of the weights of this step and all later steps, in seconds. The last
    /// entry is 0.
    ahead: Vec<f64>,
    next: usize,
}

impl Clock {
    /// Starts the clock of a run that takes `total` and whose steps have these weights.
    pub(super) fn start(total: Duration, weights: impl Iterator<Item = Duration>) -> Self {
        let weights: Vec<f64> = weights.map(|weight| weight.as_secs_f64()).collect();
        let mut ahead = vec![0.0; weights.len() + 1];
        for (index, weight) in weights.iter().enumerate().rev() {
            ahead[index] = ahead[index + 1] + weight;
        }
        Self { start: Instant::now(), total, ahead, next: 0 }
    }

    /// Starts the next step, whose name is `step`. Returns the progress of the run and the time for
    /// the step.
    pub(super) fn begin<'a>(&mut self, step: &'a str) -> (Progress<'a>, Duration) {
        self.at(step, self.start.elapsed())
    }

    /// Calls `work`. The time that it takes does not count towards the time of the run.
    pub(super) fn pause(&mut self, work: impl FnOnce()) {
        let before = Instant::now();
        work();
        self.start += before.elapsed();
    }

    fn at<'a>(&mut self, step: &'a str, gone: Duration) -> (Progress<'a>, Duration) {
        let (all, ahead) = (self.ahead[0], self.ahead[self.next]);
        let done = if all > 0.0 { 1.0 - ahead / all } else { 0.0 };
        let share = if ahead > 0.0 { 1.0 - self.ahead[self.next + 1] / ahead } else { 0.0 };
        let left = (done > 0.0).then(|| gone.mul_f64((1.0 - done) / done));
        self.next += 1;
        let progress = Progress { step, number: self.next, steps: self.ahead.len() - 1, done, left };
        (progress, self.total.saturating_sub(gone).mul_f64(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders;
    use crate::workloads::catalogue;

    const SECOND: Duration = Duration::from_secs(1);

    fn plan() -> RunPlan {
        RunPlan {
            specs: catalogue(),
            entries: contenders::all(),
            smoke: false,
            processes: 3,
            rounds: 15,
            target: Duration::from_millis(1),
            total: 60 * SECOND,
            latencies: SECOND,
            isolated: true,
            seed: 1,
            document: None,
            document_length: 1000,
            corpus: None,
            scratch: PathBuf::new(),
        }
    }

    #[test]
    fn every_workload_has_all_steps_and_first_processes_come_first() {
        let plan = plan();
        let steps = plan.steps();
        let count = |wanted: fn(&StepWork) -> bool| steps.iter().filter(|step| wanted(&step.work)).count();
        let timed = plan.specs.iter().filter(|spec| !spec.is_alone()).count();
        assert_eq!(count(|work| matches!(work, StepWork::Time(_))), 3 * timed);
        assert_eq!(
            count(|work| *work == StepWork::Memory),
            plan.specs.iter().filter(|spec| spec.holds_memory).count()
        );
        assert!(count(|work| *work == StepWork::Latencies) > 0);
        assert!(steps[..timed].iter().all(|step| step.work == StepWork::Time(0)));
        let alone = steps.iter().rev().take_while(|step| step.work == StepWork::Alone).count();
        assert_eq!(alone, plan.specs.len() - timed, "workloads without rounds come last");
        assert!(steps.iter().all(|step| step.weight > Duration::ZERO));
        let at_once = RunPlan { isolated: false, ..plan.clone() }.steps();
        let first = at_once.iter().take_while(|step| step.spec == 0).count();
        assert!(first >= 3 && at_once[first..].iter().all(|step| step.spec > 0));
        let works =
            |steps: &[RunStep]| -> Vec<_> { steps.iter().map(|step| (step.spec, step.work)).collect() };
        assert_eq!(
            works(&at_once[first..][..timed - 1]),
            works(&steps[1..timed]),
            "the others keep their order"
        );
        assert_eq!(at_once.len(), steps.len());
    }

    /// Runs a clock through steps of the given weights. `took` maps the index and the allowed time
    /// of a step to the time that the step takes. Returns the sum of these times.
    fn walk(total: Duration, weights: &[u32], took: impl Fn(usize, Duration) -> Duration) -> Duration {
        let mut clock = Clock::start(total, weights.iter().map(|&weight| weight * SECOND));
        let mut gone = Duration::ZERO;
        for index in 0..weights.len() {
            let (_, allowed) = clock.at("", gone);
            gone += took(index, allowed);
        }
        gone
    }

    #[test]
    fn a_run_takes_the_requested_time_for_any_number_of_steps() {
        for steps in [1, 10, 1000] {
            let weights = vec![5; steps];
            let gone = walk(60 * SECOND, &weights, |_, allowed| allowed);
            assert!((gone.as_secs_f64() - 60.0).abs() < 1e-3, "{steps} steps: {gone:?}");
        }
    }

    #[test]
    fn later_steps_make_up_for_slow_early_ones() {
        let gone =
            walk(60 * SECOND, &[1; 60], |index, allowed| if index < 10 { 3 * SECOND } else { allowed });
        assert!((gone.as_secs_f64() - 60.0).abs() < 1e-3, "{gone:?}");
        // No time remains for the later steps, so each does its minimum.
        let gone = walk(10 * SECOND, &[1; 10], |_, _| 2 * SECOND);
        assert_eq!(gone, 20 * SECOND);
    }

    #[test]
    fn remaining_time_is_divided_by_weight() {
        let mut clock = Clock::start(100 * SECOND, [3, 1].into_iter().map(|weight| weight * SECOND));
        let (progress, allowed) = clock.at("first", Duration::ZERO);
        assert_eq!((progress.number, progress.steps, progress.left), (1, 2, None));
        assert_eq!(allowed, 75 * SECOND);
        let (progress, allowed) = clock.at("second", 30 * SECOND);
        assert_eq!(progress.left, Some(10 * SECOND));
        assert!((progress.done - 0.75).abs() < 1e-9);
        assert_eq!(allowed, 70 * SECOND);
    }
}
