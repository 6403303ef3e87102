//! Defines [`Offer`], the estimated effect of one crate on the recorded program.
#![forbid(unsafe_code)]

use serde::Serialize;

use super::costs::CostSource;

/// The smallest saving that is worth a change, as a share of the run.
pub(super) const WORTH: f64 = 0.02;

/// The blocks that one crate could serve, the expected saving, and whether the crate fits.
#[derive(Clone, Debug, Serialize)]
pub struct Offer {
    /// The name of the crate.
    pub name: &'static str,
    /// The blocks that the crate could serve, as a share of all blocks.
    pub blocks: f64,
    /// The bytes of these blocks, as a share of all bytes.
    pub bytes: f64,
    /// The expected saving, as a share of the run. If the trace has no times, it is a share of the
    /// allocator's time.
    pub saving: f64,
    /// The origin of the figures behind `saving`.
    pub source: CostSource,
    /// Whether the crate fits the program, by the rules of the advice.
    pub fits: bool,
    /// The reasons for and against the crate.
    pub reasons: Vec<String>,
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
