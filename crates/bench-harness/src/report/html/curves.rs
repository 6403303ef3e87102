//! The sections of memory over time, tails and scaling. The first two have a row of small panels,
//! one for each contender.

use core::fmt::Write as _;

use ephemera_measure::grid::grid;
use ephemera_measure::page::{escaped, table};

use super::Section;
use crate::contenders::{REFERENCE, VOID};
use crate::report::cells::{bytes, ns};
use crate::report::model::{BenchReport, ReportRow, ReportTable};
use crate::report::scaling;
use crate::runner::{HeldAt, Latencies};
use crate::stats::Estimate;
use ephemera_measure::picture::{Curve, Forest, ForestLine, Panel, SMALL, Scales};

/// Writes a panel with its caption.
pub(super) fn panel(out: &mut String, name: &str, figures: &str, picture: &str) {
    let _ = writeln!(
        out,
        "<figure>{picture}<figcaption><b>{}</b> {}</figcaption></figure>",
        escaped(name),
        escaped(figures)
    );
}

/// Returns a section with one part for each item, or `None` if there are no items.
pub(super) fn section<I>(
    (id, name, about): (&'static str, &'static str, &str),
    items: Vec<I>,
    mut part: impl FnMut(&mut String, I),
) -> Option<Section> {
    let mut out = format!("<p>{about}</p>\n");
    let any = !items.is_empty();
    items.into_iter().for_each(|item| part(&mut out, item));
    any.then(|| Section::new(id, name, out))
}

