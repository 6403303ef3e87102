//! The matrix of a class: workloads down, contenders across, ratios to the reference, and a geometric mean with its caution.

use super::model::{BenchReport, ReportRow, ReportTable};
use crate::card::ContenderClass;
use crate::contenders::{REFERENCE, TWIN, VOID};

/// Ratios of a class.
#[derive(Clone, Debug)]
pub(super) struct Matrix<'a> {
    /// Names of the contenders.
    pub(super) heads: Vec<&'a str>,
    /// A row for each workload, in it a cell for each contender.
    pub(super) rows: Vec<(&'a ReportTable, Vec<&'a ReportRow>)>,
    /// Geometric means over the workloads that all contenders ran, and how many these are; none of fewer than two.
    pub(super) means: Option<(usize, Vec<f64>)>,
}

impl<'a> Matrix<'a> {
    /// The matrix of a class; none where fewer than two workloads of it were run.
    pub(super) fn new(report: &'a BenchReport, class: ContenderClass) -> Option<Self> {
        let tables: Vec<_> = report.tables.iter().filter(|table| table.class == class).collect();
        let first = tables.first().filter(|_| tables.len() > 1)?;
        let shown: Vec<usize> =
            (0..first.rows.len()).filter(|index| ![VOID, REFERENCE, TWIN].contains(index)).collect();
        let heads = shown.iter().map(|&index| first.rows[index].name).collect();
        let cells = |table: &&'a ReportTable| shown.iter().map(|&index| &table.rows[index]).collect();
        let rows: Vec<(&ReportTable, Vec<&ReportRow>)> =
            tables.iter().map(|table| (*table, cells(table))).collect();
        // Only workloads that every contender ran, so that the means are of the same things.
        let complete: Vec<&Vec<&ReportRow>> = rows
            .iter()
            .map(|(_, cells)| cells)
            .filter(|cells| cells.iter().all(|row| row.ratio.is_some()))
            .collect();
        let mean = |column: usize| {
            let logs = complete.iter().filter_map(|cells| cells[column].ratio).map(|ratio| ratio.mid.ln());
            (logs.sum::<f64>() / complete.len() as f64).exp()
        };
        let means = (complete.len() > 1).then(|| (complete.len(), (0..shown.len()).map(mean).collect()));
        Some(Self { heads, rows, means })
    }

    /// What the row of means is called.
    pub(super) fn mean_name(count: usize) -> String {
        format!("geometric mean of the {count} that all ran")
    }

    /// As text: rows of cells, the first being the head.
    pub(super) fn grid(&self) -> Vec<Vec<String>> {
        let row = |name: String, cells: Vec<String>| core::iter::once(name).chain(cells).collect();
        let ratio =
            |row: &&ReportRow| row.ratio.map_or("–".to_owned(), |ratio| format!("{:.3}", ratio.mid));
        let mut grid =
            vec![row("workload".to_owned(), self.heads.iter().map(|&head| head.to_owned()).collect())];
        for (table, cells) in &self.rows {
            grid.push(row(table.id.clone(), cells.iter().map(ratio).collect()));
        }
        if let Some((count, means)) = &self.means {
            let means = means.iter().map(|mean| format!("{mean:.3}")).collect();
            grid.push(row(Self::mean_name(*count), means));
        }
        grid
    }
}
