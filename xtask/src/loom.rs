//! Runs the loom models in every interleaving up to a bound on preemptions.

use anyhow::Result;

use crate::libtest::TestRun;
use crate::shell::Cmd;
use crate::steps::{Outcome, Step};
use crate::workspace::{Package, Workspace};

pub(crate) mod command;

/// The directories of the packages that have models.
pub(crate) const MODELLED: [&str; 6] =
    ["prim", "recorder", "ring-alloc", "ringal", "shared_arena", "typed-pool"];

/// The compiler flag that selects loom's types in `ephemera_prim::sync`.
pub(crate) const CFG: &str = "--cfg ephemera_loom";

/// The preemption bound for models that set none.
pub(crate) const PREEMPTIONS: u32 = 3;

/// The preemption bound in `cargo xtask test`, which should take only a few minutes.
const TEST_PREEMPTIONS: u32 = 2;

/// The package whose models `cargo xtask test` leaves to `ci`: it has one model, and its build
/// takes half a minute.
const LEFT_TO_CI: &str = "recorder";

/// Returns a step for each package with models.
pub(crate) fn steps(ws: &Workspace, preemptions: u32) -> Result<Vec<Step<'_>>> {
    Ok(ws.choose(None, &MODELLED)?.into_iter().map(|package| step(package, preemptions)).collect())
}

/// Returns the steps that run the models in `cargo xtask test`.
pub(crate) fn steps_of_test(ws: &Workspace) -> Result<Vec<Step<'_>>> {
    let packages = ws.choose(None, &MODELLED)?.into_iter().filter(|package| package.dir != LEFT_TO_CI);
    Ok(packages.map(|package| step(package, TEST_PREEMPTIONS)).collect())
}

fn step(package: &Package, preemptions: u32) -> Step<'_> {
    Step::new(format!("loom/{}", package.short()), "the models hold in every interleaving", move |ws| {
        let ran = models(ws, package, None, preemptions)?;
        Ok(verdict(ran, &format!("{} has no model: no test is named loom_*", package.name)))
    })
    .beside()
}

fn verdict(ran: u64, nothing: &str) -> Outcome {
    if ran == 0 { Outcome::Failed(nothing.to_owned()) } else { Outcome::Passed(format!("{ran} models")) }
}

/// Runs the models of a package, or only the models that `model` names, and returns the number of
/// models that passed. Returns an error if the build or a model failed.
fn models(ws: &Workspace, package: &Package, model: Option<&str>, preemptions: u32) -> Result<u64> {
    let mut ran = 0;
    for (targets, filter) in selection(package, model) {
        let run = TestRun { cargo: base(ws, package, preemptions).args(targets), harness: filter };
        ran += run.counted()?.passed;
    }
    Ok(ran)
}

/// Returns the targets to run, each with its filter. In the library, a test is a model if its name
/// begins with `loom_`. In an integration test whose file name begins with `loom`, every test is a
/// model.
fn selection(package: &Package, model: Option<&str>) -> Vec<(Vec<String>, Vec<String>)> {
    let model = model.map(|name| name.strip_prefix("loom_").unwrap_or(name));
    let mut runs = vec![(vec!["--lib".to_owned()], vec![format!("loom_{}", model.unwrap_or(""))])];
    let files: Vec<_> = files(package);
    if !files.is_empty() {
        runs.push((files, model.map(str::to_owned).into_iter().collect()));
    }
    runs
}

/// Returns `--test NAME` for every integration test file with models.
pub(crate) fn files(package: &Package) -> Vec<String> {
    let models = package.tests.iter().filter(|name| name.starts_with("loom"));
    models.flat_map(|name| ["--test".to_owned(), name.clone()]).collect()
}

/// Returns `cargo test` for a package under loom, without targets. Steps that run side by side
/// share the build directory, so one waits until another has built loom. The variable
/// `LOOM_MAX_PREEMPTIONS` overrides `preemptions`.
pub(crate) fn base(ws: &Workspace, package: &Package, preemptions: u32) -> Cmd {
    let preemptions = std::env::var("LOOM_MAX_PREEMPTIONS").unwrap_or_else(|_| preemptions.to_string());
    ws.cargo()
        .args(["test", "--package", &package.name, "--features", "loom", "--profile", "loom", "--target-dir"])
        .arg(ws.target_dir("loom"))
        .env_append("RUSTFLAGS", CFG)
        .env("LOOM_MAX_PREEMPTIONS", preemptions)
}

#[cfg(test)]
mod tests {
    use super::selection;
    use crate::workspace::tests::sample;

    #[test]
    fn unit_models_are_selected_by_test_name_and_files_by_file_name() {
        let ws = sample();
        let prim = ws.package("prim").unwrap();
        let all = selection(prim, None);
        assert_eq!(all[0], (vec!["--lib".to_owned()], vec!["loom_".to_owned()]));
        assert_eq!(all[1], (vec!["--test".to_owned(), "loom_inbox".to_owned()], vec![]));
        for model in ["take", "loom_take"] {
            let one = selection(prim, Some(model));
            assert_eq!(one[0].1, ["loom_take"]);
            assert_eq!(one[1].1, ["take"]);
        }
    }

    #[test]
    fn a_package_without_model_files_has_only_the_library_run() {
        let ws = sample();
        assert_eq!(selection(ws.package("bench-harness").unwrap(), None).len(), 1);
    }
}
