//! `cargo xtask controls`: runs the negative controls. Each control weakens one ordering, bound or
//! step, and names a test. In one build, the test must pass without the weakening and fail with it.
//!
//! One build of a package contains the weakenings of all its controls. An environment variable
//! chooses the weakening when the test runs.

pub(crate) mod table;

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use clap::Args;

use self::table::{Control, ControlKind, VARIABLE, load};
use crate::libtest::{TestRun, counts};
use crate::loom;
use crate::miri;
use crate::shell::{self, Captured};
use crate::steps::{Outcome, Step, run};
use crate::toolchain::{self, MissingToolchain};
use crate::workspace::Workspace;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask controls                runs every control of xtask/controls.toml
  cargo xtask controls take_relaxed   runs one control
  cargo xtask controls --list         lists the controls

A control is a place in the code such as
  if weakened!(\"push_without_fence\")
and a row of xtask/controls.toml that names the test which must then fail.")]
pub(crate) struct ControlsOptions {
    /// The controls to run [default: all].
    name: Vec<String>,
    /// List the controls and run nothing.
    #[arg(long)]
    list: bool,
}

/// The message of the failed step if the table of controls is empty.
const EMPTY: &str =
    "xtask/controls.toml lists no control, so nothing shows that the models and tests can fail";

/// The cfg of the builds that contain the weakenings.
const CFG: &str = "--cfg ephemera_weaken";

/// The time limit for the build and the run of a weakened test, which must fail rather than hang.
const LONGEST: Duration = Duration::from_secs(300);

/// Runs the steps of the chosen controls, or lists all controls. Returns whether no step failed.
pub(crate) fn main(ws: &Workspace, options: &ControlsOptions) -> Result<bool> {
    let all = load(ws)?;
    if options.list {
        for control in &all {
            let kind = control.kind.word();
            println!(
                "{}/{kind}: {} of {}\n    {}",
                control.name, control.test, control.package, control.what
            );
        }
        println!("{} controls", all.len());
        return Ok(true);
    }
    if let Some(unknown) = options.name.iter().find(|name| !all.iter().any(|control| &control.name == *name))
    {
        bail!("no control is named `{unknown}`; `cargo xtask controls --list` lists them");
    }
    let chosen = |control: &Control| options.name.is_empty() || options.name.contains(&control.name);
    Ok(run(ws, steps(ws, chosen)?))
}

/// Returns a step for each control that `wanted` accepts. For an empty table, returns one step that
/// fails.
pub(crate) fn steps(ws: &Workspace, wanted: impl Fn(&Control) -> bool) -> Result<Vec<Step<'static>>> {
    let all = load(ws)?;
    if all.is_empty() {
        return Ok(vec![Step::new("controls", "each weakened variant fails its test", |_| {
            Ok(Outcome::Failed(EMPTY.to_owned()))
        })]);
    }
    let step = |control: Control| {
        let (name, what) = (
            format!("controls/{}/{}", control.name, control.kind.word()),
            format!("must fail: {}", control.what),
        );
        Step::new(name, what, move |ws| check(ws, &control)).beside()
    };
    let chosen = all.into_iter().filter(|control| wanted(control));
    Ok(chosen.map(step).collect())
}

/// The commands of tests that passed without a weakening in this run. Several controls often share
/// a test, which then runs once without a weakening.
static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn check(ws: &Workspace, control: &Control) -> Result<Outcome> {
    let Some(commands) = commands(ws, control)? else {
        let why =
            toolchain::nightly(&["miri", "rust-src"], MissingToolchain::Report).err().unwrap_or_default();
        return Ok(Outcome::Skipped(why));
    };
    let mut ran = 0;
    let mut fell = false;
    for plain in &commands {
        let found = sound(plain)?;
        if found == 0 {
            continue;
        }
        ran += found;
        fell |= fails_weakened(control, plain)?;
    }
    Ok(if ran == 0 {
        Outcome::Failed(format!("no test matches `{}` in {}", control.test, control.package))
    } else if fell {
        Outcome::Passed("the weakened test fails".to_owned())
    } else {
        Outcome::Failed(format!(
            "`{}` passes with the weakening `{}`, so the test does not detect the weakening",
            control.test, control.name
        ))
    })
}

/// Returns the test runs of a control, without the weakening. The control's filter must match a
/// test in at least one run. Returns `None` if the control needs Miri and Miri is not available.
fn commands(ws: &Workspace, control: &Control) -> Result<Option<Vec<TestRun>>> {
    let package = ws.package(&control.package)?;
    let (base, whole_files) = match control.kind {
        ControlKind::Loom => (loom::base(ws, package, loom::PREEMPTIONS), Some(loom::files(package))),
        ControlKind::Test => {
            let cargo = ws.cargo().args(["test", "--package", &package.name, "--target-dir"]);
            (cargo.arg(ws.target_dir("weaken")), None)
        }
        ControlKind::Miri => match miri::control_base(ws, package, control.seeds) {
            Some(base) => (base, None),
            None => return Ok(None),
        },
    };
    let base = base.env_append("RUSTFLAGS", CFG);
    let harness = vec![control.test.clone()];
    let one = |targets: Vec<String>| TestRun { cargo: base.clone().args(targets), harness: harness.clone() };
    Ok(Some(match (control.target.as_deref(), whole_files) {
        (Some("lib"), _) => vec![one(vec!["--lib".to_owned()])],
        (Some(name), _) => vec![one(vec!["--test".to_owned(), name.to_owned()])],
        // Of the integration tests, only the models compile under loom's cfg.
        (None, Some(files)) => vec![one([vec!["--lib".to_owned()], files].concat())],
        (None, None) => vec![one(vec!["--lib".to_owned(), "--tests".to_owned()])],
    }))
}

