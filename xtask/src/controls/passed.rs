//! Remembers which tests passed earlier in this run, without a weakening.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::table::ControlKind;

/// The pairs of a kind and a package whose tests all passed.
static PASSED: Mutex<BTreeSet<(ControlKind, String)>> = Mutex::new(BTreeSet::new());

/// Records that all tests of `kind` in `package` passed. Later controls of this run therefore skip
/// the run without a weakening.
pub(crate) fn all_passed(kind: ControlKind, package: &str) {
    PASSED.lock().unwrap_or_else(PoisonError::into_inner).insert((kind, package.to_owned()));
}

/// Returns whether all tests of `kind` in `package` passed earlier in this run.
pub(crate) fn have_all_passed(kind: ControlKind, package: &str) -> bool {
    PASSED.lock().unwrap_or_else(PoisonError::into_inner).contains(&(kind, package.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{ControlKind, all_passed, have_all_passed};

    #[test]
    fn tests_that_an_earlier_step_passed_are_known_by_kind_and_package() {
        all_passed(ControlKind::Loom, "sample");
        assert!(have_all_passed(ControlKind::Loom, "sample"));
        assert!(
            !have_all_passed(ControlKind::Test, "sample") && !have_all_passed(ControlKind::Loom, "other")
        );
    }
}
