//! The tables of workloads that run each contender in its own process: the resident memory after a
//! burst (S12), and that of an ageing heap (S13).

use core::fmt::Write as _;

use ephemera_measure::page;
use serde_json::{Value, json};

use super::align::align;
use super::bars::JUDGED_AT;
use crate::card::ContenderClass;
use crate::contenders::{Entry, TWIN};
use crate::host::Host;
use crate::runner::{AloneRun, ContenderState, Latencies, WorkloadOutcome};
use crate::workloads::{AfterBurst, SHOWN};

/// The largest resident memory, in bytes, with which a contender counts as having returned its
/// memory one second after the burst.
pub const RETURNED: u64 = 8 << 20;

const MIB: f64 = (1 << 20) as f64;

/// A row: one contender.
#[derive(Clone, Debug)]
pub struct AloneRow {
    /// The contender's key.
    pub key: &'static str,
    /// The contender's name and version.
    pub name: String,
    /// The contender's state.
    pub state: ContenderState,
    /// The runs of the contender's processes. There are none if the contender did not run, or if
    /// the system does not report resident memory.
    pub runs: Vec<AloneRun>,
    /// The latencies of single calls, if they were timed.
    pub latencies: Option<Latencies>,
    /// A note for the reader.
    pub notes: &'static str,
}

/// The table of one workload.
#[derive(Clone, Debug)]
pub struct AloneTable {
    /// The name of the workload.
    pub id: String,
    /// The description of the workload in one line.
    pub title: String,
    /// The kind of memory that the workload's contenders hand out.
    pub class: ContenderClass,
    /// Whether the workload is a burst. Otherwise it is an ageing heap.
    pub burst: bool,
    /// The contenders in the order of the registry.
    pub rows: Vec<AloneRow>,
}

impl AloneRow {
    /// Returns the run with this activity after the burst, if there is one.
    #[must_use]
    pub fn run(&self, after: Option<AfterBurst>) -> Option<&AloneRun> {
        self.runs.iter().find(|run| run.after == after)
    }

    /// Returns a phrase that says whether the contender returned its memory after the burst, or
    /// `None` if its memory was not measured.
    #[must_use]
    pub fn verdict(&self) -> Option<String> {
        let kept = |after| {
            let run = self.run(Some(after))?;
            let taken = run.taken_at(JUDGED_AT)?;
            Some((taken > RETURNED).then(|| 100.0 * taken as f64 / run.peak.max(1) as f64))
        };
        let words = match (kept(AfterBurst::Asleep)?, kept(AfterBurst::Working)?) {
            (None, None) => "returned".to_owned(),
            (Some(asleep), None) => format!("keeps {asleep:.0} % while asleep"),
            (None, Some(working)) => format!("keeps {working:.0} % while working"),
            (Some(asleep), Some(working)) => format!("keeps {asleep:.0} %, {working:.0} % while working"),
        };
        Some(words)
    }

    fn note(&self) -> String {
        let (word, reason) = self.state.told();
        match reason {
            Some(reason) if matches!(self.state, ContenderState::Missing(_)) => reason.to_owned(),
            Some(reason) => format!("{word}: {reason}"),
            None if self.runs.is_empty() => "not measured".to_owned(),
            None => self.notes.to_owned(),
        }
    }
}

/// Returns bytes in MiB, with one digit after the point.
fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MIB)
}

fn dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "–".to_owned())
}

