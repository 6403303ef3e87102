//! `cargo xtask test`: runs all tests.

use anyhow::Result;
use clap::Args;

use crate::cpeers::{HARNESS, Support};
use crate::libtest::TestRun;
use crate::loom;
use crate::miri;
use crate::shell::Cmd;
use crate::steps::{Outcome, Step, run};
use crate::toolchain::MissingToolchain;
use crate::workspace::Workspace;

/// The part of a test's name that marks a comparison of compiler messages. Such tests pass on the
/// pinned compiler only.
pub(crate) const COMPILE_FAIL: &str = "compile_fail";

/// The package of the criterion benches, which has no tests.
pub(crate) const BENCHES: &str = "benches";

/// The cargo targets of unit and integration tests.
const UNIT: [&str; 4] = ["--lib", "--bins", "--tests", "--examples"];

/// Packages that can implement both versions of the allocator trait at once, with the feature that
/// adds the second.
const BOTH_TRAITS: [(&str, &str); 3] =
    [("prim", "allocator-api2-04"), ("ring-alloc", "allocator-api2-04"), ("typed-pool", "allocator-api2-04")];

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask test           runs unit, integration and doc tests, loom models, and Miri
                             with Tree Borrows if it is installed
  cargo xtask test --fast    leaves out loom and Miri

To run one test, use cargo itself: cargo test -p ring-alloc NAME")]
pub(crate) struct TestOptions {
    /// Leave out loom and Miri.
    #[arg(long)]
    fast: bool,
}

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &TestOptions) -> Result<bool> {
    let mut todo = steps();
    if options.fast {
        for name in ["loom", "miri"] {
            todo.push(Step::skipped(name, "left out", "--fast leaves it out"));
        }
    } else {
        todo.extend(loom::steps(ws)?);
        // `ci` and `miri` also run Stacked Borrows. This command ends within minutes.
        todo.extend(miri::steps(ws, miri::BorrowModel::Tree, miri::TEST_SEEDS, MissingToolchain::Report)?);
    }
    Ok(run(ws, todo))
}

/// Returns the steps that need only the pinned compiler.
pub(crate) fn steps() -> Vec<Step<'static>> {
    vec![
        Step::new("test/unit", "unit and integration tests pass, examples build", |ws| each(ws, &UNIT)),
        Step::new("test/doc", "examples in the documentation pass", |ws| {
            let ran = doc(ws)?;
            Ok(Outcome::Passed(format!("{ran} tests")))
        }),
        Step::new("test/ringal-features", "tests of ringal pass with `bytes` and `checked`", |ws| {
            let cargo = ws.cargo().args(["test", "--lib", "--tests", "--package", "ringal"]);
            TestRun { cargo: cargo.args(["--features", "bytes,checked"]), harness: Vec::new() }
                .check("no test ran")
        }),
        Step::new("test/both-traits", "tests pass with both versions of the allocator trait", |ws| {
            let mut cargo = ws.cargo().args(["test", "--lib", "--tests"]);
            for (dir, feature) in BOTH_TRAITS {
                let name = &ws.package(dir)?.name;
                cargo = cargo.args(["--package", name, "--features", &format!("{name}/{feature}")]);
            }
            TestRun { cargo, harness: Vec::new() }.check("no test ran")
        }),
    ]
}

/// Returns the commands that cover the workspace without the criterion benches. There are two if
/// some contenders in C or C++ cannot be built, since cargo selects features for a whole command.
pub(crate) fn workspace(ws: &Workspace, cargo: &Cmd) -> Vec<Cmd> {
    let whole = cargo.clone().args(["--workspace", "--exclude", BENCHES]);
    let support = Support::detect(ws);
    let Some(left_out) = support.told() else { return vec![whole] };
    eprintln!("{left_out}");
    vec![
        whole.args(["--exclude", HARNESS]),
        cargo.clone().args(["--package", HARNESS]).args(support.arguments()),
    ]
}

/// Builds the tests of `test/unit` and the programs that they start. It uses the same commands,
/// since cargo unifies features over all packages of a command: another selection would rebuild
/// most of the harness.
pub(crate) fn build(ws: &Workspace) -> Result<()> {
    for cargo in workspace(ws, &ws.cargo().arg("test")) {
        cargo.args(UNIT).arg("--no-run").run_or("the tests do not build")?;
    }
    Ok(())
}

fn each(ws: &Workspace, targets: &[&str]) -> Result<Outcome> {
    let mut passed = 0;
    for cargo in workspace(ws, &ws.cargo().arg("test")) {
        passed += TestRun { cargo: cargo.args(targets), harness: Vec::new() }.counted()?.passed;
    }
    Ok(if passed == 0 {
        Outcome::Failed("no test ran".to_owned())
    } else {
        Outcome::Passed(format!("{passed} tests"))
    })
}

/// Runs the doc tests, which cargo cannot build separately.
fn doc(ws: &Workspace) -> Result<u64> {
    let mut passed = 0;
    for cargo in workspace(ws, &ws.cargo().arg("test")) {
        let ran = cargo.arg("--doc").tee()?;
        if !ran.success {
            anyhow::bail!("an example in the documentation failed");
        }
        passed += crate::libtest::counts(&ran.text).passed;
    }
    Ok(passed)
}
