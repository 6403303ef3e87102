//! Turns tables into cells, and renders the texts for the terminal and the Markdown page.

use ephemera_measure::grid::{Column, columns, grid as headed};
use ephemera_measure::page::render;
use serde_json::{Value, json};

use super::alone;
use super::bars::Bar;
use super::baseline::Comparison;
use super::cells::{bytes, dash, ns};
use super::model::{BenchReport, ReportRow, ReportTable};
use crate::card::ContenderClass;
use crate::contenders::TWIN;
use crate::os;
use crate::runner::{ContenderState, Latencies};
use crate::stats::Estimate;
use crate::workloads::WorkloadSpec;

const COLUMNS: [Column<ReportRow>; 9] = [
    ("allocator", ReportRow::named),
    ("ratio (95 % CI)", |row| ratio(row, row.ratio)),
    ("verdict", verdict),
    ("ns/op", |row| dash(row.ns, ns)),
    ("net ns", |row| dash(row.net_ns, ns)),
    ("net ratio (95 % CI)", |row| ratio(row, row.net_ratio)),
    ("peak", peak),
    ("peak/live", peak_of_live),
    ("notes", ReportRow::note),
];

/// The smallest peak of live bytes for which a table shows the peak memory as a multiple of the
/// live bytes.
const SHARE_FROM: u64 = 64 * 1024;

/// The text that explains the columns. A report prints it once.
const LEGEND: &str = "ratio: median of paired ratios to the reference, below 1 is faster. net: the ratio without the cost of the \
loop. peak: bytes taken from the system in a separate process; `*`: counted by a backing allocator, otherwise the \
growth of the resident set. `–`: cannot run this workload.";

fn ratio(row: &ReportRow, ratio: Option<Estimate>) -> String {
    if row.is_reference() { "1.000".to_owned() } else { dash(ratio, |ratio| ratio.to_string()) }
}

fn verdict(row: &ReportRow) -> String {
    match &row.state {
        ContenderState::Crashed(_) | ContenderState::Wrong(_) => row.state.told().0.to_owned(),
        _ if row.is_reference() => "ref".to_owned(),
        _ => dash(row.verdict, |verdict| verdict.word().to_owned()),
    }
}

fn peak(row: &ReportRow) -> String {
    dash(row.memory.as_ref(), |memory| bytes(memory.peak) + if memory.exact { "*" } else { "" })
}

fn peak_of_live(row: &ReportRow) -> String {
    // With few live bytes, the multiple would mostly show the fixed size of the library.
    let memory = row.memory.as_ref().filter(|memory| memory.peak_live >= SHARE_FROM);
    dash(memory, |memory| format!("{:.2}", memory.peak as f64 / memory.peak_live as f64))
}

/// Returns a line that states the load, and the latencies of a table as rows. Returns `None` if the
/// table has no latencies, or if its own rows show them.
fn latencies(table: &ReportTable) -> Option<(String, Vec<Vec<String>>)> {
    let measured = || table.rows.iter().filter_map(|row| Some((row.name, row.latencies.as_ref()?)));
    let (_, first) = measured().next().filter(|_| !table.spec.is_alone())?;
    let line = match first.rate {
        Some(rate) => format!(
            "{}, open loop, {rate:.0} requests a second (60 % of the reference's rate in the closed loop), {} for each contender",
            table.spec.id, first.requests
        ),
        None => format!("{}, the time of each {}, one after the other", table.spec.id, table.spec.op),
    };
    let micros = |ns: u64| format!("{:.1}", ns as f64 / 1000.0);
    let cells = |(name, of): (&str, &Latencies)| {
        [name.to_owned(), micros(of.p50), micros(of.p99), micros(of.p999), micros(of.max)].to_vec()
    };
    let head = ["allocator", "p50 µs", "p99 µs", "p99.9 µs", "longest µs"];
    Some((line, headed(head, measured().map(cells))))
}

/// Returns the share of contaminated rounds in per cent, if it is above 20 %.
fn contaminated(table: &ReportTable) -> Option<String> {
    (table.contaminated > 0.2).then(|| format!("{:.0}", table.contaminated * 100.0))
}

fn heading(table: &ReportTable) -> String {
    let WorkloadSpec { id, title, op, .. } = &table.spec;
    if table.spec.is_alone() {
        return format!("{id}: {title}");
    }
    let aa = table.aa.map_or("not run".to_owned(), |aa| aa.to_string());
    let dirty = contaminated(table).map(|share| format!("; {share} % of rounds contaminated"));
    format!("{id}: {title}; ns per {op}; A/A {aa}{}", dirty.unwrap_or_default())
}

const UNTRUSTED: &str = "UNTRUSTED: the reference differed from itself, or its ratio to itself is uncertain";

/// Returns the values of a table for the templates.
fn shown(table: &ReportTable) -> Value {
    let alone = table.spec.is_alone();
    json!({
        "id": table.spec.id,
        "title": table.spec.title,
        "op": table.spec.op,
        "heading": heading(table),
        "aa": table.aa.map(|aa| format!("{:.3}, {:.3} to {:.3}", aa.mid, aa.low95, aa.high95)),
        "legend": alone.then(|| alone::legend(table)),
        "untrusted": (!alone && !table.trusted).then_some(UNTRUSTED),
        "contaminated": contaminated(table),
        "grid": if alone { alone::grid(table) } else { columns(&COLUMNS, &table.rows) },
        "latencies": latencies(table),
    })
}

