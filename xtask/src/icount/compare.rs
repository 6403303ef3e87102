//! Compares counts with the record: rows, verdicts and the printed table.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use ephemera_measure::grid::{aligned, grid};
use ephemera_measure::valgrind::InstructionCounts;

use crate::steps::Outcome;

/// The description of the build in the table. A count is valid for one build only.
pub(super) const BUILD: &str = "profile icount (thin LTO), without the contenders in C";

/// The accepted increase of a count, as a share of its record. A count fails if its increase
/// exceeds both this share and [`INSTRUCTIONS`].
const SHARE: f64 = 0.01;
const INSTRUCTIONS: f64 = 2.0;

/// Contenders that are shown for comparison and cannot fail: the C library, and the allocator that
/// does nothing, which counts only the loop.
const CONTEXT: [&str; 2] = [LOOP, "glibc"];
const LOOP: &str = "nothing";

/// The result of the comparison of a count with its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountVerdict {
    /// The count is within the bounds.
    Same,
    /// The count is above the bounds.
    More,
    /// The count is below the bounds.
    Fewer,
    /// The record lacks this count.
    New,
    /// The count is shown for comparison only.
    Context,
}

#[derive(Debug, PartialEq)]
struct CountRow<'a> {
    workload: &'a str,
    op: &'a str,
    contender: &'a str,
    was: Option<f64>,
    is: f64,
    /// The count minus the loop's count. `None` for the loop itself, or if the loop's count is
    /// unknown.
    net: Option<f64>,
    verdict: CountVerdict,
}

/// Returns the conditions of a count other than the code. Counts under different conditions are not
/// comparable.
fn conditions(counts: &InstructionCounts) -> [(&'static str, String); 6] {
    [
        ("rustc", counts.rustc.clone()),
        ("target", counts.target.clone()),
        ("build", counts.build.clone()),
        ("libc", counts.libc.clone()),
        ("valgrind", counts.valgrind.clone()),
        ("seed", counts.seed.to_string()),
    ]
}

/// Returns the contenders whose counts can fail the comparison: all contenders that are not in
/// [`CONTEXT`].
pub(super) fn gated(counts: &InstructionCounts) -> Vec<&str> {
    let counted = counts.workloads.values().flat_map(|workload| workload.instructions.keys());
    let ours: BTreeSet<_> = counted.map(String::as_str).filter(|key| !CONTEXT.contains(key)).collect();
    ours.into_iter().collect()
}

/// Returns the differences between the conditions of two records.
fn differs(counts: &InstructionCounts, record: &InstructionCounts) -> Vec<String> {
    let pairs = conditions(counts).into_iter().zip(conditions(record));
    let other = pairs.filter(|((_, is), (_, was))| is != was);
    other.map(|((what, is), (_, was))| format!("{what} is {is}, recorded with {was}")).collect()
}

/// Returns the record with `counts` in place of the old counts of the same workloads. The result
/// states the commit of `counts`.
///
/// # Errors
/// Returns an error if the conditions differ.
pub(super) fn merged(mut record: InstructionCounts, counts: InstructionCounts) -> Result<InstructionCounts> {
    let differs = differs(&counts, &record);
    if !differs.is_empty() {
        bail!(
            "one record cannot hold counts of two builds ({}): count everything with \
             `cargo xtask bench --icount --full --rebase`",
            differs.join("; ")
        );
    }
    record.workloads.extend(counts.workloads);
    Ok(InstructionCounts { workloads: record.workloads, ..counts })
}

/// Prints the table and returns the result: a skipped step if the conditions differ, otherwise the
/// [`verdict`]. With `whole`, the verdict also names recorded counts that this run lacks.
pub(super) fn judged(counts: &InstructionCounts, record: &InstructionCounts, whole: bool) -> Outcome {
    let differs = differs(counts, record);
    if !differs.is_empty() {
        print!("{}", table(counts, None));
        return Outcome::Skipped(format!(
            "not compared: {}; to record new counts, run `cargo xtask bench --icount --full --rebase` on the commit to compare with",
            differs.join("; ")
        ));
    }
    print!("{}", table(counts, Some(record)));
    verdict(&rows(counts, Some(record)), if whole { gone(counts, record) } else { Vec::new() })
}

/// Returns the workload and the contender of each recorded count that the new run lacks.
fn gone(counts: &InstructionCounts, record: &InstructionCounts) -> Vec<String> {
    let all = record
        .workloads
        .iter()
        .flat_map(|(id, workload)| workload.instructions.keys().map(move |contender| (id, contender)));
    let counted = |id: &String, contender: &String| {
        counts.workloads.get(id).is_some_and(|workload| workload.instructions.contains_key(contender))
    };
    all.filter(|(id, contender)| !counted(id, contender))
        .map(|(id, contender)| format!("{id} {contender}"))
        .collect()
}

fn rows<'a>(counts: &'a InstructionCounts, record: Option<&InstructionCounts>) -> Vec<CountRow<'a>> {
    let mut rows = Vec::new();
    for (id, workload) in &counts.workloads {
        let recorded = record.and_then(|record| record.workloads.get(id));
        let recorded_loop = recorded.and_then(|recorded| recorded.instructions.get(LOOP));
        let alone = workload.instructions.get(LOOP).or(recorded_loop);
        for (contender, &is) in &workload.instructions {
            let was = recorded.and_then(|recorded| recorded.instructions.get(contender)).copied();
            let net = alone.filter(|_| contender != LOOP).map(|alone| is - alone);
            let verdict =
                if CONTEXT.contains(&contender.as_str()) { CountVerdict::Context } else { judge(was, is) };
            rows.push(CountRow { workload: id, op: &workload.op, contender, was, is, net, verdict });
        }
    }
    rows
}

