//! The recorded measurement: the part of the harness's `summary.json` that the tables need, small
//! enough to commit.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use ephemera_measure::summary::{FORMAT, SummaryTable};
use serde::{Deserialize, Serialize};

/// The record's path from the root.
pub(super) const RECORD: &str = "docs/benchmarks/recorded.json";

/// The beginning of a report's description of its build, if cargo's profile was `bench`.
const MEASURED_BUILD: &str = "release,";

/// The table of a workload without rounds.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct RecordedGrid {
    pub(super) id: String,
    pub(super) title: String,
    /// The meaning of the figures.
    pub(super) legend: String,
    /// The rows of the table, as cells. The first row is the head.
    pub(super) grid: Vec<Vec<String>>,
}

/// The summary of a run of the harness.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct RecordedBench {
    format: u64,
    /// The mode of the run: `quick` or `full`.
    pub(super) mode: String,
    pub(super) seed: u64,
    pub(super) processes: u32,
    pub(super) rounds: u32,
    /// The origin of R1's document.
    pub(super) document: String,
    /// The workloads that a quick run leaves out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left_to_full: Vec<String>,
    pub(super) host: RecordedHost,
    pub(super) workloads: Vec<SummaryTable>,
    /// The workloads that run each contender in a separate process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) alone: Vec<RecordedGrid>,
}

/// The machine and the build of a run.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct RecordedHost {
    pub(super) commit: String,
    pub(super) cpu: String,
    pub(super) cpus: u32,
    pub(super) kernel: String,
    pub(super) libc: String,
    pub(super) huge_pages: String,
    pub(super) rustc: String,
    pub(super) profile: String,
}

impl RecordedBench {
    /// Reads a summary or a record.
    ///
    /// # Errors
    /// Returns an error if the file is missing or has another format.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let file: serde_json::Value = serde_json::from_str(text).context("the file is not JSON")?;
        let format = file["format"].as_u64();
        if format != Some(FORMAT) {
            let found = format.map_or("none".to_owned(), |found| found.to_string());
            bail!(
                "the summary has format {found}, this tool reads {FORMAT}: `cargo xtask bench` writes a new one"
            );
        }
        serde_json::from_value(file).context("the file is not a summary")
    }

    /// Returns the run, or an error if its build is not the build with fat LTO.
    pub(super) fn of_the_measured_build(self) -> Result<Self> {
        let build = &self.host.profile;
        if !build.starts_with(MEASURED_BUILD) {
            bail!(
                "the build `{build}` made this run, and the record needs fat LTO: run `cargo xtask bench` without --thin"
            );
        }
        Ok(self)
    }

    /// Rounds all ratios, times and shares to four significant digits. Further digits are noise,
    /// and would change every line with each recording.
    pub(super) fn rounded(mut self) -> Self {
        for workload in &mut self.workloads {
            round(&mut workload.aa);
            round_both(&mut workload.aa_interval);
            for row in &mut workload.rows {
                [&mut row.ratio, &mut row.ns_per_op, &mut row.refused].into_iter().for_each(round);
                round_both(&mut row.interval);
            }
        }
        self
    }

    /// Returns the record as JSON, with a line for each contender.
    pub(super) fn text(&self) -> Result<String> {
        // These patterns do not occur within strings, where the quotes would be escaped.
        let text = serde_json::to_string(self)?;
        let text = text.replace("{\"id\":", "\n{\"id\":").replace("{\"key\":", "\n  {\"key\":");
        Ok(text.replace("],[\"", "],\n  [\"") + "\n")
    }

    pub(super) fn of(&self, class: &str) -> impl Iterator<Item = &SummaryTable> {
        self.workloads.iter().filter(move |workload| workload.class == class)
    }

    /// Returns the commit and the machine in one sentence, for the line below a table's heading.
    pub(super) fn told(&self) -> String {
        let RecordedHost { commit, cpu, cpus, kernel, libc, rustc, .. } = &self.host;
        format!("Commit {commit}, {} run; {cpu}, {cpus} CPUs, {kernel}, {libc}, {rustc}.", self.mode)
    }
}

fn four_digits(figure: f64) -> f64 {
    // Printing and parsing the figure rounds it to four significant digits.
    format!("{figure:.3e}").parse().unwrap_or(figure)
}

fn round(figure: &mut Option<f64>) {
    *figure = figure.map(four_digits);
}

fn round_both(interval: &mut Option<(f64, f64)>) {
    *interval = interval.map(|(low, high)| (four_digits(low), four_digits(high)));
}

#[cfg(test)]
mod tests {
    use super::{RecordedBench, four_digits};

    #[test]
    fn figures_are_rounded_to_four_digits() {
        assert_eq!([0.123_456, 1.0, 98_765.4, 0.0].map(four_digits), [0.1235, 1.0, 98_770.0, 0.0]);
    }

    #[test]
    fn other_formats_are_refused() {
        let refused = |text| format!("{:#}", RecordedBench::parse(text).unwrap_err());
        assert!(refused("{}").contains("format none"), "{}", refused("{}"));
        assert!(refused(r#"{"format": 7}"#).contains("format 7, this tool reads 1"));
        assert!(refused(r#"{"format": 1}"#).contains("not a summary"));
    }

    const RUN: &str = r#"{"format":1,"mode":"quick","seed":1,"processes":3,"rounds":15,"document":"a \"{\\\"key\\\":\"",
        "host":{"commit":"c","cpu":"c","cpus":2,"kernel":"k","libc":"l","huge_pages":"h","rustc":"r",
        "profile":"release, opt-level 3"},
        "workloads":[{"id":"S1","class":"blocks","title":"t","op":"pair","trusted":true,"rows":[
        {"key":"ring","allocator":"R","state":"ran","ratio":0.123456,"interval":[0.1,0.2],"verdict":"≈"}]}]}"#;

    #[test]
    fn a_run_of_the_thin_build_is_not_recorded() {
        assert!(RecordedBench::parse(RUN).unwrap().of_the_measured_build().is_ok());
        let thin = RecordedBench::parse(&RUN.replace("release", crate::bench::THIN)).unwrap();
        let refused = thin.of_the_measured_build().unwrap_err().to_string();
        assert!(refused.contains("--thin"), "{refused}");
    }

    #[test]
    fn a_written_record_is_read_back_unchanged() {
        let once = RecordedBench::parse(RUN).unwrap().rounded().text().unwrap();
        let again = RecordedBench::parse(&once).unwrap();
        assert_eq!(again.text().unwrap(), once);
        assert_eq!(again.workloads[0].ratio("ring"), Some(0.1235));
        assert_eq!(once.lines().count(), 3, "{once}");
    }
}
