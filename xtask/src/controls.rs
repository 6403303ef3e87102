//! `cargo xtask controls`: negative controls. Each weakens one ordering, bound or step by a cfg; the test that
//! guards it must pass without the cfg and fail with it.

mod table;
pub(crate) mod wrapper;

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use clap::Args;

pub(crate) use table::{Control, FILE, Kind, load};

use crate::cpeers::HARNESS;
use crate::libtest::{TestRun, counts};
use crate::loom;
use crate::miri;
use crate::shell::{self, Captured, Cmd};
use crate::steps::{Outcome, Step, run};
use crate::toolchain::{self, Missing};
use crate::workspace::{Package, Workspace};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask controls                      every control of xtask/controls.toml
  cargo xtask controls inbox_take_relaxed   one of them
  cargo xtask controls --list               what each weakens

A control is a place in the code such as
  #[cfg(ephemera_weaken = \"inbox_take_relaxed\")]
and a row of xtask/controls.toml that names the test which must then fail.")]
pub(crate) struct Options {
    /// Names of controls; all without.
    name: Vec<String>,
    /// Print the table and run nothing.
    #[arg(long)]
    list: bool,
}

/// What an empty table means.
const EMPTY: &str =
    "xtask/controls.toml lists no control: nothing shows yet that the models and tests can fail";

/// How long a weakened test may take. What is weakened must fail, not hang.
const LONGEST: Duration = Duration::from_secs(300);

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &Options) -> Result<bool> {
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
        bail!("no control is named `{unknown}`; `cargo xtask controls --list` shows them");
    }
    let chosen = |control: &Control| options.name.is_empty() || options.name.contains(&control.name);
    Ok(run(ws, steps(ws, chosen)?))
}

