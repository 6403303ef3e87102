//! Loom models of the protocol. Each model runs a few threads over the crate's own types, in every
//! interleaving, or in every one within a bound on preemptions.
//!
//! Each model is a test named `loom_*`. A field that only one thread may write is a loom cell, so a
//! missing edge fails the model even if the value happens to be right. Each negative control
//! weakens one ordering of the crate or leaves out one step, and names the model that must then
//! fail. The design page has the table.

mod biased;
mod countdown;
mod foreign;
mod gate;
mod idle;
mod lease;
mod lend;
mod memory;
mod registry;
mod span_place;
mod superblock;
mod unit_list;
mod word;

use loom::model::Builder;

/// Runs `model` in every interleaving, even if an environment variable sets a bound.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    explore_with(None, model);
}

/// Runs `model`, which is too large for [`explore`], with at most `preemptions` preemptions.
fn explore_within(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    explore_with(Some(preemptions), model);
}

fn explore_with(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}