impl AloneTable {
    /// Returns the table of an outcome over the contenders of its class. The reference's second
    /// entry does not have a row, because this table does not compare contenders with the
    /// reference.
    #[must_use]
    pub fn new(outcome: &WorkloadOutcome, entries: &[Entry], host: &Host) -> Self {
        let row = |(_, entry): (usize, &Entry)| {
            let state = outcome.states.get(entry.key).cloned().unwrap_or_default();
            let ran = state.ran();
            let runs = outcome.alone.iter().filter(|run| ran && run.contender == entry.key).cloned();
            let latencies =
                outcome.latencies.iter().find(|latencies| ran && latencies.contender == entry.key);
            let version = host.contenders.iter().find(|(name, _)| name == entry.info.name);
            let version = version.map(|(_, version)| version.as_str()).filter(|version| *version != "none");
            AloneRow {
                key: entry.key,
                name: format!("{} {}", entry.info.name, version.unwrap_or_default()).trim().to_owned(),
                runs: runs.collect(),
                latencies: latencies.cloned(),
                notes: entry.info.notes,
                state,
            }
        };
        let entries = entries.iter().enumerate().filter(|(index, _)| *index != TWIN);
        Self {
            id: outcome.spec.id.clone(),
            title: outcome.spec.title.clone(),
            class: outcome.spec.class,
            burst: outcome.spec.is_burst(),
            rows: entries.map(row).collect(),
        }
    }

    /// Returns the moments that have a column: those at which any process read its memory.
    fn moments(&self) -> Vec<f64> {
        let read =
            |at: &f64| self.rows.iter().flat_map(|row| &row.runs).any(|run| run.taken_at(*at).is_some());
        SHOWN.into_iter().filter(read).collect()
    }

    /// Returns the rows of cells, with the head first.
    #[must_use]
    pub fn grid(&self) -> Vec<Vec<String>> {
        if self.burst { self.burst_grid() } else { self.ageing_grid() }
    }

    fn burst_grid(&self) -> Vec<Vec<String>> {
        let moments = self.moments();
        // At moment 0 nothing has happened since the burst, so both activities share one column.
        let later = moments.iter().filter(|&&at| at > 0.0);
        let columns: Vec<(AfterBurst, f64)> = moments
            .iter()
            .map(|&at| (AfterBurst::Asleep, at))
            .chain(later.map(|&at| (AfterBurst::Working, at)))
            .collect();
        let mut head = vec!["allocator".to_owned(), "burst".to_owned()];
        head.extend(columns.iter().map(|(after, at)| format!("{} {at} s", after.word())));
        head.extend([format!("after {JUDGED_AT} s"), "notes".to_owned()]);
        let row = |row: &AloneRow| {
            let cell = |&(after, at): &(AfterBurst, f64)| {
                dash(row.run(Some(after)).and_then(|run| run.taken_at(at)).map(mib))
            };
            let peak = row.runs.iter().map(|run| run.peak).max();
            let mut cells = vec![row.name.clone(), dash(peak.map(mib))];
            cells.extend(columns.iter().map(cell));
            cells.extend([dash(row.verdict()), row.note()]);
            cells
        };
        core::iter::once(head).chain(self.rows.iter().map(row)).collect()
    }

    fn ageing_grid(&self) -> Vec<Vec<String>> {
        let head = [
            "allocator",
            "million calls a second",
            "p50 ns",
            "p99 ns",
            "p99.9 ns",
            "longest µs",
            "mean MiB",
            "peak MiB",
            "peak/live",
            "MiB at the end",
            "notes",
        ];
        let row = |row: &AloneRow| {
            let run = row.run(None);
            let tail = row.latencies.as_ref();
            let mean = |run: &AloneRun| {
                run.held.iter().map(|held| held.taken).sum::<u64>() / run.held.len().max(1) as u64
            };
            let share = |run: &AloneRun| format!("{:.2}", run.peak as f64 / run.peak_live.max(1) as f64);
            vec![
                row.name.clone(),
                dash(run.map(|run| format!("{:.1}", run.ops as f64 / run.seconds / 1e6))),
                dash(tail.map(|tail| tail.p50.to_string())),
                dash(tail.map(|tail| tail.p99.to_string())),
                dash(tail.map(|tail| tail.p999.to_string())),
                dash(tail.map(|tail| format!("{:.1}", tail.max as f64 / 1e3))),
                dash(run.map(|run| mib(mean(run)))),
                dash(run.map(|run| mib(run.peak))),
                dash(run.map(share)),
                dash(run.and_then(|run| run.held.last()).map(|held| mib(held.taken))),
                row.note(),
            ]
        };
        page::grid(head, self.rows.iter().map(row))
    }