/// Returns the matrix of each class with at least two workloads in the run. A matrix has a row for
/// each workload, a column for each contender, and a last row of geometric means. Its entries are
/// ratios to the reference.
fn matrices(report: &BenchReport) -> Vec<Value> {
    ContenderClass::ALL.into_iter().filter_map(|class| matrix(report, class)).collect()
}

/// Returns the rows of the contenders that have a column.
fn compared(table: &ReportTable) -> &[ReportRow] {
    &table.rows[TWIN + 1..]
}

/// Returns the matrix of a class as values for the templates, or `None` if fewer than two of its
/// workloads were run. `grid` has all rows as text. `rows` has the workloads with their cells.
/// `means` is the row of means, or null if fewer than two workloads were run by all contenders.
fn matrix(report: &BenchReport, class: ContenderClass) -> Option<Value> {
    let tables: Vec<_> = report.tables.iter().filter(|table| table.spec.class == class).collect();
    let first = tables.first().filter(|_| tables.len() > 1)?;
    let ratios = |table: &&ReportTable| compared(table).iter().map(|row| Some(row.ratio?.mid)).collect();
    let ratios: Vec<Vec<Option<f64>>> = tables.iter().map(ratios).collect();
    // The means cover only workloads that every contender ran, so that the means of different
    // contenders are comparable.
    let complete: Vec<Vec<f64>> =
        ratios.iter().filter_map(|ratios| ratios.iter().copied().collect()).collect();
    let mean = |column: usize| {
        let logs = complete.iter().map(|ratios| ratios[column].ln());
        Some((logs.sum::<f64>() / complete.len() as f64).exp())
    };
    let line = |name: String, ratios: &[Option<f64>]| -> Vec<String> {
        let cells = ratios.iter().map(|ratio| dash(*ratio, |ratio| format!("{ratio:.3}")));
        core::iter::once(name).chain(cells).collect()
    };
    let means = (complete.len() > 1).then(|| {
        let means: Vec<_> = (0..compared(first).len()).map(mean).collect();
        line(format!("geometric mean of the {} that all ran", complete.len()), &means)
    });
    let names = compared(first).iter().map(|row| row.name.to_owned());
    let head = core::iter::once("workload".to_owned()).chain(names).collect();
    let lines = tables.iter().zip(&ratios).map(|(table, ratios)| line(table.spec.id.clone(), ratios));
    let grid: Vec<Vec<String>> = core::iter::once(head).chain(lines).chain(means.clone()).collect();
    let cell = |row: &ReportRow| {
        let (state, why) = row.state.told();
        json!({"state": state, "why": why, "ratio": row.ratio.map(|ratio| ratio.mid), "verdict": row.verdict})
    };
    let row = |table: &&ReportTable| {
        let cells: Vec<Value> = compared(table).iter().map(cell).collect();
        json!({"id": table.spec.id, "trusted": table.trusted, "cells": cells})
    };
    let rows: Vec<Value> = tables.iter().map(row).collect();
    Some(json!({"class": class.word(), "grid": grid, "means": means, "rows": rows}))
}

/// Returns the values of the bars for the templates, or `None` if there are none.
fn bars(report: &BenchReport) -> Option<Value> {
    let head = ["workload", "allocator", "against", "costs", "at most", "measured (95 % CI)", ""];
    let row = |key: &str| report.tables.iter().find_map(|table| table.row(key));
    let name = |key: &str| row(key).map_or(key, |row| row.name).to_owned();
    let grid = headed(head, report.bars.iter().map(|bar| bar.cells(name)));
    let judged: Vec<bool> = report.bars.iter().filter_map(Bar::met).collect();
    let met = judged.iter().filter(|met| **met).count();
    (!report.bars.is_empty()).then(|| json!({"met": met, "judged": judged.len(), "grid": grid}))
}

/// Returns the values of a report that the templates of its texts and pages have in common.
pub(super) fn values(report: &BenchReport, comparison: Option<&Comparison>) -> Value {
    json!({
        "mode": report.mode,
        "host": report.host,
        "facts": host_block(report),
        "changes": comparison.map(Comparison::shown),
        "matrices": matrices(report),
        "bars": bars(report),
        "tables": report.tables.iter().map(shown).collect::<Vec<_>>(),
        "alone": report.alone.iter().map(shown).collect::<Vec<_>>(),
        "legend": LEGEND,
    })
}

/// Returns the facts about the host and its costs, each with a name.
pub fn host_block(report: &BenchReport) -> Vec<(String, String)> {
    let values = json!({
        "host": report.host,
        "calibration": report.calibration,
        "document": report.document,
        "trials": report.trials,
        "seed": report.seed,
        "pinned": os::cpus().last(),
        "counts_switches": os::usage(os::Who::Thread).is_some(),
        "counts_steal": os::steal().is_some(),
        "left_to_full": report.left_to_full,
    });
    let facts = render("facts.txt", include_str!("facts.txt"), &values);
    let fact = |line: &str| line.split_once(": ").map(|(name, fact)| (name.to_owned(), fact.to_owned()));
    facts.lines().filter_map(fact).collect()
}

/// Returns a table for a terminal.
pub fn terminal_table(table: &ReportTable) -> String {
    render("table.txt", include_str!("table.txt"), &shown(table))
}

/// Returns the part of the report that follows all tables on a terminal.
pub fn terminal_end(report: &BenchReport) -> String {
    render("end.txt", include_str!("end.txt"), &values(report, None))
}

/// Returns the report as a Markdown page. With a `comparison`, the page also shows the changes
/// since an earlier run.
pub fn markdown(report: &BenchReport, comparison: Option<&Comparison>) -> String {
    render("report.md", include_str!("report.md"), &values(report, comparison))
}
