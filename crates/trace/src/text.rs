//! Prints the profile and the advice as text.
#![forbid(unsafe_code)]

use core::fmt::Write as _;

use crate::units::{bytes, duration, grouped, percent};

use super::advise::{Advice, Recommendation};
use super::histogram::LogHistogram;
use super::profile::{BlockCounts, TraceProfile, class_end, part};
use super::share::{between, times};
use ephemera_measure::grid::{aligned, grid};

/// The maximum number of threads whose processor time is listed.
const BUSIEST: usize = 4;

/// Returns the name of a size class.
#[must_use]
pub fn class_name(class: usize) -> String {
    match class_end(class) {
        Some(end) if end < 1024 => format!("to {end} B"),
        Some(end) if end < 1 << 20 => format!("to {} KiB", end >> 10),
        Some(end) => format!("to {} MiB", end >> 20),
        None => "larger".to_owned(),
    }
}

/// Returns the median of a histogram as `show` prints it, or `dash` if there are no values.
pub(super) fn median(histogram: &LogHistogram, show: impl Fn(u64) -> String, dash: &str) -> String {
    histogram.quantile(0.5).map_or_else(|| dash.to_owned(), show)
}

/// Returns the figures of a size class: its blocks, its shares of all blocks and bytes, the shares
/// of its frees by order, the share of its remote frees, its resizes, and the medians of its
/// lifetimes.
pub(super) fn figures(counts: &BlockCounts, all: &BlockCounts, dash: &str) -> [String; 11] {
    let [at_once, lifo, fifo, none] = counts.orders.map(|count| percent(part(count, counts.freed)));
    [
        grouped(counts.blocks),
        percent(part(counts.blocks, all.blocks)),
        percent(part(counts.bytes, all.bytes)),
        at_once,
        lifo,
        fifo,
        none,
        percent(counts.share_elsewhere()),
        grouped(counts.resizes),
        median(&counts.lives, grouped, dash),
        median(&counts.times, duration, dash),
    ]
}

/// Returns the row of a size class in the table of sizes.
fn row(name: String, counts: &BlockCounts, all: &BlockCounts) -> Vec<String> {
    let mut cells = vec![name];
    cells.extend(figures(counts, all, "-"));
    cells.insert(4, percent(part(counts.blocks - counts.freed.min(counts.blocks), counts.blocks)));
    cells
}

/// Prints a row for each bucket: the smallest value, the count, the share, and a bar.
fn bars(out: &mut String, histogram: &LogHistogram, show: impl Fn(u64) -> String) {
    let total = histogram.total();
    let rows = histogram.rows();
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1);
    for (low, count) in rows {
        let bar = "#".repeat((count as f64 / most as f64 * 40.0).round() as usize);
        let _ = writeln!(
            out,
            "{:>12} {:>13} {:>4} {bar}",
            show(low),
            grouped(count),
            percent(part(count, total))
        );
    }
}

/// Returns the whole report for a terminal.
#[must_use]
pub fn report(profile: &TraceProfile, advice: &Advice) -> String {
    let mut out = String::new();
    let all = profile.all();
    let _ = writeln!(out, "{}", profile.command);
    for caveat in &profile.caveats {
        let _ = writeln!(out, "note: {caveat}");
    }
    let _ = writeln!(
        out,
        "{} calls in {}; threads: {}; {} blocks of {}; at most {} live in {} blocks; {} blocks live at the end",
        grouped(profile.events),
        duration(profile.time),
        grouped(profile.threads),
        grouped(all.blocks),
        bytes(all.bytes),
        bytes(profile.peak_bytes),
        grouped(profile.peak_blocks),
        grouped(profile.left)
    );
    for (count, what) in [
        (profile.unknown, "calls about blocks that were allocated before the recording"),
        (profile.twice, "blocks freed twice"),
        (profile.lost, "blocks whose free is missing"),
        (profile.over_aligned, "blocks aligned to 32 or more"),
    ] {
        if count > 0 {
            let _ = writeln!(out, "{} {what}", grouped(count));
        }
    }
    let threads = &profile.timing.threads;
    if threads.len() > 1 {
        let mut busiest: Vec<(u64, u32)> =
            threads.iter().map(|(number, thread)| (thread.last.thread, *number)).collect();
        busiest.sort_unstable_by_key(|&(time, number)| (core::cmp::Reverse(time), number));
        let said: Vec<String> = busiest
            .iter()
            .take(BUSIEST)
            .map(|&(time, number)| format!("{} by thread {number}", duration(time)))
            .collect();
        let _ =
            writeln!(out, "processor time of the busiest threads, with the recorder's: {}", said.join(", "));
    }
    let _ = writeln!(
        out,
        "\nSizes. Shares in %: of blocks, of bytes, left at the end; of the blocks freed: at once, LIFO, FIFO, in no\n\
         order, on another thread. Lifetimes are medians: in blocks allocated since, and in time."
    );
    let head = [
        "size", "blocks", "bl.", "by.", "left", "once", "LIFO", "FIFO", "none", "other", "resized", "life",
        "time",
    ];
    let classes = profile.classes.iter().enumerate().filter(|(_, counts)| counts.blocks > 0);
    let rows = classes.map(|(class, counts)| row(class_name(class), counts, &all));
    let grid = grid(head, rows.chain([row("all".to_owned(), &all, &all)]));
    out.push_str(&aligned(&grid, |column| column > 0, false));
    let common: Vec<String> = profile
        .sizes
        .iter()
        .take(8)
        .map(|(size, blocks, _)| format!("{size} B {} %", percent(part(*blocks, all.blocks))))
        .collect();
    let _ = writeln!(out, "\nThe commonest sizes: {}", common.join(", "));
    let _ = writeln!(out, "\nLifetimes, counted in allocations (from, blocks, %)");
    bars(&mut out, &all.lives, grouped);
    let _ = writeln!(out, "\nLifetimes, in time (from, blocks, %)");
    bars(&mut out, &all.times, duration);
    out.push('\n');
    out.push_str(&verdict(advice));
    out
}

