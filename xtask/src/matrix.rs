//! The build matrix: a table of the features, compilers and targets that each library crate must
//! support, and the steps that check it.

use anyhow::{Result, bail};

use crate::libtest::{COMPILE_FAIL, TestRun};
use crate::steps::{Outcome, Step};
use crate::toolchain::{self, MissingToolchain, TARGETS};
use crate::workspace::Workspace;

/// A crate and its feature sets.
#[derive(Debug, Clone, Copy)]
struct Crate {
    /// The directory of the package.
    dir: &'static str,
    /// The feature sets that must build.
    features: &'static [&'static str],
    /// The feature sets that must build for the target without `std`.
    no_std: &'static [&'static str],
    /// The feature sets whose tests must pass on the nightly, one step each.
    nightly: &'static [&'static [&'static str]],
}

/// The feature sets of a crate that implements the allocator traits.
const ALLOCATOR: Crate = Crate {
    dir: "",
    features: &["", "alloc", "std", "std,allocator-api2-04"],
    no_std: &["", "alloc"],
    nightly: &[&["std"], &["std,nightly"]],
};

/// The library crates.
const CRATES: [Crate; 5] = [
    Crate { dir: "prim", ..ALLOCATOR },
    Crate { dir: "ring-alloc", ..ALLOCATOR },
    Crate {
        dir: "ringal",
        features: &["", "alloc", "std", "alloc,bytes", "std,tls,drop,generic,bytes,checked"],
        no_std: &["", "alloc", "alloc,bytes"],
        nightly: &[],
    },
    Crate { dir: "shared_arena", features: &["", "std"], no_std: &[""], nightly: &[] },
    Crate { dir: "typed-pool", ..ALLOCATOR },
];

/// The row of `testkit`, which must build even without 64-bit atomics.
const TESTKIT: MatrixCell =
    MatrixCell { compiler: Compiler::Pinned, act: Act::Check, features: &[""], target: TARGETS[2] };

/// The row of `ephemera-c`, which has no features and states the same oldest compiler as the
/// library crates.
const C_INTERFACE: MatrixCell =
    MatrixCell { compiler: Compiler::Oldest, act: Act::Check, features: &[""], target: "" };

/// The integration tests that run with the feature `nightly`, where a crate has them. The other
/// tests do not use the trait of the standard library, and the row without the feature runs them.
const STD_TRAIT_TESTS: [&str; 4] = ["backing", "std_trait", "std_unstable", "traits"];

/// The flag that makes testkit run fewer cases.
const SHORT: &str = "--cfg ephemera_short";

/// The compiler of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compiler {
    /// The compiler of `rust-toolchain.toml`.
    Pinned,
    /// The compiler of `rust-version`.
    Oldest,
    /// The nightly of this workspace.
    Nightly,
}

/// The check of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// `cargo check --lib`.
    Check,
    /// Unit and integration tests.
    Test,
}

/// One row. An empty target means this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MatrixCell {
    compiler: Compiler,
    act: Act,
    features: &'static [&'static str],
    target: &'static str,
}

impl Crate {
    fn rows(&self) -> Vec<MatrixCell> {
        use Act::{Check, Test};
        use Compiler::{Nightly, Oldest, Pinned};
        let row = |compiler, act, features, target| MatrixCell { compiler, act, features, target };
        let mut rows = vec![row(Oldest, Check, self.features, ""), row(Pinned, Check, self.features, "")];
        rows.extend(self.nightly.iter().map(|sets| row(Nightly, Test, sets, "")));
        rows.push(row(Pinned, Check, self.no_std, TARGETS[0]));
        rows.push(row(Pinned, Check, self.features, TARGETS[1]));
        rows.push(row(Pinned, Check, self.features, TARGETS[2]));
        rows
    }
}

/// Returns a step for each row of each crate.
pub(crate) fn steps() -> Vec<Step<'static>> {
    let rows = CRATES.iter().flat_map(|of| of.rows().into_iter().map(|cell| (of.dir, cell)));
    let step = |(dir, cell): (&'static str, MatrixCell)| {
        let sets: Vec<_> = cell.features.iter().map(|set| shown(set)).collect();
        let what = format!("{} with {}", cell.act.word(), sets.join(" | "));
        Step::new(name(dir, &cell), what, move |ws| run_cell(ws, dir, cell)).beside()
    };
    rows.chain([("testkit", TESTKIT), ("ephemera-c", C_INTERFACE)]).map(step).collect()
}

