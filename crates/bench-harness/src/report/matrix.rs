//! The matrix of a class: workloads down, contenders across, ratios to the reference, and a geometric mean with its caution.

use super::model::Report;
use crate::card::Class;
use crate::contenders::{REFERENCE, TWIN, VOID};

/// Rows of cells, the first being the head; none where no workload of the class was run.
#[must_use]
pub(super) fn matrix(report: &Report, class: Class) -> Vec<Vec<String>> {
    let tables: Vec<_> = report.tables.iter().filter(|table| table.class == class).collect();
    let Some(first) = tables.first() else { return Vec::new() };
    let shown: Vec<usize> =
        (0..first.rows.len()).filter(|index| ![VOID, REFERENCE, TWIN].contains(index)).collect();
    let mut rows = vec![vec!["workload".to_owned()]];
    rows[0].extend(shown.iter().map(|&index| first.rows[index].name.to_owned()));
    for table in &tables {
        let ratio = |&index: &usize| {
            table.rows[index].ratio.map_or("–".to_owned(), |ratio| format!("{:.3}", ratio.mid))
        };
        rows.push(core::iter::once(table.id.clone()).chain(shown.iter().map(ratio)).collect());
    }
    // Only workloads that every contender ran, so that the means are of the same things.
    let complete: Vec<_> =
        tables.iter().filter(|table| shown.iter().all(|&index| table.rows[index].ratio.is_some())).collect();
    if complete.len() > 1 {
        let mean = |&index: &usize| {
            let logs =
                complete.iter().filter_map(|table| table.rows[index].ratio).map(|ratio| ratio.mid.ln());
            format!("{:.3}", (logs.sum::<f64>() / complete.len() as f64).exp())
        };
        let name = format!("geometric mean of the {} that all ran", complete.len());
        rows.push(core::iter::once(name).chain(shown.iter().map(mean)).collect());
    }
    rows
}
