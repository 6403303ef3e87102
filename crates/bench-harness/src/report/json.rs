//! The machine-readable files of a report: `summary.json` and `results.jsonl`.

use std::io::{self, Write};

use ephemera_measure::summary::FORMAT;
use serde_json::{Value, json};

use super::alone;
use super::bars::{Bar, BarLimit, JUDGED_AT};
use super::model::{BenchReport, ReportRow, ReportTable};
use crate::runner::WorkloadOutcome;
use crate::stats::Estimate;

fn interval(estimate: Option<Estimate>) -> Value {
    estimate.map_or(Value::Null, |e| json!([e.low95, e.high95]))
}

fn row(row: &ReportRow) -> Value {
    let (state, reason) = row.state.told();
    let memory = row.memory.as_ref();
    json!({
        "allocator": row.name,
        "key": row.key,
        "version": row.version,
        "state": state,
        "reason": reason,
        "ratio": row.ratio.map(|ratio| ratio.mid),
        "interval": interval(row.ratio),
        "verdict": row.verdict,
        "ns_per_op": row.ns,
        "least_ns_per_op": row.least_ns,
        "net_ns_per_op": row.net_ns,
        "net_ratio": row.net_ratio.map(|ratio| ratio.mid),
        "net_interval": interval(row.net_ratio),
        "peak_bytes": memory.map(|memory| memory.peak),
        "peak_live_bytes": memory.map(|memory| memory.peak_live),
        "peak_counted_by": memory.map(|memory| if memory.exact { "backing allocator" } else { "resident set" }),
        "over_time": row.over_time().iter().map(|at| [at.at as u64, at.taken, at.live]).collect::<Vec<_>>(),
        "refused": row.refused,
        "latencies_ns": row.latencies,
        "notes": row.notes,
    })
}

fn table(table: &ReportTable) -> Value {
    json!({
        "id": table.spec.id,
        "class": table.spec.class.word(),
        "title": table.spec.title,
        "op": table.spec.op,
        "ops_per_sample": table.ops_per_sample,
        "aa": table.aa.map(|aa| aa.mid),
        "aa_interval": interval(table.aa),
        "trusted": table.trusted,
        "contaminated": table.contaminated,
        "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn bar(bar: &Bar) -> Value {
    match &bar.limit {
        BarLimit::Ratio { to, net, at_most, measured } => json!({
            "workload": bar.workload,
            "allocator": bar.of,
            "against": to,
            "net": net,
            "at_most": at_most,
            "measured": measured.map(|measured| measured.mid),
            "interval": interval(*measured),
            "met": bar.met(),
        }),
        BarLimit::Held { after, at_most_mib, measured } => json!({
            "workload": bar.workload,
            "allocator": bar.of,
            "after": after,
            "seconds": JUDGED_AT,
            "at_most_bytes": at_most_mib << 20,
            "measured_bytes": measured,
            "met": bar.met(),
        }),
    }
}

/// Returns the whole report as JSON.
///
/// # Errors
///
/// Returns an error if a part cannot be written as JSON.
pub fn summary(report: &BenchReport) -> Result<Value, serde_json::Error> {
    Ok(json!({
        "format": FORMAT,
        "harness": env!("CARGO_PKG_VERSION"),
        "mode": report.mode,
        "seed": report.seed,
        "processes": report.trials.0,
        "rounds": report.trials.1,
        "document": report.document,
        "left_to_full": report.left_to_full,
        "host": serde_json::to_value(&report.host)?,
        "calibration": serde_json::to_value(&report.calibration)?,
        "workloads": report.tables.iter().map(table).collect::<Vec<_>>(),
        "alone": report.alone.iter().map(alone::json).collect::<Vec<_>>(),
        "bars": report.bars.iter().map(bar).collect::<Vec<_>>(),
    }))
}

/// Writes every sample, including the samples of the warm-up, as one JSON object per line.
///
/// # Errors
///
/// Returns an error if writing fails.
pub fn write_samples(outcomes: &[WorkloadOutcome], out: &mut dyn Write) -> io::Result<()> {
    for sample in outcomes.iter().flat_map(|outcome| &outcome.measured.samples) {
        serde_json::to_writer(&mut *out, sample)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}