/// Returns a count as the text of an axis label.
fn count(value: f64) -> String {
    match value {
        0.0..1000.0 => format!("{value:.0}"),
        1000.0..1e6 => format!("{:.0}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    }
}

/// Returns the section that shows the bytes that each contender took over time, and the live bytes.
/// Returns `None` if no workload recorded them.
pub(super) fn memory(report: &BenchReport) -> Option<Section> {
    let watched = |table: &&ReportTable| table.rows.iter().any(|row| !row.over_time.is_empty());
    let tables: Vec<&ReportTable> = report.tables.iter().filter(watched).collect();
    let about = (
        "memory",
        "Memory over time",
        "The bytes that a contender takes from the system, by the number of allocations. The grey area is the live bytes of the \
         workload. All panels of a workload have the same scales, and the scale of bytes has powers of two.",
    );
    section(about, tables, |out, of| {
        let _ = write!(
            out,
            "<h3>{}</h3>\n<p>{}</p>\n<div class=\"panels\">\n",
            escaped(&of.spec.id),
            escaped(&of.spec.title)
        );
        let points = || of.rows.iter().flat_map(|row| &row.over_time);
        let most = |get: fn(&HeldAt) -> u64| points().map(get).max().unwrap_or(0).max(1) as f64;
        // The first readings of a resident set can be zero, so the scale starts below the smallest
        // number of live bytes instead.
        let least = points().map(|at| at.live / 2).min().unwrap_or(0).max(1) as f64;
        let most_bytes = most(|at| at.taken.max(at.live)).max(least * 4.0);
        let scale = Panel {
            size: SMALL,
            x: 0.0..most(|at| at.ops),
            y: least.log2().floor().exp2()..most_bytes.log2().ceil().exp2(),
            scales: Scales::PowersUp,
            x_label: count,
            y_label: |value| bytes(value as u64),
            filled: true,
        };
        for row in of.rows.iter().filter(|row| !row.over_time.is_empty()) {
            held(out, of, row, &scale);
        }
        out.push_str("</div>\n");
    })
}

fn held(out: &mut String, of: &ReportTable, row: &ReportRow, scale: &Panel) {
    let curve = |get: fn(&HeldAt) -> u64| -> Curve {
        row.over_time.iter().map(|at| (at.ops as f64, (get(at) as f64).max(scale.y.start))).collect()
    };
    let last = row.over_time.last().map_or((0, 0), |at| (at.taken, at.live));
    let figures = format!("{} at the end, {} of them alive", bytes(last.0), bytes(last.1));
    let title = format!("{}: bytes taken by {} over time", of.spec.id, row.name);
    let picture = scale.inline(&title, &figures, &curve(|at| at.taken), &curve(|at| at.live));
    panel(out, row.name, &figures, &picture);
}

/// Returns the section that shows, for each time, the share of the requests or frames that took
/// longer. Returns `None` if no workload has such latencies.
pub(super) fn tails(report: &BenchReport) -> Option<Section> {
    let measured = |table: &ReportTable| -> Vec<(&'static str, Latencies)> {
        let of = |(_, row): (usize, &ReportRow)| Some((row.name, row.latencies.clone()?));
        let rows = table.rows.iter().enumerate().filter(|(index, _)| *index != VOID).filter_map(of);
        rows.filter(|(_, latencies)| !latencies.above.is_empty()).collect()
    };
    let tables: Vec<(&ReportTable, Vec<_>)> =
        report.tables.iter().map(|of| (of, measured(of))).filter(|(_, rows)| !rows.is_empty()).collect();
    let about = (
        "tails",
        "Tails",
        "The share of requests or frames that took longer than a number of microseconds. Both scales have powers of ten, and \
         further left is better. The grey curve is the reference's.",
    );
    section(about, tables, |out, (of, rows)| {
        let _ = write!(out, "<h3>{}</h3>\n<div class=\"panels\">\n", escaped(&of.spec.id));
        let curve = |latencies: &Latencies| -> Curve {
            latencies.above.iter().map(|&(ns, share)| (ns.max(1) as f64 / 1e3, share)).collect()
        };
        let reference =
            of.rows.get(REFERENCE).and_then(|row| row.latencies.as_ref()).map(curve).unwrap_or_default();
        let points = || rows.iter().flat_map(|(_, latencies)| curve(latencies));
        let low = points().map(|(x, _)| x).fold(f64::MAX, f64::min);
        let high = points().map(|(x, _)| x).fold(low * 10.0, f64::max);
        let scale = Panel {
            size: SMALL,
            x: low..high,
            y: points().map(|(_, y)| y).fold(0.1, f64::min)..1.0,
            scales: Scales::Powers,
            x_label: |value| if value < 10.0 { format!("{value:.1} µs") } else { format!("{value:.0} µs") },
            y_label: |value| format!("{} %", trimmed(value * 100.0)),
            filled: false,
        };
        for (name, latencies) in &rows {
            let micros = |ns: u64| ns as f64 / 1e3;
            let figures = format!(
                "median {:.0} µs, 99 % {:.0} µs, 99.9 % {:.0} µs",
                micros(latencies.p50),
                micros(latencies.p99),
                micros(latencies.p999)
            );
            let title = format!("{}: latencies of {name}", of.spec.id);
            let picture = scale.inline(&title, &figures, &curve(latencies), &reference);
            panel(out, name, &figures, &picture);
        }
        out.push_str("</div>\n");
    })
}

/// Returns a number as text, with at most four decimals and without trailing zeros.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the section that shows how much threads slow each other down, or `None` if the run does
/// not have both workloads of any pair.
pub(super) fn scaling(report: &BenchReport) -> Option<Section> {
    let about = (
        "scaling",
        "Scaling",
        "The cost of an operation on one thread alone, divided by its cost while other threads do the same. At 1 the threads do \
         not slow each other down; at a half, two threads achieve as much as one. The medians of two tables are not paired.",
    );
    section(about, scaling::scaling(report), |out, of| {
        let lines = of.rows.iter().map(|row| {
            let share = row.share();
            let ratio = Estimate { mid: share, low95: share, high95: share, low99: share, high99: share };
            ForestLine { name: row.name, ratio, verdict: None }
        });
        let title = format!(
            "{}: time of one thread alone divided by its time among {}",
            of.together.spec.id, of.threads
        );
        let head = ["allocator", "ns/op alone", "ns/op together", "alone/together"];
        let cells = of.rows.iter().map(|row| {
            vec![row.name.to_owned(), ns(row.alone), ns(row.together), format!("{:.2}", row.share())]
        });
        let _ = write!(
            out,
            "<h3>{} threads</h3>\n<p>{}</p>\n<div class=\"wide picture\">{}</div>\n{}",
            of.threads,
            escaped(&of.together.spec.title),
            Forest(lines.collect()).inline(&title),
            table("scaling", &grid(head, cells))
        );
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_labels_have_significant_digits() {
        assert_eq!([count(10.0), count(25_000.0), count(1.5e6)], ["10", "25k", "1.5M"]);
        assert_eq!([trimmed(10.0), trimmed(0.1), trimmed(0.0125)], ["10", "0.1", "0.0125"]);
    }
}
