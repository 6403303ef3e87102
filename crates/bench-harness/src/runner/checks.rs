//! Compares the results of checks. Reports do not show figures of a contender that fails its check.

use super::record::{Checked, ContenderState, WorkloadOutcome};
use crate::card::ContenderClass;
use crate::contenders::{ALWAYS, REFERENCE, VOID};

/// Compares each check with the expected number of allocations, with the contents that were
/// written, and with the reference's check. The state of a contender that differs becomes `Wrong`.
pub(super) fn compare(outcome: &mut WorkloadOutcome) {
    let reference = outcome.checks.iter().find(|check| check.contender == ALWAYS[REFERENCE]).cloned();
    let class = outcome.spec.class;
    for check in &outcome.checks {
        if let Some(wrong) = wrong(class, check, reference.as_ref())
            && let Some(state) = outcome.states.get_mut(&check.contender)
            && state.ran()
        {
            *state = ContenderState::Wrong(wrong);
        }
    }
}

/// Returns how a check differs from the expected one, or `None` if it does not. If the reference
/// died, only the number of allocations and the contents are compared.
fn wrong(class: ContenderClass, check: &Checked, reference: Option<&Checked>) -> Option<String> {
    let asked = check.asked.or(reference.map(|reference| reference.tally.allocs));
    if let Some(asked) = asked
        && check.tally.allocs != asked
    {
        return Some(format!("{} allocations requested, {} counted", asked, check.tally.allocs));
    }
    // In these two classes, every item is freed through the contender. In the other two, the heap
    // frees a buffer that a ring refused, and an arena frees all nodes of a tree at once.
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
    reference
        .is_some_and(|reference| check.checksum != reference.checksum)
        .then(|| "checksum differs from the reference's".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::CallTally;

    fn check(contender: &str, allocs: u64, damaged: u64, checksum: u64) -> Checked {
        let tally =
            CallTally { allocs, resizes: 0, frees: allocs, bytes: 64 * allocs, peak_live: 64, damaged };
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
}
