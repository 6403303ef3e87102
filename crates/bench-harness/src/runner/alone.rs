//! Runs the workloads that run each contender in its own process, several processes at a time, and
//! compares their checksums.

use std::io;

use super::plan::{RunPlan, lanes};
use super::process::{child, in_lanes};
use super::record::{AloneRun, ContenderState, Job, WorkloadOutcome};
use crate::contenders::{ALWAYS, REFERENCE, TWIN, VOID};
use crate::workloads::{AfterBurst, AloneOrder};

/// Runs each contender in its own processes. `job` returns a job, to which this function adds the
/// marker, the contender and the order. If a process dies, its contender's state becomes `Crashed`.
///
/// # Errors
///
/// Returns an error if a child cannot be started, or if a lane panics.
pub(super) fn run(plan: &RunPlan, outcome: &mut WorkloadOutcome, job: impl Fn() -> Job) -> io::Result<()> {
    let keys = outcome.states.iter().filter(|(key, state)| state.ran() && **key != ALWAYS[TWIN]);
    let orders = outcome.spec.alone_orders(plan.isolated);
    let todo: Vec<(String, AloneOrder)> =
        keys.flat_map(|(key, _)| orders.iter().map(|order| (key.clone(), *order))).collect();
    let lanes = lanes(&outcome.spec, plan.isolated).min(todo.len());
    let jobs = (0..lanes).map(|lane| Job { marker: plan.scratch.join(format!("turn-{lane}")), ..job() });
    let jobs: Vec<Job> = jobs.collect();
    let done = in_lanes(lanes, todo, |lane, (key, order)| {
        let alone = Some(AloneOrder { lane, ..order });
        let answer = child(&Job { contenders: vec![key.clone()], alone, ..jobs[lane].clone() })?;
        Ok((key, order.after, answer))
    })?;
    for (key, after, answer) in done {
        match answer {
            Ok(lines) => outcome.absorb(lines),
            Err(how) => {
                let when = after.map_or("in its process", AfterBurst::word);
                outcome.states.insert(key, ContenderState::Crashed(format!("{how}, {when}")));
            }
        }
    }
    Ok(())
}

/// Compares the runs with those of the reference. The state of a contender that did different work
/// becomes `Wrong`, so the report does not show its figures.
pub(super) fn compare(outcome: &mut WorkloadOutcome) {
    let find = |of: &AloneRun| {
        outcome.alone.iter().find(|run| run.contender == ALWAYS[REFERENCE] && run.after == of.after)
    };
    let differs = |run: &AloneRun| match find(run) {
        None => None,
        Some(of) if run.figures.ops != of.figures.ops => {
            Some(format!("{} calls, the reference {}", run.figures.ops, of.figures.ops))
        }
        // Blocks of the allocator that does nothing overlap, so its checksum may differ.
        Some(of) if run.figures.checksum != of.figures.checksum && run.contender != ALWAYS[VOID] => {
            Some("checksum differs from the reference's".to_owned())
        }
        Some(_) => None,
    };
    let wrong: Vec<(String, String)> =
        outcome.alone.iter().filter_map(|run| Some((run.contender.clone(), differs(run)?))).collect();
    for (key, what) in wrong {
        outcome.states.insert(key, ContenderState::Wrong(what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::{AloneFigures, WorkloadSpec, catalogue};

    fn run(contender: &str, checksum: u64, ops: u64) -> AloneRun {
        AloneRun {
            contender: contender.to_owned(),
            after: Some(AfterBurst::Asleep),
            figures: AloneFigures { checksum, ops, ..AloneFigures::default() },
        }
    }

    #[test]
    fn a_contender_that_did_other_work_has_no_figures() {
        let spec = catalogue().into_iter().find(WorkloadSpec::is_burst).expect("S12 is there");
        let states = [ALWAYS[VOID], ALWAYS[REFERENCE], "same", "less", "other"];
        let ran = states.map(|key| (key.to_owned(), ContenderState::Ran)).into();
        let mut outcome = WorkloadOutcome::new(spec, ran);
        outcome.alone = vec![
            run(ALWAYS[VOID], 1, 20),
            run(ALWAYS[REFERENCE], 7, 20),
            run("same", 7, 20),
            run("less", 7, 19),
            run("other", 8, 20),
        ];
        compare(&mut outcome);
        let wrong = |key: &str| matches!(&outcome.states[key], ContenderState::Wrong(_));
        assert_eq!(states.map(wrong), [false, false, false, true, true]);
    }
}