/// A step for each control that `wanted` takes. A table without any control gives one step that fails.
pub(crate) fn steps(ws: &Workspace, wanted: impl Fn(&Control) -> bool) -> Result<Vec<Step<'static>>> {
    let all = load(ws)?;
    if all.is_empty() {
        return Ok(vec![Step::new("controls", "negative controls", |_| {
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
    Ok(all.into_iter().filter(|control| wanted(control)).map(step).collect())
}

/// Tests seen to pass without a cfg in this run: several controls often share one.
static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn check(ws: &Workspace, control: &Control) -> Result<Outcome> {
    let Some(commands) = commands(ws, control)? else {
        let why = toolchain::nightly(&["miri", "rust-src"], Missing::Report).err().unwrap_or_default();
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
        fell |= falls(ws, control, plain)?;
    }
    Ok(if ran == 0 {
        Outcome::Failed(format!("no test matches `{}` in {}", control.test, control.package))
    } else if fell {
        Outcome::Passed("fails as it must".to_owned())
    } else {
        Outcome::Failed(format!(
            "`{}` passes although `{}` is weakened: it does not guard that",
            control.test, control.name
        ))
    })
}

/// The test runs without the cfg, none of which alone need match the filter. `None` without a toolchain.
fn commands(ws: &Workspace, control: &Control) -> Result<Option<Vec<TestRun>>> {
    let package = ws.package(&control.package)?;
    let (base, whole_files) = match control.kind {
        Kind::Loom => (loom::control_base(ws, package), Some(loom::files(package))),
        Kind::Test => (ws.cargo().args(["test", "--package", &package.name]).args(lean(package)), None),
        Kind::Miri => match miri::control_base(ws, package, control.seeds) {
            Some(base) => (base, None),
            None => return Ok(None),
        },
    };
    let harness = vec![control.test.clone()];
    let one = |targets: Vec<String>| TestRun { cargo: base.clone().args(targets), harness: harness.clone() };
    Ok(Some(match (control.target.as_deref(), whole_files) {
        (Some("lib"), _) => vec![one(vec!["--lib".to_owned()])],
        (Some(name), _) => vec![one(vec!["--test".to_owned(), name.to_owned()])],
        // Under loom's cfg only the models compile.
        (None, Some(files)) => vec![one([vec!["--lib".to_owned()], files].concat())],
        (None, None) => vec![one(vec!["--lib".to_owned(), "--tests".to_owned()])],
    }))
}

/// What makes a package build soon: the harness's contenders, C and C++ among them, are nothing that a control weakens.
fn lean(package: &Package) -> Option<&'static str> {
    (package.name == HARNESS).then_some("--no-default-features")
}

/// How many tests run and pass without the cfg.
fn sound(plain: &TestRun) -> Result<u64> {
    let shown = plain.command().shown();
    if SEEN.lock().unwrap_or_else(PoisonError::into_inner).contains(&shown) {
        return Ok(1);
    }
    quiet_build(&plain.cargo, "without the cfg")?;
    let ran = plain.command().quiet("running it as it is")?;
    if !ran.success {
        shell::say(&end_of(&ran.text));
        bail!("it fails without the cfg already; again: {shown}");
    }
    let counts = counts(&ran.text);
    if counts.started > 0 {
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(shown);
    }
    Ok(counts.started)
}

/// Whether the test fails with the cfg, for the reason that it should.
fn falls(ws: &Workspace, control: &Control, plain: &TestRun) -> Result<bool> {
    let mut weak = plain.clone();
    weak.cargo = match control.kind {
        // Miri takes the place of the compiler's wrapper, so here the cfg goes to every crate.
        Kind::Miri => {
            weak.cargo.env_append("RUSTFLAGS", &format!("--cfg ephemera_weaken=\"{}\"", control.name))
        }
        Kind::Loom | Kind::Test => wrapper::wrap(ws, &control.name, weak.cargo)?,
    };
    quiet_build(&weak.cargo, "with the cfg")?;
    shell::say(&format!("$ {}", weak.command().shown()));
    let ran = weak.command().within(LONGEST).quiet("running it weakened")?;
    let judged = judge(control.kind, &ran);
    if !matches!(judged, Ok(true)) {
        shell::say(&end_of(&ran.text));
    }
    judged
}

fn quiet_build(cargo: &Cmd, which: &str) -> Result<()> {
    let built = cargo.clone().arg("--no-run").quiet(&format!("building {which}"))?;
    if !built.success {
        shell::say(&built.text);
        bail!("does not compile {which}");
    }
    Ok(())
}

/// The last lines of what was kept back; a model that passes says little at great length.
fn end_of(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(80)..].join("\n")
}

/// Whether this run is a test that failed: `Ok(false)` if it passed.
///
/// # Errors
/// It failed, but not in a test, or in one that Miri could not run.
fn judge(kind: Kind, ran: &Captured) -> Result<bool> {
    if ran.success {
        return Ok(false);
    }
    if counts(&ran.text).started == 0 {
        bail!("failed with the cfg, but before any test ran");
    }
    let found = ["Undefined Behavior", "panicked at", "memory leaked", "data race", "deadlock"];
    if kind == Kind::Miri
        && ran.text.contains("unsupported operation")
        && !found.iter().any(|word| ran.text.contains(word))
    {
        bail!("Miri cannot run this test, which is no failure of it");
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{Kind, judge};
    use crate::shell::Captured;

    fn ran(success: bool, text: &str) -> Captured {
        Captured { success, text: text.to_owned() }
    }

    #[test]
    fn a_failing_test_is_told_from_one_that_passes_or_never_ran() {
        let failed = "running 1 test\ntest loom_a ... FAILED\ntest result: FAILED. 0 passed; 1 failed;";
        assert!(judge(Kind::Loom, &ran(false, failed)).unwrap());
        let passed = "running 1 test\ntest result: ok. 1 passed; 0 failed;";
        assert!(!judge(Kind::Loom, &ran(true, passed)).unwrap());
        assert!(judge(Kind::Loom, &ran(false, "error[E0425]: cannot find value")).is_err());
        assert!(judge(Kind::Test, &ran(false, "running 0 tests\nerror: linking failed")).is_err());
    }

    #[test]
    fn a_process_that_died_in_its_test_counts_as_failing() {
        assert!(judge(Kind::Test, &ran(false, "running 1 test\nsignal: 11, SIGSEGV")).unwrap());
    }

    #[test]
    fn what_miri_cannot_run_is_no_failure_of_the_test() {
        let text = "running 1 test\nerror: unsupported operation: can't call foreign function";
        assert!(judge(Kind::Miri, &ran(false, text)).is_err());
        let text = "running 1 test\nerror: Undefined Behavior: Data race detected";
        assert!(judge(Kind::Miri, &ran(false, text)).unwrap());
    }
}
