//! `report.html`: the whole report in one file without external resources, for screens of any
//! width, in light and dark, and for paper. `report.html` in this directory has the markup.
#![forbid(unsafe_code)]

mod panels;

use ephemera_measure::grid::grid;
use ephemera_measure::page::{page, render};
use ephemera_measure::picture::{Forest, ForestLine};
use serde_json::{Value, json};

use super::baseline::{self, Comparison};
use super::cells::ns;
use super::matrix::Matrix;
use super::model::{BenchReport, ReportRow, ReportTable};
use super::scaling::{Scaling, scaling};
use super::svg::forest;
use super::text::{self, LEGEND, UNTRUSTED, bar_grid, host_block, latencies};
use crate::card::ContenderClass;
use crate::runner::ContenderState;
use crate::stats::{Estimate, Verdict};

/// Returns the report as a page. With a `comparison`, the page also shows the changes since an
/// earlier run.
pub fn html(report: &BenchReport, comparison: Option<&Comparison>) -> String {
    let changes = |of: &Comparison| {
        json!({
            "title": of.title(),
            "differs": of.differs,
            "grid": of.grid(),
            "missing": of.missing,
            "legend": baseline::LEGEND,
        })
    };
    let (met, judged) = report.bars_met();
    let bars = || json!({"met": met, "judged": judged, "grid": bar_grid(report)});
    let body = render(
        include_str!("report.html"),
        &json!({
            "mode": report.mode,
            "commit": report.host.commit,
            "cpu": report.host.cpu,
            "facts": host_block(report),
            "changes": comparison.map(changes),
            "matrices": Matrix::all(report).iter().map(matrix).collect::<Vec<_>>(),
            "shades": SHADES,
            "bars": (!report.bars.is_empty()).then(bars),
            "memory": panels::memory(report),
            "tails": panels::tails(report),
            "scaling": scaling(report).iter().map(threads).collect::<Vec<_>>(),
            "alone": panels::alone(report),
            "tables": report.tables.iter().map(table).collect::<Vec<_>>(),
            "legend": LEGEND.replace('`', ""),
            "untrusted": UNTRUSTED,
        }),
    );
    page(&format!("Allocators compared ({})", report.mode), &body)
}

/// Returns the anchor of a table in the page.
fn anchor(table: &ReportTable) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("w-{}", table.spec.id.chars().map(plain).collect::<String>())
}

fn table(of: &ReportTable) -> Value {
    let plot = forest(of);
    let title = format!("{}: ratios to the reference, with 95 % intervals", of.spec.id);
    let contaminated = || format!("{:.0}", of.contaminated * 100.0);
    json!({
        "id": of.spec.id,
        "anchor": anchor(of),
        "title": of.spec.title,
        "op": of.spec.op,
        "aa": of.aa.map(|aa| format!("{:.3}, {:.3} to {:.3}", aa.mid, aa.low95, aa.high95)),
        "trusted": of.trusted,
        "contaminated": (of.contaminated > 0.2).then(contaminated),
        "picture": (!plot.0.is_empty()).then(|| plot.inline(&title)),
        "grid": text::grid(of),
        "latencies": latencies(of),
    })
}

/// Returns the scaling of one workload: a picture and a table.
fn threads(of: &Scaling<'_>) -> Value {
    let lines = of.rows.iter().map(|row| {
        let share = row.share();
        let ratio = Estimate { mid: share, low95: share, high95: share, low99: share, high99: share };
        ForestLine { name: row.name, ratio, verdict: None }
    });
    let title =
        format!("{}: time of one thread alone divided by its time among {}", of.together.spec.id, of.threads);
    let cells = of
        .rows
        .iter()
        .map(|row| vec![row.name.to_owned(), ns(row.alone), ns(row.together), format!("{:.2}", row.share())]);
    json!({
        "threads": of.threads,
        "title": of.together.spec.title,
        "picture": Forest(lines.collect()).inline(&title),
        "grid": grid(["allocator", "ns/op alone", "ns/op together", "alone/together"], cells),
    })
}

fn matrix((class, matrix): &(ContenderClass, Matrix<'_>)) -> Value {
    let row = |(table, cells): &(&ReportTable, Vec<&ReportRow>)| {
        json!({
            "table": {"id": table.spec.id, "anchor": anchor(table), "trusted": table.trusted},
            "cells": cells.iter().map(|row| cell(row)).collect::<Vec<_>>(),
        })
    };
    let means = |(_, means): &(usize, Vec<f64>)| -> Vec<String> {
        means.iter().map(|mean| format!("{mean:.3}")).collect()
    };
    json!({
        "class": class.word(),
        "heads": matrix.heads,
        "rows": matrix.rows.iter().map(row).collect::<Vec<_>>(),
        "mean_name": matrix.means.as_ref().map(|(count, _)| Matrix::mean_name(*count)),
        "means": matrix.means.as_ref().map(means),
    })
}

/// The classes of the style sheet for the cells of a matrix, with their meanings, from much faster
/// to much slower.
const SHADES: [(&str, &str); 6] = [
    ("f3", "half or less"),
    ("f2", "to 0.8"),
    ("f1", "faster"),
    ("s1", "slower"),
    ("s2", "from 1.25"),
    ("s3", "twice or more"),
];

fn shade(ratio: f64, verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Faster) if ratio <= 0.5 => "f3",
        Some(Verdict::Faster) if ratio <= 0.8 => "f2",
        Some(Verdict::Faster) => "f1",
        Some(Verdict::Slower) if ratio >= 2.0 => "s3",
        Some(Verdict::Slower) if ratio >= 1.25 => "s2",
        Some(Verdict::Slower) => "s1",
        _ => "same",
    }
}

/// Returns the class, the title and the text of a cell of a matrix.
fn cell(row: &ReportRow) -> Value {
    match (&row.state, row.ratio) {
        (ContenderState::Ran, Some(ratio)) => {
            json!({"class": shade(ratio.mid, row.verdict), "text": format!("{:.3}", ratio.mid)})
        }
        (ContenderState::Ran, None) => json!({"text": "–"}),
        (ContenderState::Missing(why), _) => json!({"title": why, "text": "–"}),
        (ContenderState::Crashed(why) | ContenderState::Wrong(why), _) => {
            json!({"class": "bad", "title": why, "text": row.state.told().0})
        }
    }
}
