//! `report.html`: the whole report in one file without external resources, for screens of any
//! width, in light and dark, and for paper. `report.html` in this directory has the markup.
#![forbid(unsafe_code)]

mod panels;

use ephemera_measure::page::{page, render};
use serde_json::{Map, Value};

use super::baseline::Comparison;
use super::model::{BenchReport, ReportTable};
use super::scaling::scaling;
use super::svg::forest;
use super::text::values;

/// Returns the report as a page. With a `comparison`, the page also shows the changes since an
/// earlier run.
pub fn html(report: &BenchReport, comparison: Option<&Comparison>) -> String {
    let pictures = report.tables.iter().filter_map(picture);
    let resident = report.alone.iter().map(|of| (of.spec.id.clone(), panels::resident(of).into()));
    let mut values = values(report, comparison);
    values["memory"] = panels::memory(report).into();
    values["tails"] = panels::tails(report).into();
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
