//! The tables of the harness's `summary.json`, with the fields that other tools read.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// The version of `summary.json`. It increases when a field that a reader needs changes its meaning
/// or is removed.
pub const FORMAT: u64 = 1;

/// The table of a workload.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct SummaryTable {
    /// The name of the workload.
    pub id: String,
    /// The kind of memory that the workload's contenders hand out.
    pub class: String,
    /// The description of the workload in one line.
    pub title: String,
    /// The name of one operation.
    pub op: String,
    /// The ratio of the reference to itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aa: Option<f64>,
    /// The 95 % interval of `aa`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aa_interval: Option<(f64, f64)>,
    /// Whether the table is trusted. It is not if the reference differed from itself, or if its
    /// ratio to itself is uncertain.
    pub trusted: bool,
    /// The contenders, in the order of the registry.
    pub rows: Vec<SummaryRow>,
}

/// A contender in a table.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct SummaryRow {
    /// The contender's key.
    pub key: String,
    /// The contender's name.
    pub allocator: String,
    /// The contender's version.
    #[serde(default)]
    pub version: String,
    /// The outcome of the contender: `ran`, `missing`, `crashed` or `wrong`.
    pub state: String,
    /// The reason why the contender has no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The ratio of the contender's cost to the reference's cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The verdict on the ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The median cost of an operation, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_op: Option<f64>,
    /// The largest number of bytes that the contender held at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// The largest number of bytes that the workload held at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_live_bytes: Option<u64>,
    /// The source of `peak_bytes`: `backing allocator` or `resident set`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_counted_by: Option<String>,
    /// The share of requests that the contender refused and that the global heap served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<f64>,
}

impl SummaryTable {
    /// Returns the row of a contender, if the table has one.
    #[must_use]
    pub fn row(&self, key: &str) -> Option<&SummaryRow> {
        self.rows.iter().find(|row| row.key == key)
    }

    /// Returns the ratio of a contender, if it has one.
    #[must_use]
    pub fn ratio(&self, key: &str) -> Option<f64> {
        self.row(key).and_then(|row| row.ratio)
    }

    /// Returns the title without its details, such as the origin of a document. The details begin
    /// at the first semicolon, or at the first colon from byte 40 on, whichever comes first.
    #[must_use]
    pub fn short_title(&self) -> &str {
        const SHORT: usize = 40;
        let title = self.title.split(';').next().unwrap_or(&self.title);
        let mut colons = title.match_indices(':').map(|(at, _)| at);
        let end = colons.find(|at| *at >= SHORT).unwrap_or(title.len());
        &title[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_title_ends_before_its_details() {
        let short = |title: &str| {
            let table = SummaryTable { title: title.to_owned(), ..SummaryTable::default() };
            table.short_title().to_owned()
        };
        assert_eq!(
            short("a JSON document parsed, walked and dropped: arm.json"),
            "a JSON document parsed, walked and dropped"
        );
        assert_eq!(
            short("a frame: of 10000 objects of 64 bytes, all looked at: more"),
            "a frame: of 10000 objects of 64 bytes, all looked at"
        );
        assert_eq!(short("two threads; ns of one"), "two threads");
    }
}
