//! The matrix of a class: ratios to the reference, with workloads in rows and contenders in
//! columns, and a last row of geometric means.

use serde_json::{Value, json};

use super::cells::dash;
use super::model::{BenchReport, ReportRow, ReportTable};
use crate::card::ContenderClass;
use crate::contenders::TWIN;

/// Returns the matrix of each class with at least two workloads in the run.
pub(super) fn matrices(report: &BenchReport) -> Vec<Value> {
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
