//! `--baseline`: compares this run with the `summary.json` of an earlier run, row by row.
//!
//! Within a run, a ratio is taken between two samples of the same round, which are taken shortly
//! after each other. Samples of two runs do not form pairs, so the change of a ratio is the
//! quotient of two medians. Its interval combines the intervals of the two ratios, as for
//! independent estimates. The change also reflects every other difference between the runs.

use std::fs;
use std::path::Path;

use ephemera_measure::grid::{Column, columns};
use ephemera_measure::page::render;
use ephemera_measure::summary::{FORMAT, SummaryRow, SummaryTable};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::model::{BenchReport, ReportRow, ReportTable};
use crate::contenders::ALWAYS;
use crate::host::Host;
use crate::stats::{self, Estimate, Verdict, verdict};

/// The text that explains the columns.
const LEGEND: &str = "then, now: the ratio to the reference in each run. change: now divided by then, below 1 is faster than before. \
Samples of two runs are not paired, so a change also contains the changes of the build, the load and the reference. A \
change counts as faster or slower if its 99 % interval excludes 1, and if it exceeds 1 % and three times the reference's \
difference from itself.";

/// The part of an earlier run's `summary.json` that the comparison uses.
#[derive(Clone, Debug, Deserialize)]
pub struct Baseline {
    mode: String,
    seed: u64,
    processes: u32,
    rounds: u32,
    #[serde(default)]
    document: String,
    host: Host,
    workloads: Vec<SummaryTable>,
}

/// A contender that both runs measured.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The workload.
    pub workload: String,
    /// The contender's key.
    pub key: &'static str,
    /// The name of the contender.
    #[serde(skip)]
    pub name: &'static str,
    /// The earlier ratio. The file contains only the 95 % interval, from which
    /// [`Baseline::compare`] derives the 99 % interval.
    #[serde(serialize_with = "shown")]
    pub then: Estimate,
    /// The present ratio.
    #[serde(serialize_with = "shown")]
    pub now: Estimate,
    /// The quotient of the two ratios.
    #[serde(serialize_with = "shown")]
    pub change: Estimate,
    /// The verdict on the quotient.
    pub verdict: Verdict,
    /// Whether at least one of the two tables is untrusted: the reference differed from itself, or
    /// its ratio to itself is uncertain.
    pub untrusted: bool,
}

const COLUMNS: [Column<Change>; 7] = [
    ("workload", |change| change.workload.clone()),
    ("allocator", |change| change.name.to_owned()),
    ("then (95 %)", |change| change.then.to_string()),
    ("now (95 %)", |change| change.now.to_string()),
    ("change (95 %)", |change| change.change.to_string()),
    ("verdict", |change| change.verdict.word().to_owned()),
    ("", |change| if change.untrusted { UNTRUSTED } else { "" }.to_owned()),
];

const UNTRUSTED: &str = "untrusted: the reference differed from itself, or its ratio to itself is uncertain";

/// Writes an estimate as an object of `summary.json`.
fn shown<S: Serializer>(e: &Estimate, to: S) -> Result<S::Ok, S::Error> {
    json!({"ratio": e.mid, "interval": [e.low95, e.high95]}).serialize(to)
}

/// The comparison of a run with an earlier one. Its JSON is a part of `summary.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The commit of the earlier run.
    pub commit: String,
    /// The differences between the runs, apart from their code, one line of text each.
    pub differs: Vec<String>,
    /// The contenders that both runs measured.
    #[serde(rename = "rows")]
    pub changes: Vec<Change>,
    /// The workloads and contenders that only one of the runs measured, one line of text each.
    pub missing: Vec<String>,
}

impl Baseline {
    /// Reads a `summary.json`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not a summary, or has a format that this
    /// harness does not write.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("the baseline {} cannot be read: {error}", path.display()))?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, String> {
        let no_summary = |error| format!("{} is not the summary.json of a run: {error}", path.display());
        let file: Value = serde_json::from_str(text).map_err(no_summary)?;
        let format = file["format"].as_u64();
        if format != Some(FORMAT) {
            return Err(format!(
                "the baseline {} has format {}, this harness reads {FORMAT}: run that commit's workloads with this \
                 harness",
                path.display(),
                format.map_or("none".to_owned(), |found| found.to_string())
            ));
        }
        serde_json::from_value(file).map_err(no_summary)
    }

    /// Compares a later run with this baseline.
    pub fn compare(&self, report: &BenchReport) -> Comparison {
        let mut comparison = Comparison {
            commit: self.host.commit.clone(),
            differs: self.differs(report),
            changes: Vec::new(),
            missing: Vec::new(),
        };
        // The file has intervals only at 95 %. This factor widens them to 99 %.
        let wider = stats::wider(self.processes.min(report.trials.0) as usize);
        for table in &report.tables {
            match self.workloads.iter().find(|old| old.id == table.spec.id) {
                Some(old) => comparison.add(old, table, wider),
                None => comparison.missing.push(format!("{}: not in the baseline", table.spec.id)),
            }
        }
        let gone =
            self.workloads.iter().filter(|old| report.tables.iter().all(|table| table.spec.id != old.id));
        comparison.missing.extend(gone.map(|old| format!("{}: only in the baseline", old.id)));
        comparison
    }

    /// Returns the differences between the runs, apart from their code.
    fn differs(&self, report: &BenchReport) -> Vec<String> {
        let (then, now) = (&self.host, &report.host);
        let trials = |processes: u32, rounds: u32| format!("{processes} processes of {rounds} rounds");
        let pairs = [
            ("mode", self.mode.clone(), report.mode.clone()),
            ("trials", trials(self.processes, self.rounds), trials(report.trials.0, report.trials.1)),
            ("seed", self.seed.to_string(), report.seed.to_string()),
            ("cpu", then.cpu.clone(), now.cpu.clone()),
            ("cpus", then.cpus.to_string(), now.cpus.to_string()),
            ("kernel", then.kernel.clone(), now.kernel.clone()),
            ("libc", then.libc.clone(), now.libc.clone()),
            ("huge pages", then.huge_pages.clone(), now.huge_pages.clone()),
            ("rustc", then.rustc.clone(), now.rustc.clone()),
            ("build", then.profile.clone(), now.profile.clone()),
            ("document", self.document.clone(), report.document.clone()),
        ];
        let versions = then.contenders.iter().filter_map(|(name, version)| {
            let (_, other) = now.contenders.iter().find(|(other, _)| other == name)?;
            Some((name.as_str(), version.clone(), other.clone()))
        });
        let other = pairs.into_iter().chain(versions).filter(|(_, then, now)| then != now);
        other.map(|(what, then, now)| format!("{what}: {then} then, {now} now")).collect()
    }
}

