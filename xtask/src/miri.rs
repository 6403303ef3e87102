//! `cargo xtask miri`: runs the tests under Miri with both borrow models, and threaded tests with
//! many seeds.

mod gates;
mod model;
mod targets;

use anyhow::Result;
use clap::Args;

use self::gates::{GATES, MiriExtent, MiriGate};
use self::model::BorrowModel;
use self::targets::{targets, threaded_targets};
use crate::controls::table::VARIABLE;
use crate::libtest::{COMPILE_FAIL, THREADED, TestRun};
use crate::shell::Cmd;
use crate::steps::{Outcome, Step, run};
use crate::toolchain::{self, MissingToolchain};
use crate::workspace::{Package, Workspace};

/// The components that Miri needs.
const COMPONENTS: [&str; 2] = ["miri", "rust-src"];

/// The default number of seeds of `cargo xtask miri`.
const SEEDS: u32 = 64;

/// The number of seeds in `cargo xtask ci`, which should take about half an hour in all.
pub(crate) const CI_SEEDS: u32 = 1;

/// The flags for crates that find headers by masking addresses, and so need exposed provenance.
const EXPOSED: &str = "-Zmiri-permissive-provenance";

/// The flags for crates whose provenance is strict.
const STRICT: &str = "-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check";

/// The flag that makes Miri remove the borrow tags of dead pointers after every 1,000 basic blocks.
/// It does not change any check. It shortens a run, because the tests reborrow often and each
/// access to memory searches the tags. With the default of 10,000, the tests of `ring-alloc` take
/// 14 to 23 % longer.
const QUICK: &str = "-Zmiri-provenance-gc=1000";

/// The flags of the search with seeds: more preemptions than by default, and spurious failures of
/// four in five weak exchanges. In addition, no thread reuses another thread's address, because
/// reuse would order the two threads and hide races.
const CONCURRENT: &str = "-Zmiri-preemption-rate=0.05 -Zmiri-address-reuse-cross-thread-rate=0 \
    -Zmiri-compare-exchange-weak-failure-rate=0.8";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask miri                                  checks both models; threaded tests with 64 seeds
  cargo xtask miri --package ring-alloc             checks one package
  cargo xtask miri --package prim --model tree      checks one model
  cargo xtask miri --seeds 512                      searches longer

Threaded tests have conc_ in their name. The last model (Tree Borrows, if both run) runs them in the search with seeds
only. With --seeds 0 there is no search, and they run once like the other tests. Flags in MIRIFLAGS come first.")]
pub(crate) struct MiriOptions {
    /// Check this package: its name or directory.
    #[arg(long, short)]
    package: Option<String>,
    /// The number of seeds for threaded tests; 0 disables the search.
    #[arg(long, default_value_t = SEEDS)]
    seeds: u32,
    /// The borrow model.
    #[arg(long, value_enum, default_value_t = BorrowModel::Both)]
    model: BorrowModel,
}

/// Runs the tests of the chosen packages under Miri. Returns whether no step failed.
pub(crate) fn main(ws: &Workspace, options: &MiriOptions) -> Result<bool> {
    let packages = match options.package.as_deref() {
        Some(name) => vec![ws.package(name)?],
        None => gated(ws, |_| true)?,
    };
    Ok(run(ws, plan(&packages, options.model, options.seeds, MissingToolchain::Install, MiriExtent::Whole)))
}

/// Returns the Miri steps of `cargo xtask test`, which should take only a few minutes. They run
/// each quick unit test once under Tree Borrows.
pub(crate) fn steps_of_test(ws: &Workspace) -> Result<Vec<Step<'_>>> {
    let packages = gated(ws, |gate| gate.always)?;
    Ok(plan(&packages, BorrowModel::Tree, 0, MissingToolchain::Report, MiriExtent::Units))
}

/// Returns the steps of the packages that `ci` checks, under Tree Borrows alone.
pub(crate) fn steps(ws: &Workspace, seeds: u32, missing: MissingToolchain) -> Result<Vec<Step<'_>>> {
    Ok(plan(&gated(ws, |gate| gate.always)?, BorrowModel::Tree, seeds, missing, MiriExtent::Short))
}

fn gated(ws: &Workspace, chosen: impl Fn(&MiriGate) -> bool) -> Result<Vec<&Package>> {
    GATES.iter().filter(|gate| chosen(gate)).map(|gate| ws.package(gate.dir)).collect()
}