/// Returns the verdict as one line.
#[must_use]
pub fn headline(advice: &Advice) -> String {
    match &advice.verdict {
        Recommendation::Keep => "Keep your allocator.".to_owned(),
        Recommendation::General(name, ratio) => {
            format!("Keep your code, and try {name} as its allocator: {ratio:.2} of the time in the replay.")
        }
        Recommendation::Try(name, source) if source.is_measured() => {
            format!("Try {name}, as the replay measured it.")
        }
        Recommendation::Try(name, _) => {
            format!("{name} may help: its saving is assumed, not measured on this trace.")
        }
    }
}

/// Returns the allocator's share in sentences.
pub(super) fn shares(advice: &Advice) -> Vec<String> {
    let share = &advice.share;
    let mut said = vec![format!(
        "The calls of the allocator take {}. Source: {}.",
        times(share.heap),
        advice.source.said()
    )];
    if let (Some(of), Some(whole)) = (share.of_processor(), share.processor) {
        said.push(format!(
            "That is {} of the program's processor time, {} without the recorder.",
            between(of),
            times(whole)
        ));
    }
    if let (Some(of), Some(whole)) = (share.of_wall(), share.wall) {
        let threads = match advice.threads {
            0 | 1 => "of the wall time".to_owned(),
            threads => {
                format!("of the time of its {threads} threads, of each from its first call to its last")
            }
        };
        said.push(format!("It is {} {threads}: {}, waiting included.", between(of), times(whole)));
    }
    if let Some(recorded) = share.recorded {
        said.push(format!(
            "The recorded run took {} of processor time, of which the recorder took {}.",
            times(recorded),
            times(share.recorder)
        ));
    }
    if share.wall.is_none() {
        said.push("The trace has no times, so the share of the run is unknown.".to_owned());
    }
    said.extend(share.reasons.iter().map(|why| format!("Range: {why}.")));
    said
}

/// Returns the advice as text, without the profile.
#[must_use]
pub fn verdict(advice: &Advice) -> String {
    let mut out = String::new();
    for sentence in shares(advice) {
        let _ = writeln!(out, "{sentence}");
    }
    let _ = writeln!(
        out,
        "What each crate could serve (% of blocks, % of bytes), and its saving as a share of {}",
        advice.whole
    );
    for offer in &advice.offers {
        let _ = writeln!(
            out,
            "{:<13} {:>4} {:>4}   saves {:>4.1} %   {}",
            offer.name,
            percent(offer.blocks),
            percent(offer.bytes),
            offer.saving * 100.0,
            if offer.fits { "fits" } else { "does not fit" }
        );
        for reason in &offer.reasons {
            let _ = writeln!(out, "              {reason}");
        }
        let _ = writeln!(out, "              saving from {}", offer.source.said());
    }
    let _ = writeln!(out, "\n{}", headline(advice));
    for reason in &advice.reasons {
        let _ = writeln!(out, "- {reason}");
    }
    out
}