fn judge(was: Option<f64>, is: f64) -> CountVerdict {
    let Some(was) = was else { return CountVerdict::New };
    let beyond = |less: f64, more: f64| more - less > INSTRUCTIONS && more - less > less * SHARE;
    if beyond(was, is) {
        CountVerdict::More
    } else if beyond(is, was) {
        CountVerdict::Fewer
    } else {
        CountVerdict::Same
    }
}

/// Returns the overall result: a summary in its first line, then the rows that changed. The result
/// is a failure if a count is above the bounds, or if no contender of this workspace was counted.
fn verdict(rows: &[CountRow<'_>], gone: Vec<String>) -> Outcome {
    let of = |wanted: CountVerdict| rows.iter().filter(move |row| row.verdict == wanted);
    let count = |wanted: CountVerdict| of(wanted).count();
    let (more, fewer, new) =
        (count(CountVerdict::More), count(CountVerdict::Fewer), count(CountVerdict::New));
    let held = count(CountVerdict::Same) + more + fewer;
    let mut text = format!("{held} figures: {more} above the record, {fewer} below, {new} not recorded");
    for row in of(CountVerdict::More).chain(of(CountVerdict::Fewer)) {
        text += &format!("\n  {}", row.told());
    }
    if !gone.is_empty() {
        text += &format!("\n  recorded but not counted: {}", gone.join(", "));
    }
    if more > 0 {
        text += &format!(
            "\n  A count may exceed its record by {INSTRUCTIONS} instructions or {:.0} %. If the increase is intended, \
             `cargo xtask bench --icount --full --rebase` records it.",
            SHARE * 100.0
        );
        return Outcome::Failed(text);
    }
    if fewer + new + gone.len() > 0 {
        text += "\n  `cargo xtask bench --icount --full --rebase` records the new counts.";
    }
    if held + new == 0 {
        return Outcome::Failed("no contender of this workspace was counted".to_owned());
    }
    Outcome::Passed(text)
}

impl CountRow<'_> {
    fn told(&self) -> String {
        let Self { workload, op, contender, is, .. } = self;
        let was = self.was.unwrap_or(*is);
        format!(
            "{contender} in {workload}: {was:.1} instructions per {op} recorded, {is:.1} counted ({:+.1}, {:+.1} %)",
            is - was,
            100.0 * (is - was) / was
        )
    }

    fn cells(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        let change = |was: f64| format!("{:+.2} ({:+.1} %)", self.is - was, 100.0 * (self.is - was) / was);
        let word = match self.verdict {
            CountVerdict::Same => "",
            CountVerdict::More => "MORE",
            CountVerdict::Fewer => "fewer",
            CountVerdict::New => "not recorded",
            CountVerdict::Context => "for context",
        };
        vec![
            self.workload.to_owned(),
            self.contender.to_owned(),
            self.was.map_or_else(dash, |was| format!("{was:.2}")),
            format!("{:.2}", self.is),
            self.was.map_or_else(dash, change),
            self.net.map_or_else(dash, |net| format!("{net:.2}")),
            word.to_owned(),
        ]
    }
}

