//! `cargo xtask loom`: runs the models in every interleaving up to a bound on preemptions. With
//! `--controls`, it also runs the negative controls, which show that the models can fail.

use anyhow::Result;
use clap::Args;

use super::{MODELLED, PREEMPTIONS, models, step, verdict};
use crate::controls;
use crate::controls::table::ControlKind;
use crate::steps::{Step, run};
use crate::workspace::Workspace;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask loom                          runs all models of all packages
  cargo xtask loom --package prim           runs the models of one package
  cargo xtask loom restart                  runs the models named loom_restart*, and those named *restart* in model files
  cargo xtask loom --preemptions 4          searches deeper
  cargo xtask loom --controls               also runs the controls: each weakened model must fail

A model is a unit test named loom_*, or any test of an integration test file named loom*.")]
pub(crate) struct LoomOptions {
    /// Run the models of this package: its name or directory.
    #[arg(long, short)]
    package: Option<String>,
    /// Run the models whose name contains this text. A leading `loom_` may be left out.
    model: Option<String>,
    /// The preemption bound for models that set none.
    #[arg(long, default_value_t = PREEMPTIONS)]
    preemptions: u32,
    /// Also run the negative controls of kind `loom`.
    #[arg(long)]
    controls: bool,
}

/// Explores the chosen models and, with `--controls`, runs the loom controls of the chosen
/// packages. Returns whether no step failed.
pub(crate) fn main(ws: &Workspace, options: &LoomOptions) -> Result<bool> {
    let packages = ws.choose(options.package.as_deref(), &MODELLED)?;
    let mut todo = Vec::new();
    if let Some(model) = options.model.as_deref() {
        // All packages share one step, because a single package may have no model of that name.
        todo.push(Step::new("loom", format!("models named {model}"), move |ws| {
            let mut ran = 0;
            for package in &packages {
                ran += models(ws, package, Some(model), options.preemptions)?;
            }
            Ok(verdict(ran, &format!("no model is named `{model}`")))
        }));
    } else {
        todo.extend(packages.into_iter().map(|package| step(package, options.preemptions)));
    }
    if options.controls {
        todo.extend(controls::steps(ws, |control| {
            let chosen = options
                .package
                .as_deref()
                .is_none_or(|name| ws.package(name).is_ok_and(|p| p.name == control.package));
            control.kind == ControlKind::Loom && chosen
        })?);
    }
    Ok(run(ws, todo))
}
