//! The section of the workloads that run each contender in its own process: a table for each
//! workload, and a panel of resident memory over time for each contender.
#![forbid(unsafe_code)]

use core::fmt::Write as _;

use ephemera_measure::page::{escaped, table};
use ephemera_measure::picture::{Curve, Panel, SMALL, Scales};

use super::Section;
use super::curves::{panel, section};
use crate::report::alone::legend;
use crate::report::cells::bytes;
use crate::report::model::{BenchReport, ReportRow, ReportTable};
use crate::report::text::grid;
use crate::runner::AloneRun;
use crate::workloads::{AfterBurst, ResidentAt};

/// Returns the section, or `None` if no workload of this kind was run.
pub(super) fn alone(report: &BenchReport) -> Option<Section> {
    let about = (
        "alone",
        "Resident memory",
        "Each contender in a process of its own. After a burst, the blue curve is that of a process in which one thread does a \
         little work, and the grey one that of a process in which all threads sleep; the blue one hides it where they agree. While a heap ages, the grey area is the live \
         bytes. All panels of a workload have the same scales.",
    );
    section(about, report.alone.iter().collect(), |out, of: &ReportTable| {
        let _ = write!(
            out,
            "<h3>{}</h3>\n<p>{}. {}.</p>\n<div class=\"noted\">{}</div>\n<div class=\"panels\">\n",
            escaped(&of.spec.id),
            escaped(&of.spec.title),
            escaped(&legend(of)),
            table(&of.spec.id, &grid(of))
        );
        let scale = if of.spec.is_burst() { after_burst(of) } else { ageing(of) };
        for row in of.rows.iter().filter(|row| !row.runs.is_empty()) {
            picture(out, of, row, &scale);
        }
        out.push_str("</div>\n");
    })
}

/// Returns the largest value of `get` over the readings of all rows, or 2 MiB if that is larger.
fn most(of: &ReportTable, get: fn(&ResidentAt) -> u64) -> f64 {
    let runs = of.rows.iter().flat_map(|row| &row.runs);
    runs.flat_map(|run| &run.held).map(get).max().unwrap_or(0).max(1 << 21) as f64
}

/// Returns the position of a moment on the logarithmic axis of the time after a burst.
fn place(seconds: f64) -> f64 {
    seconds.log10()
}

/// Returns the scales of a burst: seconds on a logarithmic scale, and MiB on a linear one.
fn after_burst(of: &ReportTable) -> Panel {
    let runs = of.rows.iter().flat_map(|row| &row.runs);
    let last = runs.flat_map(|run| &run.held).map(|held| held.at).fold(1.0, f64::max);
    let peak = of.rows.iter().flat_map(|row| &row.runs).map(|run| run.peak).max().unwrap_or(0);
    Panel {
        size: SMALL,
        x: place(0.01)..place(last),
        y: 0.0..(peak as f64 / f64::from(1 << 20)).max(10.0),
        scales: Scales::Even,
        x_label: |place| format!("{} s", (100.0 * 10_f64.powf(place)).round() / 100.0),
        y_label: |value| format!("{value:.0} MiB"),
        filled: false,
    }
}

/// Returns the scales of an ageing heap: the share of the requests on a linear scale, and bytes on
/// a scale of powers of two.
fn ageing(of: &ReportTable) -> Panel {
    let least = of.rows.iter().flat_map(|row| &row.runs).flat_map(|run| &run.held).map(|held| held.live);
    let least = (least.min().unwrap_or(1).max(2) as f64 / 2.0).log2().floor().exp2();
    Panel {
        size: SMALL,
        x: 0.0..1.0,
        y: least..most(of, |held| held.taken.max(held.live)).log2().ceil().exp2(),
        scales: Scales::PowersUp,
        x_label: |value| format!("{:.0} %", value * 100.0),
        y_label: |value| bytes(value as u64),
        filled: true,
    }
}

fn picture(out: &mut String, of: &ReportTable, row: &ReportRow, scale: &Panel) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (curve, beside, figures): (Curve, Curve, String) = if of.spec.is_burst() {
        let points = |after: AfterBurst| -> Curve {
            let held = row.run(Some(after)).map(|run| run.held.as_slice()).unwrap_or_default();
            // A logarithmic scale cannot show moment 0. The table has the reading at that moment.
            let shown = held.iter().filter(|held| held.at > 0.0);
            shown.map(|held| (place(held.at), mib(held.taken))).collect()
        };
        let figures = row.returned().unwrap_or_default();
        (points(AfterBurst::Working), points(AfterBurst::Asleep), figures)
    } else {
        let points = |get: fn(&ResidentAt) -> u64| -> Curve {
            let held = row.run(None).map(|run| run.held.as_slice()).unwrap_or_default();
            held.iter().map(|held| (held.at, (get(held) as f64).max(scale.y.start))).collect()
        };
        let peak = |run: &AloneRun| format!("{} at most", bytes(run.peak));
        (points(|held| held.taken), points(|held| held.live), row.run(None).map(peak).unwrap_or_default())
    };
    let name = row.named();
    let title = format!("{}: resident memory of {name} over time", of.spec.id);
    panel(out, &name, &figures, &scale.inline(&title, &figures, &curve, &beside));
}
