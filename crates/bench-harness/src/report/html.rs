//! `report.html`: the whole report in one file without external resources, for screens of any
//! width, in light and dark, and for paper. The template `report.html` contains the markup. Each
//! table of memory over time, of tails and of resident memory has a row of panels: small pictures,
//! one for each contender.
#![forbid(unsafe_code)]

use ephemera_measure::grid::{Column, columns};
use ephemera_measure::page::{page, render};
use ephemera_measure::picture::{Curve, Forest, ForestLine, Panel, SMALL, Scales};
use serde_json::{Map, Value, json};

use super::baseline::Comparison;
use super::cells::{bytes, ns};
use super::model::{BenchReport, ReportRow, ReportTable};
use super::svg::forest;
use super::text::values;
use crate::contenders::{ALWAYS, VOID};
use crate::runner::{AloneRun, Latencies};
use crate::stats::Estimate;
use crate::workloads::{AfterBurst, HeldAt};

/// Returns the report as a page. With a `comparison`, the page also shows the changes since an
/// earlier run.
pub fn html(report: &BenchReport, comparison: Option<&Comparison>) -> String {
    let pictures = report.tables.iter().filter_map(picture);
    let resident = report.alone.iter().map(|of| (of.spec.id.clone(), resident(of).into()));
    let mut values = values(report, comparison);
    values["memory"] = memory(report).into();
    values["tails"] = tails(report).into();
    values["scaling"] = scaling(report).into();
    values["pictures"] = pictures.collect::<Map<_, _>>().into();
    values["resident"] = resident.collect::<Map<_, _>>().into();
    let body = render("page.html", include_str!("report.html"), &values);
    page(&format!("Allocators compared ({})", report.mode), &body)
}

/// Returns the name of a table and the picture of its ratios, or `None` if it has no ratios.
fn picture(of: &ReportTable) -> Option<(String, Value)> {
    let plot = forest(of);
    let title = format!("{}: ratios to the reference, with 95 % intervals", of.spec.id);
    (!plot.0.is_empty()).then(|| (of.spec.id.clone(), plot.inline(&title).into()))
}

/// Returns the panels of the tables for which `figures` returns any.
fn panels(tables: &[ReportTable], figures: impl Fn(&ReportTable) -> Vec<Value>) -> Vec<Value> {
    let part = |of: &ReportTable| {
        let figures = Some(figures(of)).filter(|figures| !figures.is_empty())?;
        Some(json!({"id": of.spec.id, "title": of.spec.title, "figures": figures}))
    };
    tables.iter().filter_map(part).collect()
}

/// Returns a panel of two curves with its caption: the name of the contender, and its figures.
fn figure(scale: &Panel, title: &str, name: &str, figures: &str, [curve, beside]: &[Curve; 2]) -> Value {
    json!({"name": name, "figures": figures, "picture": scale.inline(title, figures, curve, beside)})
}

