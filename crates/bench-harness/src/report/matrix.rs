//! The matrix of a class: ratios to the reference, with workloads in rows and contenders in
//! columns, and a last row of geometric means.

use super::model::{BenchReport, ReportRow, ReportTable};
use crate::card::ContenderClass;
use crate::contenders::{REFERENCE, TWIN, VOID};

/// The ratios of a class.
#[derive(Clone, Debug)]
pub(super) struct Matrix<'a> {
    /// The names of the contenders.
    pub(super) heads: Vec<&'a str>,
    /// One row for each workload, with one cell for each contender.
    pub(super) rows: Vec<(&'a ReportTable, Vec<&'a ReportRow>)>,
    /// The number of workloads that all contenders ran, and each contender's geometric mean over
    /// these workloads. `None` if there are fewer than two such workloads.
    pub(super) means: Option<(usize, Vec<f64>)>,
}

impl<'a> Matrix<'a> {
    /// Returns the matrix of each class with at least two workloads in the run.
    pub(super) fn all(report: &'a BenchReport) -> Vec<(ContenderClass, Self)> {
        let matrix = |class| Some((class, Self::new(report, class)?));
        ContenderClass::ALL.into_iter().filter_map(matrix).collect()
    }

    /// Returns the matrix of a class, or `None` if fewer than two of its workloads were run.
    fn new(report: &'a BenchReport, class: ContenderClass) -> Option<Self> {
        let tables: Vec<_> = report.tables.iter().filter(|table| table.spec.class == class).collect();
        let first = tables.first().filter(|_| tables.len() > 1)?;
        let shown: Vec<usize> =
            (0..first.rows.len()).filter(|index| ![VOID, REFERENCE, TWIN].contains(index)).collect();
        let heads = shown.iter().map(|&index| first.rows[index].name).collect();
        let cells = |table: &&'a ReportTable| shown.iter().map(|&index| &table.rows[index]).collect();
        let rows: Vec<(&ReportTable, Vec<&ReportRow>)> =
            tables.iter().map(|table| (*table, cells(table))).collect();
        // The means cover only workloads that every contender ran, so that the means of different
        // contenders are comparable.
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

    /// Returns the name of the row of means over `count` workloads.
    pub(super) fn mean_name(count: usize) -> String {
        format!("geometric mean of the {count} that all ran")
    }

    /// Returns rows of cells as text, with the head first.
    pub(super) fn grid(&self) -> Vec<Vec<String>> {
        let row = |name: String, cells: Vec<String>| core::iter::once(name).chain(cells).collect();
        let ratio =
            |row: &&ReportRow| row.ratio.map_or("–".to_owned(), |ratio| format!("{:.3}", ratio.mid));
        let head = row("workload".to_owned(), self.heads.iter().map(|&head| head.to_owned()).collect());
        let rows = self
            .rows
            .iter()
            .map(|(table, cells)| row(table.spec.id.clone(), cells.iter().map(ratio).collect()));
        let means = self.means.iter().map(|(count, means)| {
            row(Self::mean_name(*count), means.iter().map(|mean| format!("{mean:.3}")).collect())
        });
        core::iter::once(head).chain(rows).chain(means).collect()
    }
}
