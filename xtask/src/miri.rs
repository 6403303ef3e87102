//! `cargo xtask miri`: the tests under Miri, by both borrow models, and the threaded ones with many seeds.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::libtest::{TestRun, listed};
use crate::shell::{self, Cmd};
use crate::steps::{Outcome, Step, run};
use crate::toolchain::{self, Missing};
use crate::workspace::{Package, Workspace};

/// A package and what Miri asks of it.
#[derive(Debug)]
struct Gate {
    /// The package's directory.
    dir: &'static str,
    /// Whether every pointer must come from another one. A crate that finds its headers by masking an address cannot
    /// have that, and relies on the alignment of the address itself.
    strict: bool,
    /// Whether `ci` and `test`, which have little time, run it too. The suite of testkit runs there as part of its users' tests.
    always: bool,
}

/// The gates, in order.
const GATES: [Gate; 6] = [
    Gate { dir: "prim", strict: false, always: true },
    Gate { dir: "testkit", strict: false, always: false },
    Gate { dir: "ring-alloc", strict: false, always: true },
    Gate { dir: "ringal", strict: true, always: true },
    Gate { dir: "shared_arena", strict: true, always: true },
    Gate { dir: "typed-pool", strict: false, always: true },
];

/// What Miri needs.
const COMPONENTS: [&str; 2] = ["miri", "rust-src"];

/// The part of a name that marks a test with threads.
const THREADED: &str = "conc_";

/// Seeds of the command by itself.
const SEEDS: u32 = 64;

/// Seeds in `cargo xtask ci`, which has half an hour for everything.
pub(crate) const CI_SEEDS: u32 = 2;

/// Seeds in `cargo xtask test`, which has minutes.
pub(crate) const TEST_SEEDS: u32 = 2;

/// For crates that find headers by masking: that needs exposed provenance.
const EXPOSED: &str = "-Zmiri-permissive-provenance";

/// For the others.
const STRICT: &str = "-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check";

/// More switches, spurious failures of weak exchanges, and no address used again by another thread, which would
/// order the two threads and hide races.
const CONCURRENT: &str = "-Zmiri-preemption-rate=0.05 -Zmiri-address-reuse-cross-thread-rate=0 \
    -Zmiri-compare-exchange-weak-failure-rate=0.8";

/// Which rules for borrows are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Model {
    /// Stacked Borrows.
    Stacked,
    /// Tree Borrows.
    Tree,
    /// One after the other.
    Both,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask miri                                  both models, threaded tests with 64 seeds
  cargo xtask miri --package ring-alloc             one package
  cargo xtask miri --package prim --model tree      one model
  cargo xtask miri --seeds 512                      a long search

Threaded tests have conc_ in their name. Those of the model that is searched with seeds (Tree Borrows, where both run)
run in the search alone, with --seeds 0 once like the others. MIRIFLAGS of yours come first.")]
pub(crate) struct Options {
    /// The package, by name or directory.
    #[arg(long, short)]
    package: Option<String>,
    /// Seeds for threaded tests; 0 leaves the search out.
    #[arg(long, default_value_t = SEEDS)]
    seeds: u32,
    /// The borrow model.
    #[arg(long, value_enum, default_value_t = Model::Both)]
    model: Model,
}

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &Options) -> Result<bool> {
    let packages = match options.package.as_deref() {
        Some(name) => vec![ws.package(name)?],
        None => gated(ws, |_| true)?,
    };
    Ok(run(ws, plan(&packages, options.model, options.seeds, Missing::Install)))
}

/// The steps for the packages that are always checked.
pub(crate) fn steps(ws: &Workspace, model: Model, seeds: u32, missing: Missing) -> Result<Vec<Step<'_>>> {
    Ok(plan(&gated(ws, |gate| gate.always)?, model, seeds, missing))
}

fn gated(ws: &Workspace, chosen: impl Fn(&Gate) -> bool) -> Result<Vec<&Package>> {
    GATES.iter().filter(|gate| chosen(gate)).map(|gate| ws.package(gate.dir)).collect()
}