fn plan<'w>(
    packages: &[&'w Package],
    model: BorrowModel,
    seeds: u32,
    missing: MissingToolchain,
    extent: MiriExtent,
) -> Vec<Step<'w>> {
    let models: &[BorrowModel] = match model {
        BorrowModel::Both => &[BorrowModel::Stacked, BorrowModel::Tree],
        BorrowModel::Stacked => &[BorrowModel::Stacked],
        BorrowModel::Tree => &[BorrowModel::Tree],
    };
    let searched = models.last().copied().filter(|_| seeds > 0);
    let mut steps = Vec::new();
    for package in packages {
        let package = *package;
        for model in models.iter().copied() {
            let name = format!("miri/{}/{}", package.short(), model.word());
            let what = match extent {
                MiriExtent::Whole => model.title().to_owned(),
                MiriExtent::Short => {
                    format!("{}: most tests; `cargo xtask miri` runs all, under both models", model.title())
                }
                MiriExtent::Units => {
                    format!("{}: quick unit tests; `cargo xtask miri` runs all tests", model.title())
                }
            };
            let mut harness = skip(searched == Some(model));
            let gate = GATES.iter().find(|gate| gate.dir == package.dir);
            let skipped = gate.map(|gate| gate.skipped(extent)).unwrap_or_default();
            let left_out =
                gate.filter(|_| extent == MiriExtent::Short).map_or(&[][..], |gate| gate.whole_only);
            for name in skipped {
                harness.extend(["--skip".to_owned(), (*name).to_owned()]);
            }
            steps.push(
                Step::new(name, what, move |ws| {
                    let nightly = match toolchain::nightly(&COMPONENTS, missing) {
                        Ok(nightly) => nightly,
                        Err(why) => return Ok(Outcome::Skipped(why)),
                    };
                    let cargo = base(ws, package, &nightly, &flags(package, model));
                    let cargo = match extent {
                        MiriExtent::Units => cargo.arg("--lib"),
                        MiriExtent::Short | MiriExtent::Whole => cargo.args(targets(ws, package, left_out)?),
                    };
                    // A package without a test passes: the tests of the crates that use it run its
                    // code.
                    Ok(Outcome::Passed(format!("{} tests", TestRun { cargo, harness }.counted()?.passed)))
                })
                .beside(),
            );
        }
        if let Some(model) = searched {
            let what = format!("threaded tests, seeds 0..{seeds}, {}", model.title());
            steps.push(
                Step::new(format!("miri/{}/seeds", package.short()), what, move |ws| {
                    let nightly = match toolchain::nightly(&COMPONENTS, missing) {
                        Ok(nightly) => nightly,
                        Err(why) => return Ok(Outcome::Skipped(why)),
                    };
                    many_seeds(ws, package, &nightly, model, seeds)
                })
                .beside(),
            );
        }
    }
    steps
}

/// Runs the threaded tests with many seeds. Skips targets whose source has no threaded test,
/// because each start of Miri costs more than a second.
fn many_seeds(
    ws: &Workspace,
    package: &Package,
    nightly: &str,
    model: BorrowModel,
    seeds: u32,
) -> Result<Outcome> {
    let targets = threaded_targets(ws, package)?;
    let mut ran = 0;
    if !targets.is_empty() {
        let cargo = base(ws, package, nightly, &seeded(package, model, seeds)).args(&targets);
        ran = TestRun { cargo, harness: vec![THREADED.to_owned()] }.counted()?.started;
    }
    Ok(Outcome::Passed(match ran / u64::from(seeds) {
        0 => format!("{} has no threaded test", package.name),
        n => format!("{n} tests, seeds 0..{seeds}"),
    }))
}

/// Returns `cargo miri test` of a package for a negative control, or `None` if Miri is not
/// installed.
pub(crate) fn control_base(ws: &Workspace, package: &Package, seeds: u32) -> Option<Cmd> {
    let nightly = toolchain::nightly(&COMPONENTS, MissingToolchain::Report).ok()?;
    let flags = seeded(package, BorrowModel::Tree, seeds);
    Some(base(ws, package, &nightly, &format!("{flags} -Zmiri-env-forward={}", VARIABLE)))
}

fn base(ws: &Workspace, package: &Package, nightly: &str, flags: &str) -> Cmd {
    let miri = ws.cargo_of(nightly).args(["miri", "test", "--package", &package.name]);
    miri.env_append("MIRIFLAGS", flags).env_append("RUSTFLAGS", toolchain::std_tests(nightly))
}

