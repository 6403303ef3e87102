//! Prints the profile, the advice and the figures of a replay as text.
#![forbid(unsafe_code)]

use core::cmp::Reverse;

use ephemera_measure::grid::aligned;
use ephemera_measure::page::environment;
use minijinja::value::Serde;
use minijinja::{UndefinedBehavior, Value, context};

use crate::advise::{self, Advice, Recommendation};
use crate::histogram::LogHistogram;
use crate::profile::{BlockCounts, TraceProfile, class_end, part};
use crate::replay::{ReplayRow, Replayed};
use crate::share::{between, times};
use crate::units::{bytes, duration, grouped, percent};

/// Renders a template, which is compiled in. Values are escaped if `name` ends in `.html`.
///
/// # Panics
///
/// Panics if the template is malformed, or if it uses a value that is missing.
pub(crate) fn render(name: &str, template: &str, values: Value) -> String {
    let mut environment = environment();
    // These templates test only values that are always present, so a misspelt name is an error.
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_filter("bytes", bytes);
    environment.add_filter("duration", duration);
    environment.add_filter("grouped", grouped);
    environment.add_filter("part", part);
    environment.add_filter("percent", percent);
    environment.add_filter("share", advise::percent);
    environment.add_function("aligned", |grid: Vec<Vec<String>>| aligned(&grid, |column| column > 0, false));
    environment.render_named_str(name, template, values).expect("the template fits its values")
}

/// Returns the name of a size class.
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
        percent(part(counts.elsewhere, counts.freed)),
        grouped(counts.resizes),
        median(&counts.lives, grouped, dash),
        median(&counts.times, duration, dash),
    ]
}

/// Returns the rows of the table of sizes: one for each size class that has blocks, and one for all
/// blocks. `figures` returns the cells after the name.
pub(super) fn rows(
    profile: &TraceProfile,
    all: &BlockCounts,
    figures: impl Fn(&BlockCounts) -> Vec<String>,
) -> Vec<Vec<String>> {
    let classes = profile.used().map(|(class, counts)| (class_name(class), counts));
    let all = classes.chain([("all".to_owned(), all)]);
    all.map(|(name, counts)| [vec![name], figures(counts)].concat()).collect()
}

/// Returns the values that the templates of the report and of the page have in common.
pub(super) fn values(profile: &TraceProfile, advice: &Advice) -> Value {
    let all = profile.all();
    let named = |histogram: &LogHistogram, show: fn(u64) -> String| -> Vec<_> {
        histogram.rows().into_iter().map(|(low, count)| (show(low), count)).collect()
    };
    context! {
        profile => Serde(profile),
        lives => Serde(named(&all.lives, grouped)),
        times => Serde(named(&all.times, duration)),
        all => Serde(all),
        ..advised(advice)
    }
}

/// Returns the values that the template of the verdict has.
fn advised(advice: &Advice) -> Value {
    context! { advice => Serde(advice), headline => headline(advice), shares => shares(advice) }
}

/// Returns the whole report for a terminal.
pub fn report(profile: &TraceProfile, advice: &Advice) -> String {
    let all = profile.all();
    let cells = |counts: &BlockCounts| {
        let mut cells = figures(counts, &all, "-").to_vec();
        cells.insert(3, percent(part(counts.blocks - counts.freed, counts.blocks)));
        cells
    };
    let threads = profile.timing.threads.iter();
    let mut busiest: Vec<(u64, u32)> =
        threads.map(|(number, thread)| (thread.last.thread, *number)).collect();
    busiest.sort_unstable_by_key(|&(time, number)| (Reverse(time), number));
    let values = context! {
        sizes => rows(profile, &all, cells),
        busiest => Serde(busiest),
        ..values(profile, advice)
    };
    render("report.txt", include_str!("report.txt"), values) + "\n" + &verdict(advice)
}

/// Returns the verdict as one line.
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
fn shares(advice: &Advice) -> Vec<String> {
    let share = &advice.share;
    let values = context! {
        advice => Serde(advice),
        of_processor => share.of_processor().map(between),
        of_wall => share.of_wall().map(between),
        heap => times(share.heap),
        recorder => times(share.recorder),
        processor => share.processor.map(times),
        recorded => share.recorded.map(times),
        wall => share.wall.map(times),
    };
    render("shares.txt", include_str!("shares.txt"), values).lines().map(str::to_owned).collect()
}

/// Returns the advice as text, without the profile.
pub fn verdict(advice: &Advice) -> String {
    render("verdict.txt", include_str!("verdict.txt"), advised(advice))
}

/// Returns the rows of the table of allocators. `open`, `to` and `close` stand before, between and
/// after the ends of an interval, and `dash` stands for a figure that was not measured.
pub(super) fn allocators(replayed: &Replayed, [open, to, close]: [&str; 3], dash: &str) -> Vec<Vec<String>> {
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
pub(super) fn replay(replayed: &Replayed) -> String {
    let values = context! {
        replayed => Serde(replayed),
        untrusted => replayed.untrusted(),
        allocators => allocators(replayed, ["[", ", ", "]"], "-"),
    };
    render("replay.txt", include_str!("replay.txt"), values)
}