fn plan<'w>(packages: &[&'w Package], model: Model, seeds: u32, missing: Missing) -> Vec<Step<'w>> {
    let models: &[Model] = match model {
        Model::Both => &[Model::Stacked, Model::Tree],
        Model::Stacked => &[Model::Stacked],
        Model::Tree => &[Model::Tree],
    };
    let searched = models.last().copied().filter(|_| seeds > 0);
    let mut steps = Vec::new();
    for package in packages {
        let package = *package;
        for model in models.iter().copied() {
            let (name, what) = (format!("miri/{}/{}", package.short(), model.word()), model.title());
            let harness = skip(searched == Some(model));
            steps.push(
                Step::new(name, what, move |ws| {
                    let nightly = match toolchain::nightly(&COMPONENTS, missing) {
                        Ok(nightly) => nightly,
                        Err(why) => return Ok(Outcome::Skipped(why)),
                    };
                    let cargo =
                        base(ws, package, &nightly, &flags(package, model)).args(["--lib", "--tests"]);
                    // A package that is only types and tables has no test; its users' tests run it.
                    Ok(Outcome::Passed(format!("{} tests", TestRun { cargo, harness }.counted()?.passed)))
                })
                .beside(),
            );
        }
        if let Some(model) = searched {
            let what = format!("threaded tests, {seeds} seeds, {}", model.title());
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

/// Runs the threaded tests of each target that has any: to start Miri for nothing costs half a second a seed.
fn many_seeds(ws: &Workspace, package: &Package, nightly: &str, model: Model, seeds: u32) -> Result<Outcome> {
    let mut targets = vec![vec!["--lib".to_owned()]];
    targets.extend(package.tests.iter().map(|name| vec!["--test".to_owned(), name.clone()]));
    let mut found = 0;
    for target in targets {
        let plain = base(ws, package, nightly, &flags(package, model)).args(&target);
        let list =
            plain.clone().args(["--", "--list", THREADED]).quiet(&format!("listing {}", target.join(" ")))?;
        if !list.success {
            shell::say(&list.text);
            bail!("cannot list the tests of {} {}", package.name, target.join(" "));
        }
        let here = listed(&list.text).len();
        if here == 0 {
            continue;
        }
        found += here;
        let cargo = base(ws, package, nightly, &seeded(package, model, seeds)).args(&target);
        TestRun { cargo, harness: vec![THREADED.to_owned()] }.counted()?;
    }
    Ok(Outcome::Passed(match found {
        0 => format!("{} has no threaded test", package.name),
        n => format!("{n} tests, {seeds} seeds each"),
    }))
}

/// `cargo miri test` of a package for a negative control; `None` without a toolchain.
pub(crate) fn control_base(ws: &Workspace, package: &Package, seeds: u32) -> Option<Cmd> {
    let nightly = toolchain::nightly(&COMPONENTS, Missing::Report).ok()?;
    Some(base(ws, package, &nightly, &seeded(package, Model::Tree, seeds)))
}

fn base(ws: &Workspace, package: &Package, nightly: &str, flags: &str) -> Cmd {
    let miri = ws.cargo_of(nightly).args(["miri", "test", "--package", &package.name]);
    miri.env_append("MIRIFLAGS", flags).env_append("RUSTFLAGS", toolchain::std_tests(nightly))
}

fn flags(package: &Package, model: Model) -> String {
    let strict = GATES.iter().any(|gate| gate.dir == package.dir && gate.strict);
    let mut flags = if strict { STRICT } else { EXPOSED }.to_owned();
    if model == Model::Tree {
        flags.push_str(" -Zmiri-tree-borrows");
    }
    flags
}

fn seeded(package: &Package, model: Model, seeds: u32) -> String {
    format!("{} {CONCURRENT} -Zmiri-many-seeds=0..{seeds}", flags(package, model))
}

/// Leaves out the compile-fail tests, which start a compiler, as Miri cannot; and the threaded ones where a search
/// runs them in the same model.
fn skip(searched: bool) -> Vec<String> {
    let names = [Some(crate::test::COMPILE_FAIL), searched.then_some(THREADED)];
    names.into_iter().flatten().flat_map(|name| ["--skip".to_owned(), name.to_owned()]).collect()
}

impl Model {
    fn word(self) -> &'static str {
        match self {
            Self::Stacked => "stacked",
            Self::Tree => "tree",
            Self::Both => "both",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Stacked => "Stacked Borrows",
            Self::Tree => "Tree Borrows",
            Self::Both => "both borrow models",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Model, flags, plan, seeded, skip};
    use crate::toolchain::Missing;
    use crate::workspace::tests::sample;

    #[test]
    fn flags_follow_the_model() {
        let ws = sample();
        let prim = ws.package("prim").unwrap();
        assert_eq!(flags(prim, Model::Stacked), "-Zmiri-permissive-provenance");
        assert_eq!(flags(prim, Model::Tree), "-Zmiri-permissive-provenance -Zmiri-tree-borrows");
        assert!(seeded(prim, Model::Tree, 7).ends_with("-Zmiri-many-seeds=0..7"));
    }

    #[test]
    fn threaded_tests_are_left_to_the_search() {
        assert_eq!(skip(false), ["--skip", "compile_fail"]);
        assert_eq!(skip(true), ["--skip", "compile_fail", "--skip", "conc_"]);
    }

    #[test]
    fn every_model_is_a_step_and_the_search_one_more() {
        let ws = sample();
        let packages = [ws.package("prim").unwrap()];
        let names = |model, seeds| -> Vec<String> {
            plan(&packages, model, seeds, Missing::Report).into_iter().map(|step| step.name).collect()
        };
        assert_eq!(names(Model::Both, 4), ["miri/prim/stacked", "miri/prim/tree", "miri/prim/seeds"]);
        assert_eq!(names(Model::Stacked, 0), ["miri/prim/stacked"]);
    }
}
