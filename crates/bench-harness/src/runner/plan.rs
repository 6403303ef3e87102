//! The plan of a run: what is to be run, in which steps, and what each step may take.

use core::time::Duration;
use std::path::PathBuf;
use std::time::Instant;

use crate::card::ContenderClass;
use crate::contenders::Entry;
use crate::workloads::WorkloadSpec;

/// What a child takes beside its samples: to start, and to set up, check and end one contender.
const CHILD: Duration = Duration::from_millis(60);

/// What is to be run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The workloads.
    pub specs: Vec<WorkloadSpec>,
    /// The contenders; of each class the loop, the reference and its twin first.
    pub entries: Vec<Entry>,
    /// Processes of each workload.
    pub processes: u32,
    /// Rounds of each process; fewer where they would take longer than its share of the time.
    pub rounds: u32,
    /// What a sample should take on average.
    pub target: Duration,
    /// What the whole run may take, however many workloads there are.
    pub total: Duration,
    /// How long latencies are measured, where a workload has them.
    pub latencies: Duration,
    /// Whether memory is measured.
    pub memory: bool,
    /// Whether each contender is checked in a process of its own before it shares one with the others.
    pub isolated: bool,
    /// Seeds tables and orders.
    pub seed: u64,
    /// The text of R1, if there is a real one.
    pub document: Option<PathBuf>,
    /// Length of the generated one.
    pub document_length: usize,
    /// Where the sources of R4 and R5 lie, if they are there.
    pub corpus: Option<PathBuf>,
    /// A directory for notes of the children.
    pub scratch: PathBuf,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepWork {
    /// Time all contenders in one process; check them in the first.
    Time(u32),
    /// Measure memory.
    Memory,
    /// Measure latencies.
    Latencies,
}

/// A step: work on one workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunStep {
    /// Which of the plan's workloads.
    pub(super) spec: usize,
    pub(super) work: StepWork,
    /// What it would take if it were given all the time it can use.
    pub(super) weight: Duration,
}

impl RunPlan {
    /// The contenders of a class.
    pub fn entries_of(&self, class: ContenderClass) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.class == class)
    }

    /// All steps, in order. What cannot be shortened comes early, so that the later processes can make up for it.
    /// Processes of one workload are spread over the run, so that a busy minute hits one process of many workloads.
    pub(super) fn steps(&self) -> Vec<RunStep> {
        let all = |work: StepWork, wanted: fn(&WorkloadSpec) -> bool| {
            let specs = self.specs.iter().enumerate().filter(move |(_, spec)| wanted(spec));
            specs.map(move |(spec, of)| RunStep { spec, work, weight: self.weight(of, work) })
        };
        let mut steps: Vec<RunStep> = all(StepWork::Time(0), |_| true).collect();
        if self.memory {
            steps.extend(all(StepWork::Memory, |spec| spec.holds_memory));
        }
        steps.extend(all(StepWork::Latencies, WorkloadSpec::has_latencies));
        for process in 1..self.processes {
            steps.extend(all(StepWork::Time(process), |_| true));
        }
        steps
    }

    fn weight(&self, spec: &WorkloadSpec, work: StepWork) -> Duration {
        let able = |entry: &&Entry| entry.absent.is_none() && spec.need.missing(&entry.info.caps).is_none();
        let contenders = self.entries_of(spec.class).filter(able).count() as u32;
        let each = match work {
            StepWork::Time(0) if self.isolated => CHILD + self.target * self.rounds,
            StepWork::Time(_) => self.target * self.rounds,
            StepWork::Memory => CHILD,
            StepWork::Latencies => CHILD + self.latencies,
        };
        CHILD + contenders * (CHILD / 4 + each)
    }
}

/// How far a run is, for whoever watches it.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The step that begins now.
    pub step: &'a str,
    /// Its number, from one.
    pub number: usize,
    /// Of how many.
    pub steps: usize,
    /// Share of the work that lies behind.
    pub done: f64,
    /// What the rest will take; none before there is anything to judge by.
    pub left: Option<Duration>,
}

/// The clock of a run: shares out the time that is left, by the weights of the steps that are left.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    total: Duration,
    /// Work left before each step, its own included, and none at the end.
    ahead: Vec<f64>,
    next: usize,
}

impl Clock {
    /// Starts.
    pub(super) fn start(total: Duration, weights: impl Iterator<Item = Duration>) -> Self {
        let weights: Vec<f64> = weights.map(|weight| weight.as_secs_f64()).collect();
        let mut ahead = vec![0.0; weights.len() + 1];
        for (index, weight) in weights.iter().enumerate().rev() {
            ahead[index] = ahead[index + 1] + weight;
        }
        Self { start: Instant::now(), total, ahead, next: 0 }
    }

    /// Begins the next step: what to show, and what it may take.
    pub(super) fn begin<'a>(&mut self, step: &'a str) -> (Progress<'a>, Duration) {
        self.at(step, self.start.elapsed())
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
            processes: 3,
            rounds: 15,
            target: Duration::from_millis(1),
            total: 60 * SECOND,
            latencies: SECOND,
            memory: true,
            isolated: true,
            seed: 1,
            document: None,
            document_length: 1000,
            corpus: None,
            scratch: PathBuf::new(),
        }
    }

    #[test]
    fn every_workload_has_its_steps_and_the_first_process_comes_first() {
        let plan = plan();
        let steps = plan.steps();
        let count = |wanted: fn(&StepWork) -> bool| steps.iter().filter(|step| wanted(&step.work)).count();
        assert_eq!(count(|work| matches!(work, StepWork::Time(_))), 3 * plan.specs.len());
        assert_eq!(
            count(|work| *work == StepWork::Memory),
            plan.specs.iter().filter(|spec| spec.holds_memory).count()
        );
        assert!(count(|work| *work == StepWork::Latencies) > 0);
        assert!(steps[..plan.specs.len()].iter().all(|step| step.work == StepWork::Time(0)));
        assert!(steps.iter().all(|step| step.weight > Duration::ZERO));
        let none = RunPlan { memory: false, ..plan };
        assert!(none.steps().iter().all(|step| step.work != StepWork::Memory));
    }

    /// Goes through steps of the given weights, each of which takes `took` of what it is allowed; what all took.
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
    fn the_time_is_kept_however_many_steps_there_are() {
        for steps in [1, 10, 1000] {
            let weights = vec![5; steps];
            let gone = walk(60 * SECOND, &weights, |_, allowed| allowed);
            assert!((gone.as_secs_f64() - 60.0).abs() < 1e-3, "{steps} steps: {gone:?}");
        }
    }

    #[test]
    fn later_steps_make_up_for_early_ones_that_took_too_long() {
        let gone =
            walk(60 * SECOND, &[1; 60], |index, allowed| if index < 10 { 3 * SECOND } else { allowed });
        assert!((gone.as_secs_f64() - 60.0).abs() < 1e-3, "{gone:?}");
        // Nothing is left to share out: steps are told so, and do the least they can.
        let gone = walk(10 * SECOND, &[1; 10], |_, _| 2 * SECOND);
        assert_eq!(gone, 20 * SECOND);
    }

    #[test]
    fn the_time_left_goes_by_weight() {
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
