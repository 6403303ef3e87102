//! The tables of workloads that run each contender in its own process: the resident memory after a
//! burst (S12), and the resident memory of an ageing heap (S13).

use ephemera_measure::grid::{Column, columns, mib};
use serde_json::{Value, json};

use super::bars::JUDGED_AT;
use super::cells::dash;
use super::model::{ReportRow, ReportTable};
use crate::runner::{AloneRun, Latencies};
use crate::workloads::{AfterBurst, AloneFigures, SHOWN};

/// The largest growth of the resident memory, in bytes, with which a contender counts as having
/// returned its memory one second after the burst.
const RETURNED: u64 = 8 << 20;

impl ReportRow {
    /// Returns the run whose threads did `after` after the burst, or `None` if no such run was
    /// measured. In S13, which has no burst, `after` is `None`.
    pub fn run(&self, after: Option<AfterBurst>) -> Option<&AloneRun> {
        self.runs.iter().find(|run| run.after == after)
    }

    /// Returns a phrase that says whether the contender returned its memory after the burst, or
    /// `None` if its memory was not measured.
    pub fn returned(&self) -> Option<String> {
        let kept = |after| {
            let run = self.run(Some(after))?;
            let taken = run.taken_at(JUDGED_AT)?;
            Some((taken > RETURNED).then(|| 100.0 * taken as f64 / run.figures.peak.max(1) as f64))
        };
        let words = match (kept(AfterBurst::Asleep)?, kept(AfterBurst::Working)?) {
            (None, None) => "returned".to_owned(),
            (Some(asleep), None) => format!("keeps {asleep:.0} % while asleep"),
            (None, Some(working)) => format!("keeps {working:.0} % while working"),
            (Some(asleep), Some(working)) => format!("keeps {asleep:.0} %, {working:.0} % while working"),
        };
        Some(words)
    }
}

/// Returns the note of a row, or "not measured" if the contender ran but no memory was read.
fn note(row: &ReportRow) -> String {
    if row.state.ran() && row.runs.is_empty() { "not measured".to_owned() } else { row.note() }
}

/// Returns the moments that have a column, in seconds after the burst. Any process read its memory
/// at each of these moments.
fn moments(table: &ReportTable) -> Vec<f64> {
    let read = |at: &f64| table.rows.iter().flat_map(|row| &row.runs).any(|run| run.taken_at(*at).is_some());
    SHOWN.into_iter().filter(read).collect()
}

/// Returns the rows of cells, with the head first.
pub(super) fn grid(table: &ReportTable) -> Vec<Vec<String>> {
    if table.spec.is_burst() { burst_grid(table) } else { columns(&AGEING, &table.rows) }
}

fn burst_grid(table: &ReportTable) -> Vec<Vec<String>> {
    let moments = moments(table);
    // At moment 0 nothing has happened since the burst, so both activities share one column.
    let later = moments.iter().filter(|&&at| at > 0.0);
    let readings: Vec<(AfterBurst, f64)> = moments
        .iter()
        .map(|&at| (AfterBurst::Asleep, at))
        .chain(later.map(|&at| (AfterBurst::Working, at)))
        .collect();
    let mut head = vec!["allocator".to_owned(), "burst".to_owned()];
    head.extend(readings.iter().map(|(after, at)| format!("{} {at} s", after.word())));
    head.extend([format!("after {JUDGED_AT} s"), "notes".to_owned()]);
    let row = |row: &ReportRow| {
        let cell = |&(after, at): &(AfterBurst, f64)| {
            dash(row.run(Some(after)).and_then(|run| run.taken_at(at)), mib)
        };
        let peak = row.runs.iter().map(|run| run.figures.peak).max();
        let mut cells = vec![row.named(), dash(peak, mib)];
        cells.extend(readings.iter().map(cell));
        cells.extend([dash(row.returned(), |said| said), note(row)]);
        cells
    };
    core::iter::once(head).chain(table.rows.iter().map(row)).collect()
}

const AGEING: [Column<ReportRow>; 11] = [
    ("allocator", ReportRow::named),
    ("million calls a second", |row| of_run(row, |run| format!("{:.1}", run.ops as f64 / run.seconds / 1e6))),
    ("p50 ns", |row| of_tail(row, |tail| tail.p50.to_string())),
    ("p99 ns", |row| of_tail(row, |tail| tail.p99.to_string())),
    ("p99.9 ns", |row| of_tail(row, |tail| tail.p999.to_string())),
    ("longest µs", |row| of_tail(row, |tail| format!("{:.1}", tail.max as f64 / 1e3))),
    ("mean MiB", |row| of_run(row, |run| mib(mean(run)))),
    ("peak MiB", |row| of_run(row, |run| mib(run.peak))),
    ("peak/live", |row| of_run(row, |run| format!("{:.2}", run.peak as f64 / run.peak_live.max(1) as f64))),
    ("MiB at the end", |row| {
        dash(row.run(None).and_then(|run| run.figures.held.last()), |held| mib(held.taken))
    }),
    ("notes", note),
];

