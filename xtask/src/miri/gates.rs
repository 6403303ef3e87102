//! The packages that Miri checks, and the part of their tests that each command runs.

/// The part of a package's tests that Miri runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MiriExtent {
    /// All tests.
    Whole,
    /// All tests except the tests that [`MiriGate::skipped_in_ci`] and [`MiriGate::whole_only`]
    /// name.
    Short,
    /// The unit tests except the tests that [`MiriGate::slow_units`] names.
    Units,
}

/// A package and how Miri checks it.
#[derive(Debug)]
pub(super) struct MiriGate {
    /// The package's directory.
    pub(super) dir: &'static str,
    /// Whether Miri checks strict provenance. A crate that makes a header's pointer from an integer
    /// cannot pass that check.
    pub(super) strict: bool,
    /// Whether `ci` and `test` also check the package. Both have little time and leave out
    /// `testkit`, whose suite runs in `ci` as part of the tests of other crates.
    pub(super) always: bool,
    /// Tests that `ci` leaves to `cargo xtask miri`. Each takes seven seconds or more, and the
    /// remaining tests execute most of the same code.
    pub(super) skipped_in_ci: &'static [&'static str],
    /// Integration tests that `ci` leaves to `cargo xtask miri`. Most test memory use or
    /// interoperation with other crates. They execute the same code as the remaining tests.
    pub(super) whole_only: &'static [&'static str],
    /// Unit tests that each take a few seconds. `test` skips them.
    pub(super) slow_units: &'static [&'static str],
}

impl MiriGate {
    /// The defaults of a row: strict provenance, and no test that `ci` or `test` skips.
    const WHOLE: Self =
        Self { dir: "", strict: true, always: true, skipped_in_ci: &[], whole_only: &[], slow_units: &[] };

    /// Returns the names that a run of `extent` passes to `--skip`.
    pub(super) fn skipped(&self, extent: MiriExtent) -> &'static [&'static str] {
        match extent {
            MiriExtent::Whole => &[],
            MiriExtent::Short => self.skipped_in_ci,
            MiriExtent::Units => self.slow_units,
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
        // The tests of `refusals` run random programs with refusals. The `failing` tests still run:
        // they refuse every 17th call, either alone or with all later calls, with tiny and with
        // standard chunks. The other three names are tests of sparse rings that need many chunks.
        skipped_in_ci: &[
            "tiny_chunks_limited::refusals",
            "standard_chunks::refusals",
            "refused_request_takes_a_hole_that_no_search_has_found",
            "ring_whose_blocks_live_long_stops_dividing_chunks",
            "long_lived_blocks_that_are_many_and_small_keep_few_chunks",
        ],
        whole_only: &["hashbrown", "layouts", "limit", "namesake", "pinning", "pressure", "std_trait"],
        slow_units: &["one::idle_tests"],
        ..MiriGate::WHOLE
    },
    MiriGate { dir: "ringal", ..MiriGate::WHOLE },
    MiriGate {
        dir: "shared_arena",
        whole_only: &["burst", "layouts", "limit", "memory", "namesake", "resident"],
        slow_units: &["parked::tests"],
        ..MiriGate::WHOLE
    },
    MiriGate {
        dir: "typed-pool",
        strict: false,
        whole_only: &[
            "burst",
            "hashbrown",
            "hygiene",
            "limit",
            "memory",
            "scope_charges",
            "scope_figures",
            "scope_kept",
            "scope_suite",
            "std_trait",
        ],
        skipped_in_ci: &[
            "threads::rest_tests",
            "threads::guest_tests",
            "threads::selection_tests::a_thread_whose",
            "threads::selection_tests::a_thread_that_replaces_one_value",
            "threads::selection_tests::frees_that_go_to_the_fronts",
            "an_owner_reuses_purged_units_whose_slots_another_thread_freed",
            "slots_of_a_hidden_front_return_to_the_heap_although_it_hosts",
            "an_owner_reuses_purged_units_of_which_it_freed",
            "a_look_that_purges_nothing_waits_for_the_clock",
            "freed_slots_serve_a_thread_at_its_limit",
            "sleeping_thread_keeps_one_unit_in_its_bundle",
            "frees_after_thread_exit_lease_the_record_twice_for_each_group",
            "slots_of_ended_threads_are_reused_while_others_are_freed",
            "values_of_every_size_are_boxed",
            "a_backing_allocator_may_use_the_pool_above_it",
            "a_shrink_at_the_limit_exceeds_it_by_a_short_unit_at_most",
        ],
        slow_units: &[
            "threads::purge_tests",
            "threads::bundle_tests",
            "threads::guest_tests",
            "threads::rest_tests",
            "threads::scope_tests",
            "threads::selection_tests",
        ],
        ..MiriGate::WHOLE
    },
];