/// Returns the ratio of a row with its intervals. Returns `None` if the row has no ratio, or if its
/// numbers do not form a valid ratio.
fn ratio(row: &SummaryRow, wider: f64) -> Option<Estimate> {
    let (mid, (low, high)) = row.ratio.zip(row.interval)?;
    let sound = 0.0 < low && low <= mid && mid <= high && high.is_finite();
    sound.then(|| spread(mid, mid / low, high / mid, wider))
}

/// Returns an estimate from its middle and the factors to the two ends of its 95 % interval. In
/// logarithms, the 99 % interval is `wider` times as wide as the 95 % interval.
fn spread(mid: f64, down: f64, up: f64, wider: f64) -> Estimate {
    Estimate {
        mid,
        low95: mid / down,
        high95: mid * up,
        low99: mid / down.powf(wider),
        high99: mid * up.powf(wider),
    }
}

/// Divides one independent estimate by another. In logarithms, a quotient is a difference, and the
/// distance from its middle to an end is the root of the sum of the two squared distances.
fn quotient(now: &Estimate, then: &Estimate, wider: f64) -> Estimate {
    let root = |one: f64, other: f64| one.ln().hypot(other.ln()).exp();
    let down = root(now.mid / now.low95, then.high95 / then.mid);
    let up = root(now.high95 / now.mid, then.mid / then.low95);
    spread(now.mid / then.mid, down, up, wider)
}

impl Comparison {
    /// Adds the changes of the rows that both runs measured, and names the rows that only one of
    /// them measured. Leaves out the contenders of [`ALWAYS`].
    fn add(&mut self, old: &SummaryTable, table: &ReportTable, wider: f64) {
        let from_one = |ratio: Option<f64>| ratio.map_or(0.0, |ratio| (ratio - 1.0).abs());
        let floor = from_one(old.aa).max(from_one(table.aa.map(|aa| aa.mid)));
        let compared = |key: &str| !ALWAYS.contains(&key);
        for row in table.rows.iter().filter(|row| compared(row.key)) {
            let was = old.row(row.key);
            match (was.and_then(|was| ratio(was, wider)), row.ratio) {
                (Some(then), Some(now)) => {
                    let change = quotient(&now, &then, wider);
                    self.changes.push(Change {
                        workload: table.spec.id.clone(),
                        key: row.key,
                        name: row.name,
                        then,
                        now,
                        change,
                        verdict: verdict(&change, floor),
                        untrusted: !(old.trusted && table.trusted),
                    });
                }
                (Some(_), None) => self.miss(table, row.key, &format!("measured then; now {}", now(row))),
                (None, Some(_)) => {
                    let then = was.map_or("not in the run".to_owned(), then);
                    self.miss(table, row.key, &format!("measured now; then {then}"));
                }
                (None, None) => {}
            }
        }
        let gone =
            |row: &&SummaryRow| compared(&row.key) && row.ratio.is_some() && table.row(&row.key).is_none();
        for row in old.rows.iter().filter(gone) {
            self.miss(table, &row.key, "measured then; now not in the run");
        }
    }

    fn miss(&mut self, table: &ReportTable, key: &str, what: &str) {
        self.missing.push(format!("{} {key}: {what}", table.spec.id));
    }

    /// Returns the values of the comparison for the templates.
    pub(super) fn shown(&self) -> Value {
        let count = |word| self.changes.iter().filter(|change| change.verdict == word).count();
        let (rows, faster, slower) = (self.changes.len(), count(Verdict::Faster), count(Verdict::Slower));
        json!({
            "title": format!("Against commit {}: {rows} rows, {faster} faster, {slower} slower", self.commit),
            "differs": self.differs,
            "grid": columns(&COLUMNS, &self.changes),
            "missing": self.missing,
            "legend": LEGEND,
        })
    }

    /// Returns the comparison for a terminal.
    pub fn terminal(&self) -> String {
        render("changes.txt", include_str!("changes.txt"), &self.shown())
    }
}

/// Returns the reason why the earlier run has no ratio for a row.
fn then(row: &SummaryRow) -> String {
    row.reason.as_ref().map_or(row.state.clone(), |reason| format!("{}: {reason}", row.state))
}

/// Returns the reason why this run has no ratio for a row.
fn now(row: &ReportRow) -> String {
    let (state, why) = row.state.told();
    why.map_or("without a ratio".to_owned(), |why| format!("{state}: {why}"))
}

#[cfg(test)]
mod tests;
