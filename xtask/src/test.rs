//! `cargo xtask test`: runs the everyday tests of a change. `ci` runs more.

use anyhow::Result;
use clap::Args;

use crate::cpeers::{self, HARNESS, RustPeers, Support};
use crate::libtest::TestRun;
use crate::loom;
use crate::miri;
use crate::shell::Cmd;
use crate::steps::{Outcome, Step, run};
use crate::workspace::Workspace;

/// The package of the criterion benches, which has no tests.
pub(crate) const BENCHES: &str = "benches";

/// The arguments of cargo that select unit tests, integration tests and examples.
const UNIT: [&str; 4] = ["--lib", "--bins", "--tests", "--examples"];

/// The environment variable for the number of random programs that testkit's suite runs for each
/// profile, and its value in `test`. In `ci`, the suite runs twice as many.
const SUITE_SEEDS: (&str, &str) = ("EPHEMERA_SEEDS", "24");

/// Packages that can implement both versions of the allocator trait at once, with the feature that
/// adds the second version.
const BOTH_TRAITS: [(&str, &str); 3] =
    [("prim", "allocator-api2-04"), ("ring-alloc", "allocator-api2-04"), ("typed-pool", "allocator-api2-04")];

/// The integration tests of these packages that use the second version. The feature only adds
/// implementations, so it does not affect any other test.
const BOTH_TRAITS_TESTS: [&str; 2] = ["backing", "traits"];

/// The packages whose tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestedPackages {
    /// All packages.
    All,
    /// All packages except the harness. Building the harness's contenders takes half of the build
    /// time, and the harness's tests take measurements.
    Daily,
}

/// The tests that run with both versions of the allocator trait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BothTraitsExtent {
    /// All tests.
    Whole,
    /// The unit tests and [`BOTH_TRAITS_TESTS`], for `ci`.
    Short,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask test           runs unit, integration and doc tests, loom models, and the unit tests
                             under Miri with Tree Borrows if it is installed
  cargo xtask test --fast    leaves out loom and Miri
  cargo xtask test --fast --features   also runs all tests with features that are not the default

`cargo xtask ci` also tests other features and the harness, runs twice as many random programs, explores the models
with one more preemption, adds the model of the recorder, and runs the integration tests under Miri.

To run one test, use cargo itself: cargo test -p ring-alloc NAME")]
pub(crate) struct TestOptions {
    /// Leave out loom and Miri.
    #[arg(long)]
    fast: bool,
    /// Also run all tests with features that are not the default.
    #[arg(long)]
    features: bool,
}

/// Builds and runs the tests. Returns whether no step failed.
pub(crate) fn main(ws: &Workspace, options: &TestOptions) -> Result<bool> {
    // The build uses all cores. The tests use one core, so the other steps run beside them.
    let mut todo = vec![Step::new("test/build", "the tests and examples build", |ws| {
        for cargo in commands(ws, TestedPackages::Daily, &ws.cargo().arg("test")) {
            cargo.args(UNIT).arg("--no-run").run_or("the tests do not build")?;
        }
        Ok(Outcome::Passed(String::new()))
    })];
    let mut tests = steps(TestedPackages::Daily);
    let others = tests.split_off(1);
    todo.extend(tests.into_iter().map(Step::beside));
    if options.fast {
        for name in ["loom", "miri"] {
            todo.push(Step::skipped(name, "left out", "--fast leaves it out"));
        }
    } else {
        // Miri over typed-pool, the longest of these steps, comes first, so that at the end no lane
        // waits for it.
        todo.extend(miri::steps_of_test(ws)?.into_iter().rev());
        todo.extend(loom::steps_of_test(ws)?);
    }
    // The doc tests come last: they build in the same target directory as the unit tests, so they
    // would wait for the unit tests anyway.
    todo.extend(others);
    if options.features {
        todo.extend(feature_steps(BothTraitsExtent::Whole));
    }
    Ok(run(ws, todo))
}

/// Returns the steps that `test` and `ci` share. They need only the pinned compiler.
pub(crate) fn steps(packages: TestedPackages) -> Vec<Step<'static>> {
    vec![
        Step::new("test/unit", "unit and integration tests pass, examples build", move |ws| {
            each(ws, packages, &UNIT)
        }),
        Step::new("test/doc", "examples in the documentation pass", move |ws| {
            let ran = doc(ws, packages)?;
            Ok(Outcome::Passed(format!("{ran} tests")))
        })
        .beside(),
    ]
}

/// Returns the steps that run tests with features that are not the default.
pub(crate) fn feature_steps(extent: BothTraitsExtent) -> Vec<Step<'static>> {
    vec![
        Step::new("test/ringal-features", "tests of ringal pass with `bytes` and `checked`", |ws| {
            let cargo = ws.cargo().args(["test", "--lib", "--tests", "--package", "ringal"]);
            TestRun { cargo: cargo.args(["--features", "bytes,checked"]), harness: Vec::new() }
                .check("no test ran")
        })
        .beside(),
        Step::new("test/both-traits", both_traits_what(extent), move |ws| {
            TestRun { cargo: both_traits(ws, extent)?, harness: Vec::new() }.check("no test ran")
        })
        .beside(),
    ]
}

fn both_traits_what(extent: BothTraitsExtent) -> &'static str {
    match extent {
        BothTraitsExtent::Whole => "tests pass with both versions of the allocator trait",
        BothTraitsExtent::Short => {
            "unit tests, and tests of the traits, pass with both versions of the allocator trait; \
             `cargo xtask test --features` runs all tests"
        }
    }
}