fn of_run(row: &ReportRow, show: impl Fn(&AloneFigures) -> String) -> String {
    dash(row.run(None), |run| show(&run.figures))
}

fn of_tail(row: &ReportRow, show: impl Fn(&Latencies) -> String) -> String {
    dash(row.latencies.as_ref(), show)
}

fn mean(run: &AloneFigures) -> u64 {
    run.held.iter().map(|held| held.taken).sum::<u64>() / run.held.len().max(1) as u64
}

/// Returns the text that explains the figures.
pub(super) fn legend(table: &ReportTable) -> String {
    if table.spec.is_burst() {
        format!(
            "MiB of resident memory above that before the burst. asleep: every thread sleeps. working: another process, where \
             the thread that freed replaces 16 blocks each millisecond. returned: at most {} MiB stay after {JUDGED_AT} s",
            RETURNED >> 20
        )
    } else {
        "A call allocates or frees, and one in 31 is timed, with the clock's own cost. Each contender has a process of its own"
            .to_owned()
    }
}

/// Returns the table as an object of `summary.json`.
pub(super) fn json(table: &ReportTable) -> Value {
    let row = |row: &ReportRow| {
        let (state, reason) = row.state.told();
        json!({
            "key": row.key,
            "allocator": row.named(),
            "state": state,
            "reason": reason,
            "verdict": table.spec.is_burst().then(|| row.returned()).flatten(),
            "runs": row.runs,
            "latencies_ns": row.latencies,
        })
    };
    json!({
        "id": table.spec.id,
        "class": table.spec.class.word(),
        "title": table.spec.title,
        "legend": legend(table),
        "grid": grid(table),
        "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders;
    use crate::host::Host;
    use crate::runner::{ContenderState, Measurements, WorkloadOutcome};
    use crate::workloads::{AloneFigures, HeldAt, WorkloadSpec, catalogue};

    /// Returns the table of a burst that only glibc ran. One second after the burst, its two
    /// processes hold `asleep` and `working` bytes.
    fn table(asleep: u64, working: u64) -> ReportTable {
        let run = |(after, taken)| AloneRun {
            contender: "glibc".to_owned(),
            after: Some(after),
            figures: AloneFigures {
                ops: 1,
                seconds: 1.0,
                peak_live: 64 << 20,
                peak: 100 << 20,
                held: vec![
                    HeldAt { at: 0.0, taken: 100 << 20, live: 0 },
                    HeldAt { at: JUDGED_AT, taken, live: 0 },
                ],
                ..AloneFigures::default()
            },
        };
        let spec = catalogue().into_iter().find(WorkloadSpec::is_burst).expect("the catalogue contains S12");
        let entries = contenders::of(spec.class);
        let states = [("glibc".to_owned(), ContenderState::Ran)].into();
        let alone = [(AfterBurst::Asleep, asleep), (AfterBurst::Working, working)].map(run).to_vec();
        let measured = Measurements { alone, ..Measurements::default() };
        let outcome = WorkloadOutcome { spec, states, measured };
        let mut table = ReportTable::new(&outcome, &entries, &Host::here(&[]), 1);
        assert_eq!(table.rows.len(), entries.len() - 1, "the reference has one row");
        table.rows.retain(|row| row.key == "glibc");
        table
    }

    #[test]
    fn kept_memory_is_reported_as_a_share_of_the_burst() {
        let verdict = |asleep: u64, working: u64| table(asleep << 20, working << 20).rows[0].returned();
        assert_eq!(verdict(8, 8).as_deref(), Some("returned"));
        assert_eq!(verdict(50, 8).as_deref(), Some("keeps 50 % while asleep"));
        assert_eq!(verdict(0, 97).as_deref(), Some("keeps 97 % while working"));
        assert_eq!(verdict(99, 98).as_deref(), Some("keeps 99 %, 98 % while working"));
        assert_eq!(ReportRow { runs: Vec::new(), ..table(0, 0).rows.remove(0) }.returned(), None);
    }

    #[test]
    fn a_burst_has_a_column_for_each_moment_that_was_read() {
        let table = table(3 << 20, 2 << 20);
        let [head, cells] = &grid(&table)[..] else { panic!("a head and a row") };
        let columns = ["allocator", "burst", "asleep 0 s", "asleep 1 s", "working 1 s", "after 1 s", "notes"];
        assert_eq!(head[..], columns);
        assert_eq!(cells[..6], ["glibc", "100.0", "100.0", "3.0", "2.0", "returned"]);
    }
}
