//! Prints the figures of a replay as text.
#![forbid(unsafe_code)]

use core::fmt::Write as _;

use crate::units::{bytes, grouped};

use crate::replay::{ReplayRow, Replayed};
use ephemera_measure::grid::{aligned, grid};

/// Returns the figures of a replay as a table.
#[must_use]
pub fn table(replayed: &Replayed) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", replayed.command);
    let _ = writeln!(
        out,
        "{} calls; threads: {}, replayed on {}; at most {} live; {} rounds, seed {}",
        grouped(replayed.ops),
        replayed.threads,
        replayed.lanes,
        bytes(replayed.peak_live),
        replayed.rounds,
        replayed.seed
    );
    if replayed.huge > 0 {
        let _ = writeln!(out, "note: {} blocks of 4 GiB and more are left out", grouped(replayed.huge));
    }
    for note in &replayed.notes {
        let _ = writeln!(out, "note: {note}");
    }
    if replayed.untrusted() {
        let _ = writeln!(out, "UNTRUSTED: the reference differs from itself, because the machine was busy");
    }
    let dash = || "-".to_owned();
    let times = |peak: u64| format!("{:.2}", peak as f64 / replayed.peak_live.max(1) as f64);
    let row = |row: &ReplayRow| {
        vec![
            row.name.clone(),
            format!("{:.3}", row.ratio.mid),
            format!("[{:.3}, {:.3}]", row.ratio.low95, row.ratio.high95),
            row.verdict.word().to_owned(),
            format!("{:.1}", row.ns),
            row.peak.map_or_else(dash, bytes),
            row.peak.map_or_else(dash, times),
        ]
    };
    let head = ["allocator", "ratio", "95 % interval", "", "ns/call", "peak", "/ live"];
    out.push_str(&aligned(&grid(head, replayed.rows.iter().map(row)), |column| column > 0, false));
    for (key, why) in &replayed.left_out {
        let _ = writeln!(out, "left out: {key}: {why}");
    }
    out
}