fn name(dir: &str, cell: &MatrixCell) -> String {
    let last = match (cell.target.split('-').next(), cell.act) {
        (Some(machine), Act::Check) if !machine.is_empty() => machine.to_owned(),
        (_, Act::Check) => "features".to_owned(),
        (_, Act::Test) => {
            cell.features.first().map_or("", |set| set.rsplit(',').next().unwrap_or(set)).to_owned()
        }
    };
    format!("matrix/{dir}/{}/{last}", cell.compiler.word())
}

fn run_cell(ws: &Workspace, dir: &str, cell: MatrixCell) -> Result<Outcome> {
    let found = match cell.compiler {
        Compiler::Pinned => Ok(toolchain::pinned(ws)?),
        Compiler::Oldest => toolchain::release(&toolchain::oldest(ws)?, MissingToolchain::Install),
        Compiler::Nightly => toolchain::nightly(&[], MissingToolchain::Install),
    };
    let found = match found {
        Ok(name) if cell.target.is_empty() => Ok(name),
        Ok(name) => toolchain::target(&name, cell.target, MissingToolchain::Install).map(|()| name),
        Err(why) => Err(why),
    };
    let compiler = match found {
        Ok(name) => name,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let package = ws.package(dir)?;
    let mut tests = 0;
    for set in cell.features {
        let mut cargo = match cell.compiler {
            // Warnings are denied to find code that is dead without a feature. Only the pinned
            // compiler denies them, because other compilers have other lints.
            Compiler::Pinned => ws.cargo().env_append("RUSTFLAGS", "-Dwarnings"),
            Compiler::Oldest => ws.cargo_of(&compiler),
            // `test/unit` runs the whole suite of testkit. Here, a quarter of the suite's cases is
            // enough.
            Compiler::Nightly => {
                let flags = format!("{SHORT} {}", toolchain::std_tests(&compiler));
                ws.cargo_of(&compiler).env_append("RUSTFLAGS", flags.trim_end())
            }
        };
        cargo = match cell.act {
            Act::Check => cargo.args(["check", "--lib"]),
            Act::Test if set.ends_with("nightly") => {
                let std = package.tests.iter().filter(|test| STD_TRAIT_TESTS.contains(&test.as_str()));
                cargo.args(["test", "--lib"]).args(std.flat_map(|test| ["--test", test]))
            }
            Act::Test => cargo.args(["test", "--lib", "--tests"]),
        };
        cargo = cargo.args(["--package", &package.name, "--no-default-features", "--target-dir"]);
        cargo = cargo.arg(ws.lane_dir("matrix"));
        if !set.is_empty() {
            cargo = cargo.args(["--features", set]);
        }
        if !cell.target.is_empty() {
            cargo = cargo.args(["--target", cell.target]);
        }
        match cell.act {
            Act::Check if cargo.run()? => {}
            Act::Check => bail!("{} does not build with {} on {compiler}", package.name, shown(set)),
            Act::Test => {
                let harness = vec!["--skip".to_owned(), COMPILE_FAIL.to_owned()];
                tests += TestRun { cargo, harness }.counted()?.passed;
            }
        }
    }
    Ok(match cell.act {
        Act::Check => Outcome::Passed(format!("{} feature sets", cell.features.len())),
        Act::Test if tests == 0 => Outcome::Failed("no test ran".to_owned()),
        Act::Test => Outcome::Passed(format!("{tests} tests")),
    })
}

fn shown(set: &str) -> &str {
    if set.is_empty() { "no features" } else { set }
}

impl Compiler {
    fn word(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Oldest => "oldest",
            Self::Nightly => "nightly",
        }
    }
}

impl Act {
    fn word(self) -> &'static str {
        match self {
            Self::Check => "builds",
            Self::Test => "tests pass",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_unique_name() {
        let steps = super::steps();
        let names: BTreeSet<_> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names.len(), steps.len());
        assert!(names.contains("matrix/prim/oldest/features"));
        assert!(names.contains("matrix/ring-alloc/pinned/thumbv7em"));
        assert!(names.contains("matrix/ring-alloc/nightly/nightly"));
        assert!(names.contains("matrix/ringal/oldest/features"));
        assert!(!names.contains("matrix/ringal/nightly/nightly"));
    }
}
