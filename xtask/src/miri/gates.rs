//! The packages that Miri checks, and the part of their tests that each command runs.

/// The part of a package's tests that Miri runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StackedExtent {
    /// All tests.
    Whole,
    /// Under Tree Borrows, all tests except those that [`MiriGate::skipped_in_ci`] and
    /// [`MiriGate::whole_only`] name. Under Stacked Borrows, the unit tests and those that
    /// [`MiriGate::stacked_in_ci`] names.
    Short,
    /// The unit tests except those that [`MiriGate::skipped_in_test`] names.
    Units,
}

/// A package and how Miri checks it.
#[derive(Debug)]
pub(super) struct MiriGate {
    /// The package's directory.
    pub(super) dir: &'static str,
    /// Whether Miri checks strict provenance. A crate that masks an address to find a header cannot
    /// pass that check, since the header's pointer comes from an integer.
    pub(super) strict: bool,
    /// Whether `ci` and `test` also check the package. Both have little time and leave out
    /// `testkit`, whose suite runs in `ci` as part of the tests of other crates.
    pub(super) always: bool,
    /// The integration tests that `ci` runs under Stacked Borrows, in addition to the unit tests.
    /// `None` means all. Large crates name the comparisons with an oracle, which call the whole
    /// interface.
    pub(super) stacked_in_ci: Option<&'static [&'static str]>,
    /// Tests that `ci` skips under both models, because each takes more than a minute.
    pub(super) skipped_in_ci: &'static [&'static str],
    /// Integration tests that `ci` leaves to `cargo xtask miri` under both models. They test
    /// memory use or interoperation with other crates, and execute the same code as the remaining
    /// tests.
    pub(super) whole_only: &'static [&'static str],
    /// Unit tests that each take a few seconds. `test` skips them.
    pub(super) skipped_in_test: &'static [&'static str],
}

impl MiriGate {
    /// The defaults of a row: strict provenance, and no test that `ci` or `test` skips.
    const WHOLE: Self = Self {
        dir: "",
        strict: true,
        always: true,
        stacked_in_ci: None,
        skipped_in_ci: &[],
        whole_only: &[],
        skipped_in_test: &[],
    };

    /// Returns the names of the tests that a run of `extent` skips under both models.
    pub(super) fn skipped(&self, extent: StackedExtent) -> &'static [&'static str] {
        match extent {
            StackedExtent::Whole => &[],
            StackedExtent::Short => self.skipped_in_ci,
            StackedExtent::Units => self.skipped_in_test,
        }
    }
}

/// All packages that Miri checks.
pub(super) const GATES: [MiriGate; 6] = [
    MiriGate { dir: "prim", strict: false, ..MiriGate::WHOLE },
    MiriGate { dir: "testkit", strict: false, always: false, ..MiriGate::WHOLE },
    MiriGate {
        dir: "ring-alloc",
        strict: false,
        stacked_in_ci: Some(&["suite"]),
        // These tests run random programs with refusals. The tests `failing` still run: they
        // refuse one call after another, to rings with tiny and with standard chunks.
        skipped_in_ci: &["tiny_chunks_limited::refusals", "standard_chunks::refusals"],
        whole_only: &["hashbrown", "layouts", "limit", "namesake", "pinning", "pressure", "std_trait"],
        skipped_in_test: &["one::idle_tests"],
        ..MiriGate::WHOLE
    },
    MiriGate { dir: "ringal", ..MiriGate::WHOLE },
    MiriGate {
        dir: "shared_arena",
        stacked_in_ci: Some(&["property"]),
        whole_only: &["burst", "layouts", "limit", "memory", "namesake", "resident"],
        skipped_in_test: &["parked::tests"],
        ..MiriGate::WHOLE
    },
    MiriGate {
        dir: "typed-pool",
        strict: false,
        stacked_in_ci: Some(&["suite"]),
        // This test tries each size in a scope. The suite tries each size without a scope.
        skipped_in_ci: &["each_operation_in_a_scope::sizes"],
        whole_only: &[
            "burst",
            "hashbrown",
            "hygiene",
            "limit",
            "memory",
            "scope_charges",
            "scope_figures",
            "scope_kept",
            "std_trait",
        ],
        skipped_in_test: &["threads::purge_tests", "threads::bundle_tests"],
        ..MiriGate::WHOLE
    },
];