fn both_traits(ws: &Workspace, extent: BothTraitsExtent) -> Result<Cmd> {
    let mut cargo = ws.cargo().args(["test", "--lib"]);
    cargo = match extent {
        BothTraitsExtent::Whole => cargo.arg("--tests"),
        BothTraitsExtent::Short => cargo.args(BOTH_TRAITS_TESTS.iter().flat_map(|name| ["--test", name])),
    };
    for (dir, feature) in BOTH_TRAITS {
        let name = &ws.package(dir)?.name;
        cargo = cargo.args(["--package", name, "--features", &format!("{name}/{feature}")]);
    }
    Ok(cargo)
}

/// Returns `cargo` for all packages except the criterion benches. There are two commands if some
/// contenders in C or C++ cannot be built: cargo selects features for a whole command, and the
/// harness then needs its own features.
pub(crate) fn workspace(ws: &Workspace, cargo: &Cmd) -> Vec<Cmd> {
    let cargo = cpeers::one_library(cargo.clone());
    let whole = cargo.clone().args(["--workspace", "--exclude", BENCHES]);
    let support = Support::detect(ws);
    let Some(left_out) = support.told() else { return vec![whole] };
    eprintln!("{left_out}");
    vec![
        whole.args(["--exclude", HARNESS]),
        cargo.args(["--package", HARNESS]).args(support.arguments(RustPeers::All)),
    ]
}

/// Returns `cargo` for the packages that `packages` selects, as one or two commands.
fn commands(ws: &Workspace, packages: TestedPackages, cargo: &Cmd) -> Vec<Cmd> {
    match packages {
        // A number of programs that the user has set applies to everyday tests only.
        TestedPackages::All => workspace(ws, &cargo.clone().without(SUITE_SEEDS.0)),
        TestedPackages::Daily => {
            let (name, seeds) = SUITE_SEEDS;
            let seeds = std::env::var(name).unwrap_or_else(|_| seeds.to_owned());
            vec![cargo.clone().env(name, seeds).args([
                "--workspace",
                "--exclude",
                BENCHES,
                "--exclude",
                HARNESS,
            ])]
        }
    }
}

/// Builds the tests of `test/unit` in `ci` and the programs that these tests start. Uses the
/// commands of that step, because cargo unifies features over all packages of a command: another
/// selection would rebuild most of the harness.
pub(crate) fn build(ws: &Workspace) -> Result<()> {
    for cargo in workspace(ws, &ws.cargo().arg("test")) {
        cargo.args(UNIT).arg("--no-run").run_or("the tests do not build")?;
    }
    Ok(())
}

fn each(ws: &Workspace, packages: TestedPackages, targets: &[&str]) -> Result<Outcome> {
    let mut passed = 0;
    for cargo in commands(ws, packages, &ws.cargo().arg("test")) {
        passed += TestRun { cargo: cargo.args(targets), harness: Vec::new() }.counted()?.passed;
    }
    Ok(if passed == 0 {
        Outcome::Failed("no test ran".to_owned())
    } else {
        Outcome::Passed(format!("{passed} tests"))
    })
}

/// Runs the doc tests, which cargo cannot build separately, and returns the number that passed.
/// Returns an error if one failed.
fn doc(ws: &Workspace, packages: TestedPackages) -> Result<u64> {
    let mut passed = 0;
    for cargo in commands(ws, packages, &ws.cargo().arg("test")) {
        let ran = cargo.arg("--doc").tee()?;
        if !ran.success {
            anyhow::bail!("an example in the documentation failed");
        }
        passed += crate::libtest::counts(&ran.text).passed;
    }
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::{BOTH_TRAITS, BOTH_TRAITS_TESTS, SUITE_SEEDS, TestedPackages, commands};
    use crate::workspace::Workspace;

    #[test]
    fn the_daily_tests_are_one_command_without_the_harness() {
        let ws = Workspace::load().unwrap();
        let commands = commands(&ws, TestedPackages::Daily, &ws.cargo().arg("test"));
        let [command] = &commands[..] else { panic!("{commands:?}") };
        let shown = command.shown();
        assert!(shown.ends_with("--workspace --exclude benches --exclude bench-harness"), "{shown}");
    }

    #[test]
    fn the_suite_reads_the_variable_that_the_daily_tests_set() {
        let ws = Workspace::load().unwrap();
        let config = std::fs::read_to_string(ws.root.join("crates/testkit/src/config.rs")).unwrap();
        assert!(config.contains(&format!("SEEDS_VARIABLE: &str = \"{}\";", SUITE_SEEDS.0)));
    }

    #[test]
    fn every_test_of_the_second_allocator_trait_runs_in_ci() {
        let ws = Workspace::load().unwrap();
        let mut found = Vec::new();
        for (dir, feature) in BOTH_TRAITS {
            for name in &ws.package(dir).unwrap().tests {
                let file = ws.root.join("crates").join(dir).join("tests").join(format!("{name}.rs"));
                let source = std::fs::read_to_string(file).unwrap();
                if source.contains(feature) || source.contains(&feature.replace('-', "_")) {
                    found.push(name.clone());
                }
            }
        }
        found.sort();
        found.dedup();
        assert_eq!(found, BOTH_TRAITS_TESTS);
    }
}