fn flags(package: &Package, model: BorrowModel) -> String {
    let strict = GATES.iter().any(|gate| gate.dir == package.dir && gate.strict);
    let mut flags = format!("{} {QUICK}", if strict { STRICT } else { EXPOSED });
    if model == BorrowModel::Tree {
        flags.push_str(" -Zmiri-tree-borrows");
    }
    flags
}

fn seeded(package: &Package, model: BorrowModel, seeds: u32) -> String {
    format!("{} {CONCURRENT} -Zmiri-many-seeds=0..{seeds}", flags(package, model))
}

/// Returns the flags that skip compile-fail tests, which start a compiler and so cannot run under
/// Miri. With `searched`, they also skip threaded tests, which the search runs with the same
/// model.
fn skip(searched: bool) -> Vec<String> {
    let names = [Some(COMPILE_FAIL), searched.then_some(THREADED)];
    names.into_iter().flatten().flat_map(|name| ["--skip".to_owned(), name.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::targets::contains;
    use super::{BorrowModel, GATES, MiriExtent, QUICK, flags, plan, seeded, skip};
    use crate::toolchain::MissingToolchain;
    use crate::workspace::Workspace;
    use crate::workspace::tests::sample;

    #[test]
    fn flags_depend_on_package_and_model() {
        let ws = sample();
        let prim = ws.package("prim").unwrap();
        assert_eq!(flags(prim, BorrowModel::Stacked), format!("-Zmiri-permissive-provenance {QUICK}"));
        assert!(flags(prim, BorrowModel::Tree).ends_with(" -Zmiri-tree-borrows"));
        assert!(seeded(prim, BorrowModel::Tree, 7).ends_with("-Zmiri-many-seeds=0..7"));
    }

    #[test]
    fn threaded_tests_are_skipped_if_the_search_runs_them() {
        assert_eq!(skip(false), ["--skip", "compile_fail"]);
        assert_eq!(skip(true), ["--skip", "compile_fail", "--skip", "conc_"]);
    }

    #[test]
    fn each_model_and_the_search_are_separate_steps() {
        let ws = sample();
        let packages = [ws.package("prim").unwrap()];
        let names = |model, seeds| -> Vec<String> {
            plan(&packages, model, seeds, MissingToolchain::Report, MiriExtent::Whole)
                .into_iter()
                .map(|step| step.name)
                .collect()
        };
        assert_eq!(names(BorrowModel::Both, 4), ["miri/prim/stacked", "miri/prim/tree", "miri/prim/seeds"]);
        assert_eq!(names(BorrowModel::Stacked, 0), ["miri/prim/stacked"]);
    }

    #[test]
    fn test_runs_unit_tests_and_ci_runs_tree_borrows() {
        let ws = Workspace::load().unwrap();
        let steps: Vec<_> = super::steps_of_test(&ws).unwrap().into_iter().map(|step| step.what).collect();
        assert!(steps.iter().all(|what| what.starts_with("Tree Borrows: quick unit tests;")), "{steps:?}");
        let in_ci = super::steps(&ws, super::CI_SEEDS, MissingToolchain::Report).unwrap();
        assert!(in_ci.iter().all(|step| step.what.contains("Tree Borrows")));
    }

    #[test]
    fn every_skipped_test_exists() {
        let ws = Workspace::load().unwrap();
        for gate in &GATES {
            let package = ws.package(gate.dir).unwrap();
            for file in gate.whole_only {
                assert!(package.tests.iter().any(|test| test == file), "{} has no test {file}", gate.dir);
            }
            // A name that ends in `_tests` is a module of unit tests. Every other entry of
            // `skipped_in_ci` is the start of a test's name, or has the form `suite::test`. For the
            // form `suite::test`, only the suite's name is checked.
            let (units, tests): (Vec<_>, Vec<_>) =
                gate.skipped_in_ci.iter().partition(|name| name.ends_with("_tests"));
            for skipped in units.into_iter().chain(gate.slow_units) {
                let folder = ws.root.join("crates").join(gate.dir).join("src");
                let (module, name) = skipped.rsplit_once("::").unwrap();
                let file = folder.join(module.replace("::", "/")).join(format!("{name}.rs"));
                assert!(file.is_file(), "{} has no unit tests {skipped}", gate.dir);
            }
            for skipped in tests {
                let name = match skipped.split_once("::") {
                    Some((suite, _)) => suite.to_owned(),
                    None => format!("fn {skipped}"),
                };
                let has = |part| contains(&ws.root.join("crates").join(gate.dir).join(part), &name);
                assert!(has("src").unwrap() || has("tests").unwrap(), "{} has no test {skipped}", gate.dir);
            }
        }
    }
}
