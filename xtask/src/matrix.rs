//! Which library crate must build with which features on which compiler and target: a table, and the steps
//! that walk it.

use anyhow::{Result, bail};

use crate::libtest::TestRun;
use crate::steps::{Outcome, Step};
use crate::test::COMPILE_FAIL;
use crate::toolchain::{self, Missing};
use crate::workspace::Workspace;

/// The crates, by directory.
const CRATES: [&str; 2] = ["prim", "ring-alloc"];

/// Feature sets that every crate must build with, by themselves.
const FEATURES: [&str; 4] = ["", "alloc", "std", "std,allocator-api2-04"];

/// Feature sets without `std`.
const NO_STD: [&str; 2] = ["", "alloc"];

/// A target with 32-bit atomics and no `std`, and one of 32 bits with everything.
pub(crate) const TARGETS: &[&str] = &["thumbv7em-none-eabihf", "i686-unknown-linux-gnu"];

/// The compiler of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compiler {
    /// What `rust-toolchain.toml` says.
    Pinned,
    /// What `rust-version` says.
    Oldest,
    /// The nightly of this workspace.
    Nightly,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// `cargo check --lib`.
    Check,
    /// Unit and integration tests.
    Test,
}

/// One row. An empty target is this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    compiler: Compiler,
    act: Act,
    features: &'static [&'static str],
    target: &'static str,
}

/// The table. Every row holds for every crate.
const TABLE: [Cell; 6] = [
    Cell { compiler: Compiler::Oldest, act: Act::Check, features: &FEATURES, target: "" },
    Cell { compiler: Compiler::Pinned, act: Act::Check, features: &FEATURES, target: "" },
    Cell { compiler: Compiler::Nightly, act: Act::Test, features: &["std"], target: "" },
    Cell { compiler: Compiler::Nightly, act: Act::Test, features: &["std,nightly"], target: "" },
    Cell { compiler: Compiler::Pinned, act: Act::Check, features: &NO_STD, target: TARGETS[0] },
    Cell { compiler: Compiler::Pinned, act: Act::Check, features: &FEATURES, target: TARGETS[1] },
];

/// A step for each row and crate.
pub(crate) fn steps() -> Vec<Step<'static>> {
    let mut steps = Vec::new();
    for dir in CRATES {
        for cell in TABLE {
            let sets: Vec<_> = cell.features.iter().map(|set| shown(set)).collect();
            let what = format!("{} with {}", cell.act.word(), sets.join(" | "));
            steps.push(Step::new(name(dir, &cell), what, move |ws| walk(ws, dir, cell)));
        }
    }
    steps
}

fn name(dir: &str, cell: &Cell) -> String {
    let last = match (cell.target.split('-').next(), cell.act) {
        (Some(machine), Act::Check) if !machine.is_empty() => machine.to_owned(),
        (_, Act::Check) => "features".to_owned(),
        (_, Act::Test) => {
            cell.features.first().map_or("", |set| set.rsplit(',').next().unwrap_or(set)).to_owned()
        }
    };
    format!("matrix/{dir}/{}/{last}", cell.compiler.word())
}

fn walk(ws: &Workspace, dir: &str, cell: Cell) -> Result<Outcome> {
    let found = match cell.compiler {
        Compiler::Pinned => Ok(toolchain::pinned(ws)?),
        Compiler::Oldest => toolchain::release(&toolchain::oldest(ws)?, Missing::Install),
        Compiler::Nightly => toolchain::nightly(&[], Missing::Install),
    };
    let found = match found {
        Ok(name) if cell.target.is_empty() => Ok(name),
        Ok(name) => toolchain::target(&name, cell.target, Missing::Install).map(|()| name),
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
            // Code that is dead without a feature shows here; on other compilers lints come and go.
            Compiler::Pinned => ws.cargo().env_append("RUSTFLAGS", "-Dwarnings"),
            Compiler::Oldest => ws.cargo_of(&compiler),
            Compiler::Nightly => {
                ws.cargo_of(&compiler).env_append("RUSTFLAGS", toolchain::std_tests(&compiler))
            }
        };
        cargo = match cell.act {
            Act::Check => cargo.args(["check", "--lib"]),
            Act::Test => cargo.args(["test", "--lib", "--tests"]),
        };
        cargo = cargo.args(["--package", &package.name, "--no-default-features", "--target-dir"]);
        cargo = cargo.arg(ws.target_dir("matrix"));
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
    fn every_row_has_a_name_of_its_own() {
        let steps = super::steps();
        let names: BTreeSet<_> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names.len(), steps.len());
        assert!(names.contains("matrix/prim/oldest/features"));
        assert!(names.contains("matrix/ring-alloc/pinned/thumbv7em"));
        assert!(names.contains("matrix/ring-alloc/nightly/nightly"));
    }
}
