//! Tests of the comparison with an earlier run: which rows changed, which rows are missing, and
//! which files are refused.

use std::path::Path;

use ephemera_measure::summary::{SummaryRow, SummaryTable};

use super::{Baseline, Comparison, quotient, ratio, spread};
use crate::report::{ReportRow, ReportTable};
use crate::runner::ContenderState;
use crate::stats::{Estimate, Verdict};
use crate::workloads::catalogue;

/// The width of the 99 % interval divided by the width of the 95 % interval, for a normal
/// distribution.
const WIDER: f64 = 2.576 / 1.960;

/// Returns an estimate whose 95 % interval extends by `percent` per cent to either side.
fn within(mid: f64, percent: f64) -> Estimate {
    spread(mid, 1.0 + percent / 100.0, 1.0 + percent / 100.0, WIDER)
}

fn row(key: &'static str, ratio: Option<Estimate>, state: ContenderState) -> ReportRow {
    ReportRow {
        key,
        name: key,
        version: String::new(),
        state,
        ratio,
        verdict: None,
        ns: None,
        least_ns: None,
        net_ns: None,
        net_ratio: None,
        memory: None,
        refused: None,
        latencies: None,
        runs: Vec::new(),
        notes: "",
    }
}

fn table(rows: Vec<ReportRow>) -> ReportTable {
    let mut spec = catalogue().swap_remove(0);
    spec.id = "S1".to_owned();
    ReportTable {
        spec,
        ops_per_sample: None,
        aa: Some(within(1.0, 0.1)),
        trusted: true,
        contaminated: 0.0,
        rows,
    }
}

fn old(key: &str, ratio: Option<Estimate>) -> SummaryRow {
    SummaryRow {
        key: key.to_owned(),
        state: if ratio.is_some() { "ran" } else { "missing" }.to_owned(),
        reason: ratio.is_none().then(|| "one thread only".to_owned()),
        ratio: ratio.map(|ratio| ratio.mid),
        interval: ratio.map(|ratio| (ratio.low95, ratio.high95)),
        ..SummaryRow::default()
    }
}

fn compared(then: Vec<SummaryRow>, now: Vec<ReportRow>, aa: f64) -> Comparison {
    let mut comparison = Comparison {
        commit: "abc".to_owned(),
        differs: Vec::new(),
        changes: Vec::new(),
        missing: Vec::new(),
    };
    let old = SummaryTable {
        id: "S1".to_owned(),
        aa: Some(aa),
        trusted: true,
        rows: then,
        ..SummaryTable::default()
    };
    comparison.add(&old, &table(now), WIDER);
    comparison
}

/// Returns the verdict on the change from the ratio `then` to the ratio `now`. `aa` is the ratio of
/// the reference to itself in the earlier run.
fn word(then: Estimate, now: Estimate, aa: f64) -> Verdict {
    let rows = vec![row("ring", Some(now), ContenderState::Ran)];
    compared(vec![old("ring", Some(then))], rows, aa).changes[0].verdict
}

#[test]
fn a_quotient_has_the_width_of_both_estimates() {
    let change = quotient(&within(0.6, 3.0), &within(0.5, 4.0), WIDER);
    assert!((change.mid - 1.2).abs() < 1e-12);
    let half = 1.03_f64.ln().hypot(1.04_f64.ln());
    assert!(((change.high95 / change.mid).ln() - half).abs() < 1e-12);
    assert!(((change.mid / change.low95).ln() - half).abs() < 1e-12);
    assert!(change.high99 > change.high95 && change.low99 < change.low95);
    // The upper end of the earlier ratio gives the lower end of the change.
    let lopsided = Estimate { high95: 0.6, ..within(0.5, 0.0) };
    let change = quotient(&within(0.5, 0.0), &lopsided, WIDER);
    assert!((change.low95 - 0.5 / 0.6).abs() < 1e-12 && (change.high95 - 1.0).abs() < 1e-12, "{change:?}");
}

#[test]
fn verdicts_follow_the_intervals() {
    assert_eq!(word(within(0.5, 0.5), within(0.515, 0.5), 1.0), Verdict::Slower);
    assert_eq!(word(within(0.515, 0.5), within(0.5, 0.5), 1.0), Verdict::Faster);
    assert_eq!(word(within(0.5, 3.0), within(0.515, 3.0), 1.0), Verdict::Same, "wide intervals");
    assert_eq!(word(within(0.5, 0.1), within(0.504, 0.1), 1.0), Verdict::Same, "less than 1 %");
    assert_eq!(word(within(0.5, 0.5), within(0.515, 0.5), 1.02), Verdict::Same, "the reference moved more");
}

#[test]
fn contenders_missing_from_one_run_are_named() {
    let then =
        vec![old("ring", Some(within(0.5, 1.0))), old("pool", None), old("gone", Some(within(0.5, 1.0)))];
    let now = vec![
        row("glibc", Some(within(1.0, 0.0)), ContenderState::Ran),
        row("ring", None, ContenderState::Crashed("segmentation fault".to_owned())),
        row("pool", Some(within(0.5, 1.0)), ContenderState::Ran),
    ];
    let comparison = compared(then, now, 1.0);
    assert!(comparison.changes.is_empty());
    assert_eq!(
        comparison.missing,
        [
            "S1 ring: measured then; now crashed: segmentation fault",
            "S1 pool: measured now; then missing: one thread only",
            "S1 gone: measured then; now not in the run",
        ]
    );
    let text = comparison.terminal();
    assert!(text.contains("Against commit abc: 0 rows, 0 faster, 0 slower"), "{text}");
    assert!(text.contains("missing: S1 gone"), "{text}");
}

#[test]
fn a_number_that_cannot_be_a_ratio_is_left_out() {
    for (mid, interval) in [(0.0, (0.0, 1.0)), (1.0, (-1.0, 2.0)), (1.0, (1.1, 2.0)), (f64::NAN, (0.5, 1.5))]
    {
        let row = SummaryRow { ratio: Some(mid), interval: Some(interval), ..old("ring", None) };
        assert_eq!(ratio(&row, WIDER), None, "{mid} {interval:?}");
    }
}

#[test]
fn only_a_summary_of_this_format_is_read() {
    let path = Path::new("x.json");
    let refused = |text| Baseline::parse(text, path).expect_err("the text is not a baseline");
    for text in ["not JSON", r#"{"format": 1}"#] {
        let said = refused(text);
        assert!(said.starts_with("x.json is not the summary.json of a run: "), "{said}");
    }
    let later = refused(r#"{"format": 999}"#);
    assert!(later.contains("x.json has format 999, this harness reads 1"), "{later}");
    let without = refused(r#"{"mode": "quick"}"#);
    assert!(without.contains("x.json has format none, this harness reads 1"), "{without}");
}
