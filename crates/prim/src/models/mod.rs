//! Models of the protocol, over the crate's own types: every interleaving of a few threads, run by loom.
//!
//! Each is a test named `loom_*`. What one thread may write alone is a loom cell here, so that a missing edge
//! is a failed model and not a value that happens to be right. Each ordering of the crate has a control that
//! weakens it and the model that must then fail: the table in the crate's design.

mod countdown;
mod foreign;
mod gate;
mod lease;
mod memory;
mod registry;
mod unit_list;
mod word;

use loom::model::Builder;

/// Runs `model` in every interleaving, whatever bound the environment sets.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    explore_with(None, model);
}

/// As [`explore`], for a model that is too large for that: with at most this many preemptions.
fn explore_within(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    explore_with(Some(preemptions), model);
}

fn explore_with(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}