/// Returns a count as the text of an axis label.
fn count(value: f64) -> String {
    match value {
        0.0..1000.0 => format!("{value:.0}"),
        1000.0..1e6 => format!("{:.0}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    }
}

/// Returns a number as text, with at most four decimals and without trailing zeros.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the scales for curves of taken and live bytes. The horizontal axis is linear and ends at
/// `end`. The vertical axis has powers of two.
fn held_scale(held: &[HeldAt], end: f64, x_label: fn(f64) -> String) -> Panel {
    // The first readings of a resident set can be zero, so the scale starts below the smallest
    // number of live bytes instead.
    let least = held.iter().map(|held| held.live / 2).min().unwrap_or(0).max(1) as f64;
    let most = held.iter().map(|held| held.taken.max(held.live)).max().unwrap_or(0) as f64;
    Panel {
        size: SMALL,
        x: 0.0..end,
        y: least.log2().floor().exp2()..most.max(least * 4.0).log2().ceil().exp2(),
        scales: Scales::PowersUp,
        x_label,
        y_label: |value| bytes(value as u64),
        filled: true,
    }
}

/// Returns the curves of the taken and of the live bytes.
fn held_curves(held: &[HeldAt], scale: &Panel) -> [Curve; 2] {
    let above = |bytes: u64| (bytes as f64).max(scale.y.start);
    let taken = held.iter().map(|held| (held.at, above(held.taken))).collect();
    [taken, held.iter().map(|held| (held.at, above(held.live))).collect()]
}

/// Returns the panels of the bytes that each contender took over time, and of the live bytes.
fn memory(report: &BenchReport) -> Vec<Value> {
    panels(&report.tables, |of| {
        let all: Vec<HeldAt> = of.rows.iter().flat_map(|row| row.over_time()).copied().collect();
        let scale = held_scale(&all, all.iter().map(|held| held.at).fold(1.0, f64::max), count);
        let panel = |row: &ReportRow| {
            let last = row.over_time().last()?;
            let figures = format!("{} at the end, {} of them live", bytes(last.taken), bytes(last.live));
            let title = format!("{}: bytes taken by {} over time", of.spec.id, row.name);
            Some(figure(&scale, &title, row.name, &figures, &held_curves(row.over_time(), &scale)))
        };
        of.rows.iter().filter_map(panel).collect()
    })
}

/// Returns the panels that show, for each time, the share of the requests, frames or calls that
/// took longer.
fn tails(report: &BenchReport) -> Vec<Value> {
    panels(&report.tables, |of| {
        let curve = |latencies: &Latencies| -> Curve {
            latencies.above.iter().map(|&(ns, share)| (ns.max(1) as f64 / 1e3, share)).collect()
        };
        let rows = of.rows.iter().filter(|row| row.key != ALWAYS[VOID]);
        let rows: Vec<(&ReportRow, &Latencies)> =
            rows.filter_map(|row| Some((row, row.latencies.as_ref()?))).collect();
        let reference = rows.iter().find(|(row, _)| row.is_reference());
        let reference = reference.map(|(_, latencies)| curve(latencies)).unwrap_or_default();
        let points = || rows.iter().flat_map(|(_, latencies)| curve(latencies));
        let low = points().map(|(x, _)| x).fold(f64::MAX, f64::min);
        let scale = Panel {
            size: SMALL,
            x: low..points().map(|(x, _)| x).fold(low * 10.0, f64::max),
            y: points().map(|(_, y)| y).fold(0.1, f64::min)..1.0,
            scales: Scales::Powers,
            x_label: |value| if value < 10.0 { format!("{value:.1} µs") } else { format!("{value:.0} µs") },
            y_label: |value| format!("{} %", trimmed(value * 100.0)),
            filled: false,
        };
        let measured = rows.iter().filter(|(_, latencies)| !latencies.above.is_empty());
        let tail = |(row, latencies): &(&ReportRow, &Latencies)| {
            let [p50, p99, p999] =
                [latencies.p50, latencies.p99, latencies.p999].map(|ns| format!("{:.0} µs", ns as f64 / 1e3));
            let figures = format!("median {p50}, 99 % {p99}, 99.9 % {p999}");
            let title = format!("{}: latencies of {}", of.spec.id, row.name);
            figure(&scale, &title, row.name, &figures, &[curve(latencies), reference.clone()])
        };
        measured.map(tail).collect()
    })
}

fn runs(of: &ReportTable) -> impl Iterator<Item = &AloneRun> {
    of.rows.iter().flat_map(|row| &row.runs)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Returns the scales of a burst: seconds on a logarithmic scale, and MiB on a linear one.
fn after_burst(of: &ReportTable) -> Panel {
    let last = runs(of).flat_map(|run| &run.figures.held).map(|held| held.at).fold(1.0, f64::max);
    Panel {
        size: SMALL,
        x: 0.01_f64.log10()..last.log10(),
        y: 0.0..mib(runs(of).map(|run| run.figures.peak).max().unwrap_or(0)).max(10.0),
        scales: Scales::Even,
        x_label: |place| format!("{} s", (100.0 * 10_f64.powf(place)).round() / 100.0),
        y_label: |value| format!("{value:.0} MiB"),
        filled: false,
    }
}

/// Returns the panels of resident memory over time, one for each contender that ran.
fn resident(of: &ReportTable) -> Vec<Value> {
    let burst = of.spec.is_burst();
    let scale = if burst {
        after_burst(of)
    } else {
        let all: Vec<HeldAt> = runs(of).flat_map(|run| &run.figures.held).copied().collect();
        held_scale(&all, 1.0, |value| format!("{:.0} %", value * 100.0))
    };
    let panel = |row: &ReportRow| {
        // A logarithmic scale cannot show moment 0. The table has the reading at that moment.
        let later = |after| {
            let held = row.run(after).into_iter().flat_map(|run| &run.figures.held);
            held.copied().filter(|held| held.at > 0.0)
        };
        let (curves, figures) = if burst {
            let after = [AfterBurst::Working, AfterBurst::Asleep];
            let point = |held: HeldAt| (held.at.log10(), mib(held.taken));
            (after.map(|after| later(Some(after)).map(point).collect()), row.returned())
        } else {
            let peak = row.run(None).map(|run| format!("{} at most", bytes(run.figures.peak)));
            (held_curves(&later(None).collect::<Vec<_>>(), &scale), peak)
        };
        let name = row.named();
        let title = format!("{}: resident memory of {name} over time", of.spec.id);
        figure(&scale, &title, &name, &figures.unwrap_or_default(), &curves)
    };
    of.rows.iter().filter(|row| !row.runs.is_empty()).map(panel).collect()
}

/// The workload with a single thread, to which the tables of scaling compare others. At a share of
/// 1 the threads do not slow each other down. At one half, two threads achieve as much as one.
const ALONE: &str = "S9/larson/1";
/// The numbers of threads of the workloads that differ from [`ALONE`] only in that number.
const THREADS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// Returns the name of the workload with this number of threads.
fn together(threads: usize) -> String {
    format!("S9/larson/{threads}")
}

/// The costs of one thread's operation over one contender, in nanoseconds: while the thread runs
/// alone, and while other threads do the same.
#[derive(Clone, Copy, Debug)]
struct Paces {
    name: &'static str,
    alone: f64,
    together: f64,
}

const COLUMNS: [Column<Paces>; 4] = [
    ("allocator", |row| row.name.to_owned()),
    ("ns/op alone", |row| ns(row.alone)),
    ("ns/op together", |row| ns(row.together)),
    ("alone/together", |row| format!("{:.2}", row.share())),
];

impl Paces {
    /// Returns the cost on one thread alone divided by the cost while other threads do the same.
    fn share(&self) -> f64 {
        self.alone / self.together
    }

    fn line(&self) -> ForestLine<'static> {
        let share = self.share();
        let ratio = Estimate { mid: share, low95: share, high95: share, low99: share, high99: share };
        ForestLine { name: self.name, ratio, verdict: None }
    }
}

/// Returns the scaling, as a picture and a table, for each of [`THREADS`] for which the run has
/// both workloads.
fn scaling(report: &BenchReport) -> Vec<Value> {
    let find = |id: &str| report.tables.iter().find(|table| table.spec.id == id);
    THREADS.into_iter().filter_map(|count| scaled(find(ALONE)?, find(&together(count))?, count)).collect()
}

/// Returns the scaling from one thread to `threads` threads, or `None` if no contender ran both
/// workloads.
fn scaled(alone: &ReportTable, together: &ReportTable, threads: usize) -> Option<Value> {
    let paces =
        together.rows.iter().enumerate().filter(|(index, _)| *index != VOID).filter_map(|(_, row)| {
            Some(Paces { name: row.name, alone: alone.row(row.key)?.ns?, together: row.ns? })
        });
    let rows: Vec<Paces> = paces.collect();
    let plot = Forest(rows.iter().map(Paces::line).collect());
    let title = format!("{}: time of one thread alone divided by its time among {threads}", together.spec.id);
    (!rows.is_empty()).then(|| {
        json!({
            "threads": threads,
            "title": together.spec.title,
            "picture": plot.inline(&title),
            "grid": columns(&COLUMNS, &rows),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::catalogue;

    #[test]
    fn axis_labels_have_significant_digits() {
        assert_eq!([count(10.0), count(25_000.0), count(1.5e6)], ["10", "25k", "1.5M"]);
        assert_eq!([trimmed(10.0), trimmed(0.1), trimmed(0.0125)], ["10", "0.1", "0.0125"]);
    }

    #[test]
    fn scaling_workloads_are_in_the_catalogue() {
        for id in THREADS.map(together).into_iter().chain([ALONE.to_owned()]) {
            assert!(catalogue().iter().any(|spec| spec.id == id), "{id}");
        }
    }

    #[test]
    fn two_threads_that_take_twice_as_long_scale_by_half() {
        let share = Paces { name: "", alone: 10.0, together: 20.0 }.share();
        assert!((share - 0.5).abs() < 1e-12);
    }
}
