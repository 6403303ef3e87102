//! What one of the crates would do for the program.
#![forbid(unsafe_code)]

use super::costs::CostSource;

/// A saving below this share of the run is not worth a change.
pub(super) const WORTH: f64 = 0.02;

/// What a crate would do for the program.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The crate.
    pub name: &'static str,
    /// Blocks that it could serve, as a share of all.
    pub blocks: f64,
    /// Bytes of them, as a share of all.
    pub bytes: f64,
    /// The expected saving, as a share of the run's time; of what the heap's calls take, where the
    /// trace has no times.
    pub saving: f64,
    /// Where the figure of its cost is from.
    pub source: CostSource,
    /// Whether the rules would have it.
    pub fits: bool,
    /// Why, or why not.
    pub reasons: Vec<String>,
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
