//! Prints the figures of a replay as text.
#![forbid(unsafe_code)]

use minijinja::context;
use minijinja::value::Serde;

use crate::render::render;
use crate::replay::{ReplayRow, Replayed};
use crate::units::bytes;

/// Returns the rows of the table of allocators. `open`, `to` and `close` stand before, between and
/// after the ends of an interval, and `dash` stands for a figure that was not measured.
pub(crate) fn rows(replayed: &Replayed, [open, to, close]: [&str; 3], dash: &str) -> Vec<Vec<String>> {
    let times = |peak: u64| format!("{:.2}", peak as f64 / replayed.peak_live.max(1) as f64);
    let row = |ReplayRow { name, ratio, verdict, ns, peak, .. }: &ReplayRow| {
        vec![
            name.clone(),
            format!("{:.3}", ratio.mid),
            format!("{open}{:.3}{to}{:.3}{close}", ratio.low95, ratio.high95),
            verdict.word().to_owned(),
            format!("{ns:.1}"),
            peak.map_or_else(|| dash.to_owned(), bytes),
            peak.map_or_else(|| dash.to_owned(), times),
        ]
    };
    replayed.rows.iter().map(row).collect()
}

/// Returns the figures of a replay as a table.
pub fn table(replayed: &Replayed) -> String {
    let values = context! {
        replayed => Serde(replayed),
        untrusted => replayed.untrusted(),
        allocators => rows(replayed, ["[", ", ", "]"], "-"),
    };
    render("replay.txt", include_str!("replay.txt"), values)
}