    /// Returns the text that explains the figures.
    #[must_use]
    pub fn legend(&self) -> String {
        if self.burst {
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

    pub(super) fn json(&self) -> Value {
        let row = |row: &AloneRow| {
            let (state, reason) = row.state.told();
            let tail = row.latencies.as_ref().map(|tail| {
                json!({"p50": tail.p50, "p99": tail.p99, "p999": tail.p999, "max": tail.max,
                    "requests": tail.requests})
            });
            json!({
                "key": row.key,
                "allocator": row.name,
                "state": state,
                "reason": reason,
                "verdict": self.burst.then(|| row.verdict()).flatten(),
                "runs": row.runs,
                "latencies_ns": tail,
            })
        };
        json!({
            "id": self.id,
            "class": self.class.word(),
            "title": self.title,
            "legend": self.legend(),
            "grid": self.grid(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

/// Returns the table of a workload without rounds, for a terminal.
#[must_use]
pub fn terminal_alone(table: &AloneTable) -> String {
    format!("\n{}: {}\n{}\n{}", table.id, table.title, table.legend(), align(&table.grid(), false))
}

/// Returns the tables of workloads without rounds, for a Markdown page.
pub(super) fn markdown(tables: &[AloneTable]) -> String {
    let mut text = String::new();
    for table in tables {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "### {}: {}\n\n{}.\n\n{}",
            table.id,
            table.title,
            table.legend(),
            align(&table.grid(), true)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::ResidentAt;

    fn row(asleep: u64, working: u64) -> AloneRow {
        let run = |(after, taken)| AloneRun {
            contender: "x".to_owned(),
            after: Some(after),
            checksum: 0,
            ops: 1,
            seconds: 1.0,
            peak_live: 64 << 20,
            peak: 100 << 20,
            held: vec![
                ResidentAt { at: 0.0, taken: 100 << 20, live: 0 },
                ResidentAt { at: JUDGED_AT, taken, live: 0 },
            ],
        };
        AloneRow {
            key: "x",
            name: "X".to_owned(),
            state: ContenderState::Ran,
            runs: [(AfterBurst::Asleep, asleep), (AfterBurst::Working, working)].map(run).to_vec(),
            latencies: None,
            notes: "",
        }
    }

    #[test]
    fn kept_memory_is_reported_as_a_share_of_the_burst() {
        let verdict = |asleep: u64, working: u64| row(asleep << 20, working << 20).verdict();
        assert_eq!(verdict(8, 8).as_deref(), Some("returned"));
        assert_eq!(verdict(50, 8).as_deref(), Some("keeps 50 % while asleep"));
        assert_eq!(verdict(0, 97).as_deref(), Some("keeps 97 % while working"));
        assert_eq!(verdict(99, 98).as_deref(), Some("keeps 99 %, 98 % while working"));
        assert_eq!(AloneRow { runs: Vec::new(), ..row(0, 0) }.verdict(), None);
    }

    #[test]
    fn a_burst_has_a_column_for_each_moment_that_was_read() {
        let table = AloneTable {
            id: "S12".to_owned(),
            title: String::new(),
            class: ContenderClass::Blocks,
            burst: true,
            rows: vec![row(3 << 20, 2 << 20)],
        };
        let [head, cells] = &table.grid()[..] else { panic!("a head and a row") };
        let columns = ["allocator", "burst", "asleep 0 s", "asleep 1 s", "working 1 s", "after 1 s", "notes"];
        assert_eq!(head[..], columns);
        assert_eq!(cells[..6], ["X", "100.0", "100.0", "3.0", "2.0", "returned"]);
    }
}