/// Returns the table: the conditions, then the counts beside the recorded counts.
pub(super) fn table(counts: &InstructionCounts, record: Option<&InstructionCounts>) -> String {
    let InstructionCounts { rustc, libc, valgrind, commit, .. } = counts;
    let recorded = record.map_or(String::new(), |record| format!("; recorded at commit {}", record.commit));
    let mut text = format!(
        "Instructions per operation, by callgrind; {BUILD}\n{rustc}, {libc}, {valgrind}, commit {commit}{recorded}\n\n"
    );
    let head = ["workload", "contender", "was", "is", "change", "less the loop", ""];
    let rows = rows(counts, record);
    // Words are aligned to the left, numbers to the right.
    text += &aligned(&grid(head, rows.iter().map(CountRow::cells)), |column| (2..6).contains(&column), false);
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{CountVerdict, InstructionCounts, gated, gone, judge, merged, rows, table, verdict};
    use crate::steps::Outcome;
    use ephemera_measure::valgrind::WorkloadCounts;

    fn counts(rustc: &str, figures: &[(&str, &[(&str, f64)])]) -> InstructionCounts {
        let workload = |figures: &[(&str, f64)]| WorkloadCounts {
            op: "pair".to_owned(),
            instructions: figures.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect(),
        };
        let workloads: BTreeMap<_, _> =
            figures.iter().map(|(id, figures)| ((*id).to_owned(), workload(figures))).collect();
        InstructionCounts {
            rustc: rustc.to_owned(),
            target: "t".to_owned(),
            build: "b".to_owned(),
            libc: "l".to_owned(),
            valgrind: "v".to_owned(),
            commit: "abc".to_owned(),
            seed: 1,
            workloads,
        }
    }

    #[test]
    fn a_count_fails_only_beyond_both_bounds() {
        assert_eq!(judge(Some(10.0), 12.0), CountVerdict::Same, "two instructions");
        assert_eq!(judge(Some(10.0), 12.1), CountVerdict::More);
        assert_eq!(judge(Some(1000.0), 1010.0), CountVerdict::Same, "one per cent");
        assert_eq!(judge(Some(1000.0), 1010.1), CountVerdict::More);
        assert_eq!(judge(Some(12.1), 10.0), CountVerdict::Fewer);
        assert_eq!(judge(Some(12.0), 10.0), CountVerdict::Same);
        assert_eq!(judge(None, 10.0), CountVerdict::New);
    }

    #[test]
    fn more_instructions_fail_with_a_reason_and_fewer_pass() {
        let record =
            counts("r", &[("S1", &[("nothing", 5.0), ("glibc", 50.0), ("ring", 20.0), ("pool", 30.0)])]);
        let now =
            counts("r", &[("S1", &[("nothing", 9.0), ("glibc", 90.0), ("ring", 24.0), ("pool", 20.0)])]);
        let Outcome::Failed(why) = verdict(&rows(&now, Some(&record)), Vec::new()) else {
            panic!("four instructions more than twenty exceed both bounds");
        };
        assert!(why.starts_with("2 figures: 1 above the record, 1 below, 0 not recorded\n"), "{why}");
        assert!(
            why.contains("ring in S1: 20.0 instructions per pair recorded, 24.0 counted (+4.0, +20.0 %)"),
            "{why}"
        );
        assert!(why.contains("--rebase"), "{why}");

        let now =
            counts("r", &[("S1", &[("nothing", 9.0), ("glibc", 90.0), ("ring", 20.0), ("pool", 20.0)])]);
        let Outcome::Passed(what) = verdict(&rows(&now, Some(&record)), Vec::new()) else {
            panic!("the loop and the C library cannot fail");
        };
        assert!(what.contains("pool in S1: 30.0 instructions per pair recorded, 20.0 counted"), "{what}");
    }

    #[test]
    fn a_run_without_a_count_of_ours_fails() {
        let now = counts("r", &[("S1", &[("nothing", 9.0), ("glibc", 90.0)])]);
        assert!(matches!(verdict(&rows(&now, None), Vec::new()), Outcome::Failed(_)));
    }

    #[test]
    fn the_table_shows_the_conditions_and_counts_without_the_loop() {
        let record = counts("r", &[("S1", &[("ring", 20.0)])]);
        let now = counts("r", &[("S1", &[("nothing", 5.0), ("ring", 25.0)])]);
        let text = table(&now, Some(&record));
        let cells: Vec<_> = text.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(cells, ["S1", "ring", "20.00", "25.00", "+5.00", "(+25.0", "%)", "20.00", "MORE"]);
        assert!(
            text.contains("without the contenders in C\nr, l, v, commit abc; recorded at commit abc\n"),
            "{text}"
        );
    }

    #[test]
    fn a_record_names_the_contenders_whose_counts_can_fail() {
        let loops = [("nothing", 5.0), ("glibc", 50.0)];
        let record = counts("r", &[("S1", &[loops[0], loops[1], ("ring", 20.0)]), ("S2", &[("pool", 30.0)])]);
        assert_eq!(gated(&record), ["pool", "ring"]);
    }

    #[test]
    fn a_count_is_compared_with_the_recorded_loop_if_the_loop_was_not_counted() {
        let record = counts("r", &[("S1", &[("nothing", 5.0), ("ring", 20.0)])]);
        let now = counts("r", &[("S1", &[("ring", 21.0)])]);
        assert_eq!(rows(&now, Some(&record))[0].net, Some(16.0));
    }

    #[test]
    fn counts_of_another_compiler_are_neither_compared_nor_merged() {
        let record = counts("old", &[("S1", &[("ring", 20.0)])]);
        let now = counts("new", &[("S1", &[("ring", 90.0)])]);
        let Outcome::Skipped(why) = super::judged(&now, &record, true) else {
            panic!("counts of another compiler are not comparable");
        };
        assert!(why.contains("rustc is new, recorded with old") && why.contains("--rebase"), "{why}");
        assert!(merged(record, now).is_err());
    }

    #[test]
    fn recording_some_workloads_keeps_the_others() {
        let record = counts("r", &[("S1", &[("ring", 20.0)]), ("S2", &[("ring", 30.0)])]);
        let now = counts("r", &[("S2", &[("ring", 40.0)])]);
        assert_eq!(gone(&now, &record), ["S1 ring"]);
        let merged = merged(record, now).expect("the conditions are the same");
        assert!(gone(&merged, &merged.clone()).is_empty());
        let of = |id: &str| merged.workloads[id].instructions["ring"];
        assert_eq!((of("S1"), of("S2")), (20.0, 40.0));
    }
}
