//! Writes a picture for each family of workloads with rounds. A picture has a forest plot for each
//! workload. The names in a family are the same up to the first slash.

use core::error::Error;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ephemera_measure::picture::{self, Forest, ForestLine, INK, text};
use plotters::prelude::*;

use super::model::{BenchReport, ReportRow, ReportTable};

use crate::contenders::{REFERENCE, VOID};

const WIDTH: u32 = 900;
/// The height of a plot's title, in pixels.
const HEAD: i32 = 28;
const GAP: i32 = 16;

/// Returns the plot of a table: all contenders with a ratio, except the allocator that does nothing
/// and the reference.
pub(super) fn forest(table: &ReportTable) -> Forest<'_> {
    let rows = table.rows.iter().enumerate().filter(|(index, _)| ![VOID, REFERENCE].contains(index));
    let line = |(_, row): (usize, &'_ ReportRow)| Some((row.name, row.ratio?, row.verdict));
    Forest(rows.filter_map(line).map(|(name, ratio, verdict)| ForestLine { name, ratio, verdict }).collect())
}

/// Writes a picture for each family to `directory`.
///
/// # Errors
///
/// Returns an error if drawing or writing fails.
pub fn write_pictures(report: &BenchReport, directory: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(directory)?;
    let mut families: BTreeMap<&str, Vec<&ReportTable>> = BTreeMap::new();
    for table in &report.tables {
        families.entry(table.spec.id.split('/').next().unwrap_or_default()).or_default().push(table);
    }
    for (name, tables) in families {
        let plots: Vec<Forest<'_>> = tables.iter().map(|table| forest(table)).collect();
        let height: i32 = plots.iter().map(|plot| HEAD + plot.height() + GAP).sum();
        // All plots of a picture share one scale.
        let ranges = || plots.iter().map(Forest::range);
        let range = (
            ranges().map(|range| range.0).min().unwrap_or(-1),
            ranges().map(|range| range.1).max().unwrap_or(1),
        );
        let path = directory.join(format!("{name}.svg"));
        picture::file(&path, (WIDTH, (height + 10).unsigned_abs()), |area| {
            let mut top = 10;
            for (table, plot) in tables.iter().zip(&plots) {
                let mark = if table.trusted { "" } else { " (UNTRUSTED)" };
                let title = format!("{}: {}{mark}", table.spec.id, table.spec.title);
                area.draw(&Text::new(title, (10, top), text(14, INK)))?;
                plot.draw(area, top + HEAD, WIDTH as i32, range, true)?;
                top += HEAD + plot.height() + GAP;
            }
            Ok(())
        })?;
    }
    Ok(())
}
