//! Compares the results of checks, and the runs of contenders in their own processes. Reports do
//! not show the ratios and costs of a contender that fails a comparison.

use super::record::{AloneRun, Checked, ContenderState, WorkloadOutcome};
use crate::card::ContenderClass;
use crate::contenders::{ALWAYS, REFERENCE, VOID};

/// The text for a contender that read back other contents than the reference.
const OTHER_SUM: &str = "checksum differs from the reference's";

/// Compares each check with the expected number of allocations, with the contents that were
/// written, and with the reference's check. Compares each run with the reference's. The state of a
/// contender that differs becomes `Wrong`.
pub(super) fn compare(outcome: &mut WorkloadOutcome) {
    let (spec, measured) = (&outcome.spec, &outcome.measured);
    let reference = measured.checks.iter().find(|check| check.contender == ALWAYS[REFERENCE]);
    let checks = measured.checks.iter().map(|of| (&of.contender, wrong(spec.class, of, reference)));
    let runs = measured.alone.iter().map(|of| (&of.contender, differs(of, &measured.alone)));
    for (key, wrong) in checks.chain(runs) {
        if let Some(wrong) = wrong
            && let Some(state) = outcome.states.get_mut(key)
            && state.ran()
        {
            *state = ContenderState::Wrong(wrong);
        }
    }
}

/// Returns how a run in its own process differs from the reference's. Returns `None` if it does
/// not, or if the reference has no such run.
fn differs(run: &AloneRun, all: &[AloneRun]) -> Option<String> {
    let reference = all.iter().find(|of| of.contender == ALWAYS[REFERENCE] && of.after == run.after)?;
    let (mine, theirs) = (&run.figures, &reference.figures);
    if mine.ops != theirs.ops {
        return Some(format!("{} calls, the reference {}", mine.ops, theirs.ops));
    }
    // Blocks of the allocator that does nothing overlap, so its checksum may differ.
    let sum = mine.checksum != theirs.checksum && run.contender != ALWAYS[VOID];
    sum.then(|| OTHER_SUM.to_owned())
}

/// Returns how a check differs from the expected one, or `None` if it does not. If the reference
/// died, only the contents and, if the workload states it, the number of allocations are compared.
fn wrong(class: ContenderClass, check: &Checked, reference: Option<&Checked>) -> Option<String> {
    let asked = check.asked.or(reference.map(|reference| reference.tally.allocs));
    if let Some(asked) = asked
        && check.tally.allocs != asked
    {
        return Some(format!("{} allocations requested, {} counted", asked, check.tally.allocs));
    }
    // Compare the frees and resizes only in `Blocks` and `Objects`, where every item is freed
    // through the contender. In `Buffers`, a refused buffer comes from the heap and returns to it.
    // In `Nodes`, an arena frees all nodes of a tree at once.
    if let Some(reference) = reference
        && matches!(class, ContenderClass::Blocks | ContenderClass::Objects)
        && (check.tally.frees, check.tally.resizes) != (reference.tally.frees, reference.tally.resizes)
    {
        return Some(format!(
            "{} frees and {} resizes, the reference {} and {}",
            check.tally.frees, check.tally.resizes, reference.tally.frees, reference.tally.resizes
        ));
    }
    // Blocks of the allocator that does nothing overlap, so their contents and the checksum are not
    // checked.
    if check.contender == ALWAYS[VOID] {
        return None;
    }
    if check.tally.damaged > 0 {
        return Some(format!("{} blocks lost their contents", check.tally.damaged));
    }
    let sum = reference.is_some_and(|reference| check.checksum != reference.checksum);
    sum.then(|| OTHER_SUM.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Measurements;
    use crate::tally::CallTally;
    use crate::workloads::{AfterBurst, AloneFigures, WorkloadSpec, catalogue};

    fn check(contender: &str, allocs: u64, damaged: u64, checksum: u64) -> Checked {
        let tally = CallTally { allocs, resizes: 0, frees: allocs, peak_live: 64, damaged };
        Checked { contender: contender.to_owned(), asked: Some(10), tally, checksum }
    }

    #[test]
    fn a_check_fails_on_missing_allocations_changed_contents_or_another_sum() {
        let reference = check(ALWAYS[REFERENCE], 10, 0, 77);
        let among = Some(&reference);
        assert_eq!(wrong(ContenderClass::Blocks, &reference, among), None);
        assert!(
            wrong(ContenderClass::Blocks, &check("x", 9, 0, 77), among)
                .is_some_and(|why| why.contains("10 allocations requested"))
        );
        let mut lost = check("x", 10, 0, 77);
        lost.tally.frees = 9;
        assert!(wrong(ContenderClass::Blocks, &lost, among).is_some_and(|why| why.contains("9 frees")));
        assert!(
            wrong(ContenderClass::Blocks, &check("x", 10, 1, 77), among)
                .is_some_and(|why| why.contains("lost"))
        );
        assert!(
            wrong(ContenderClass::Blocks, &check("x", 10, 0, 78), among)
                .is_some_and(|why| why.contains("checksum"))
        );
        assert_eq!(wrong(ContenderClass::Blocks, &check(ALWAYS[VOID], 10, 5, 1), among), None);
        assert!(
            wrong(ContenderClass::Blocks, &check(ALWAYS[VOID], 0, 0, 77), among).is_some(),
            "the loop must be the same loop"
        );
        // If the reference died, only the number of allocations and the contents are compared.
        assert!(wrong(ContenderClass::Blocks, &check("x", 9, 0, 77), None).is_some());
        assert!(wrong(ContenderClass::Blocks, &check("x", 10, 1, 77), None).is_some());
        assert_eq!(wrong(ContenderClass::Blocks, &check("x", 10, 0, 78), None), None);
    }

    fn run(contender: &str, checksum: u64, ops: u64) -> AloneRun {
        AloneRun {
            contender: contender.to_owned(),
            after: Some(AfterBurst::Asleep),
            figures: AloneFigures { checksum, ops, ..AloneFigures::default() },
        }
    }

    #[test]
    fn a_contender_that_did_other_work_has_no_figures() {
        let spec = catalogue().into_iter().find(WorkloadSpec::is_burst).expect("the catalogue contains S12");
        let states = [ALWAYS[VOID], ALWAYS[REFERENCE], "same", "less", "other"];
        let ran = states.map(|key| (key.to_owned(), ContenderState::Ran)).into();
        let alone = vec![
            run(ALWAYS[VOID], 1, 20),
            run(ALWAYS[REFERENCE], 7, 20),
            run("same", 7, 20),
            run("less", 7, 19),
            run("other", 8, 20),
        ];
        let measured = Measurements { alone, ..Measurements::default() };
        let mut outcome = WorkloadOutcome { spec, states: ran, measured };
        compare(&mut outcome);
        let wrong = |key: &str| matches!(&outcome.states[key], ContenderState::Wrong(_));
        assert_eq!(states.map(wrong), [false, false, false, true, true]);
    }
}
