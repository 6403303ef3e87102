//! Prints the figures of a replay as text.
#![forbid(unsafe_code)]

use core::fmt::Write as _;

use crate::units::{bytes, grouped};

use crate::replay::Replayed;

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
    let _ = writeln!(
        out,
        "{:<26} {:>8} {:>16} {:>8} {:>8} {:>12} {:>9}",
        "allocator", "ratio", "95 % interval", "", "ns/call", "peak", "/ live"
    );
    for row in &replayed.rows {
        let interval = format!("[{:.3}, {:.3}]", row.ratio.low95, row.ratio.high95);
        let peak = row.peak.map_or_else(|| "-".to_owned(), bytes);
        let times = row.peak.map_or_else(
            || "-".to_owned(),
            |peak| format!("{:.2}", peak as f64 / replayed.peak_live.max(1) as f64),
        );
        let _ = writeln!(
            out,
            "{:<26} {:>8.3} {interval:>16} {:>8} {:>8.1} {peak:>12} {times:>9}",
            row.name,
            row.ratio.mid,
            row.verdict.word(),
            row.ns
        );
    }
    for (key, why) in &replayed.left_out {
        let _ = writeln!(out, "left out: {key}: {why}");
    }
    out
}