/// Runs the test without a weakening and returns the number of tests that ran. Returns 1 if the
/// test has already passed in this run.
///
/// # Errors
/// Returns an error if the test fails or does not compile.
fn sound(plain: &TestRun) -> Result<u64> {
    let shown = plain.command().shown();
    if SEEN.lock().unwrap_or_else(PoisonError::into_inner).contains(&shown) {
        return Ok(1);
    }
    let ran = plain.command().quiet("running the test without a weakening")?;
    if !ran.success {
        shell::say(&end_of(&ran.text));
        compiled(&ran)?;
        bail!("the test fails without a weakening; to run it again: {shown}");
    }
    let counts = counts(&ran.text);
    if counts.started > 0 {
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(shown);
    }
    Ok(counts.started)
}

/// Runs the test with the weakening and returns whether a test failed.
fn fails_weakened(control: &Control, plain: &TestRun) -> Result<bool> {
    let mut weak = plain.clone();
    weak.cargo = weak.cargo.env(VARIABLE, &control.name);
    shell::say(&format!("$ {}", weak.command().shown()));
    let ran = weak.command().within(LONGEST).quiet("running the test with the weakening")?;
    let judged = judge(control.kind, &ran);
    if !matches!(judged, Ok(true)) {
        shell::say(&end_of(&ran.text));
    }
    judged
}

/// Checks that the test of this run compiled.
///
/// # Errors
/// Returns an error if the compiler reported errors.
fn compiled(ran: &Captured) -> Result<()> {
    if ran.text.contains("error: could not compile") {
        bail!("the test does not compile with {CFG}");
    }
    Ok(())
}

/// Returns the last 80 lines of an output. A model that passes prints many irrelevant lines.
fn end_of(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(80)..].join("\n")
}

/// Returns whether a test failed in this run: `Ok(false)` if all tests passed.
///
/// # Errors
/// Returns an error if the test does not compile, if no test started, or if the run failed only
/// because Miri does not support an operation.
fn judge(kind: ControlKind, ran: &Captured) -> Result<bool> {
    compiled(ran)?;
    match (ran.success, counts(&ran.text).started) {
        (true, 0) => bail!("no test ran with the weakening"),
        (false, 0) => bail!("the run with the weakening failed before a test started"),
        (true, _) => return Ok(false),
        (false, _) => {}
    }
    let found = ["Undefined Behavior", "panicked at", "memory leaked", "data race", "deadlock"];
    if kind == ControlKind::Miri
        && ran.text.contains("unsupported operation")
        && !found.iter().any(|word| ran.text.contains(word))
    {
        bail!("Miri cannot run this test, which does not count as a failure of the test");
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{ControlKind, judge};
    use crate::shell::Captured;

    fn ran(success: bool, text: &str) -> Captured {
        Captured { success, text: text.to_owned() }
    }

    #[test]
    fn a_failed_test_is_distinguished_from_one_that_passed_or_never_ran() {
        let failed = "running 1 test\ntest loom_a ... FAILED\ntest result: FAILED. 0 passed; 1 failed;";
        assert!(judge(ControlKind::Loom, &ran(false, failed)).unwrap());
        let passed = "running 1 test\ntest result: ok. 1 passed; 0 failed;";
        assert!(!judge(ControlKind::Loom, &ran(true, passed)).unwrap());
        let error = "error[E0425]: cannot find value\nerror: could not compile `prim` (lib test)";
        let said = judge(ControlKind::Loom, &ran(false, error)).unwrap_err().to_string();
        assert_eq!(said, "the test does not compile with --cfg ephemera_weaken");
        assert!(judge(ControlKind::Test, &ran(false, "running 0 tests\nerror: linking failed")).is_err());
        assert!(judge(ControlKind::Test, &ran(true, "running 0 tests\ntest result: ok. 0 passed;")).is_err());
    }

    #[test]
    fn a_process_that_dies_in_a_test_counts_as_a_failure() {
        assert!(judge(ControlKind::Test, &ran(false, "running 1 test\nsignal: 11, SIGSEGV")).unwrap());
    }

    #[test]
    fn an_operation_that_miri_does_not_support_is_not_a_failed_test() {
        let text = "running 1 test\nerror: unsupported operation: can't call foreign function";
        assert!(judge(ControlKind::Miri, &ran(false, text)).is_err());
        let text = "running 1 test\nerror: Undefined Behavior: Data race detected";
        assert!(judge(ControlKind::Miri, &ran(false, text)).unwrap());
    }
}
