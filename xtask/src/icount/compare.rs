//! Figures beside those of the record: rows, what they come to, and the table.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::steps::Outcome;

/// What the build is, for the table: a count is true of one build.
pub(super) const BUILD: &str = "profile icount (thin LTO), without the contenders in C";

/// What may be counted more than is recorded: this share, and so many instructions. Both must be exceeded.
const SHARE: f64 = 0.01;
const INSTRUCTIONS: f64 = 2.0;

/// Contenders that stand beside ours, and are not held to anything: the loop and the C library.
const CONTEXT: [&str; 2] = [LOOP, "glibc"];
const LOOP: &str = "nothing";

/// Figures, and what they are true of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Counts {
    rustc: String,
    target: String,
    build: String,
    libc: String,
    valgrind: String,
    commit: String,
    seed: u64,
    workloads: BTreeMap<String, Workload>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    /// What an operation is.
    op: String,
    /// Instructions an operation, by contender.
    instructions: BTreeMap<String, f64>,
}

/// What a count comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Within the bounds.
    Same,
    /// Above them.
    More,
    /// Below them.
    Fewer,
    /// There is nothing to hold it against.
    New,
    /// It is shown and not held to anything.
    Context,
}

/// A row of the table.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    workload: &'a str,
    op: &'a str,
    contender: &'a str,
    was: Option<f64>,
    is: f64,
    /// What is left without the loop.
    net: Option<f64>,
    verdict: Verdict,
}

impl Counts {
    /// What a figure depends on beside the code. One that was counted under another condition proves nothing.
    fn conditions(&self) -> [(&'static str, String); 6] {
        [
            ("rustc", self.rustc.clone()),
            ("target", self.target.clone()),
            ("build", self.build.clone()),
            ("libc", self.libc.clone()),
            ("valgrind", self.valgrind.clone()),
            ("seed", self.seed.to_string()),
        ]
    }

    /// In what the conditions of two records differ.
    fn differs(&self, record: &Self) -> Vec<String> {
        let pairs = self.conditions().into_iter().zip(record.conditions());
        let other = pairs.filter(|((_, is), (_, was))| is != was);
        other.map(|((what, is), (_, was))| format!("{what} is {is}, recorded with {was}")).collect()
    }
}

/// The record with the workloads that were counted anew in the place of its own.
pub(super) fn merged(mut record: Counts, counts: Counts) -> Result<Counts> {
    let differs = counts.differs(&record);
    if !differs.is_empty() {
        bail!(
            "figures of two builds cannot stand in one record ({}): count everything with \
             `cargo xtask bench --icount --full --rebase`",
            differs.join("; ")
        );
    }
    record.workloads.extend(counts.workloads);
    Ok(Counts { workloads: record.workloads, ..counts })
}

/// Prints the table, and says what it comes to. With `whole`, what is recorded and was not counted is named.
pub(super) fn judged(counts: &Counts, record: &Counts, whole: bool) -> Outcome {
    let differs = counts.differs(record);
    if !differs.is_empty() {
        print!("{}", table(counts, None));
        return Outcome::Skipped(format!(
            "not compared: {}; rebase: `cargo xtask bench --icount --full --rebase` on the commit that the \
             figures are to be true of",
            differs.join("; ")
        ));
    }
    print!("{}", table(counts, Some(record)));
    verdict(&rows(counts, Some(record)), if whole { gone(counts, record) } else { Vec::new() })
}

/// Recorded figures that nobody counts any more.
fn gone(counts: &Counts, record: &Counts) -> Vec<String> {
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

fn rows<'a>(counts: &'a Counts, record: Option<&Counts>) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (id, workload) in &counts.workloads {
        let recorded = record.and_then(|record| record.workloads.get(id));
        let alone = workload.instructions.get(LOOP);
        for (contender, &is) in &workload.instructions {
            let was = recorded.and_then(|recorded| recorded.instructions.get(contender)).copied();
            let net = alone.filter(|_| contender != LOOP).map(|alone| is - alone);
            let verdict =
                if CONTEXT.contains(&contender.as_str()) { Verdict::Context } else { judge(was, is) };
            rows.push(Row { workload: id, op: &workload.op, contender, was, is, net, verdict });
        }
    }
    rows
}

fn judge(was: Option<f64>, is: f64) -> Verdict {
    let Some(was) = was else { return Verdict::New };
    let beyond = |less: f64, more: f64| more - less > INSTRUCTIONS && more - less > less * SHARE;
    if beyond(was, is) {
        Verdict::More
    } else if beyond(is, was) {
        Verdict::Fewer
    } else {
        Verdict::Same
    }
}

/// What the rows come to: in its first line in short, then row by row.
fn verdict(rows: &[Row<'_>], gone: Vec<String>) -> Outcome {
    let of = |wanted: Verdict| rows.iter().filter(move |row| row.verdict == wanted);
    let count = |wanted: Verdict| of(wanted).count();
    let (more, fewer, new) = (count(Verdict::More), count(Verdict::Fewer), count(Verdict::New));
    let held = count(Verdict::Same) + more + fewer;
    let mut text = format!("{held} figures: {more} above the record, {fewer} below, {new} not recorded");
    for row in of(Verdict::More).chain(of(Verdict::Fewer)) {
        text += &format!("\n  {}", row.told());
    }
    if !gone.is_empty() {
        text += &format!("\n  recorded, and not counted any more: {}", gone.join(", "));
    }
    if more > 0 {
        text += &format!(
            "\n  A figure may be {INSTRUCTIONS} instructions or {:.0} % above its record. Where more is meant, \
             `cargo xtask bench --icount --full --rebase` records it.",
            SHARE * 100.0
        );
        return Outcome::Failed(text);
    }
    if fewer + new + gone.len() > 0 {
        text += "\n  `cargo xtask bench --icount --full --rebase` makes these the record.";
    }
    if held + new == 0 {
        return Outcome::Failed("nothing of ours was counted".to_owned());
    }
    Outcome::Passed(text)
}

impl Row<'_> {
    /// From what to what, in a sentence.
    fn told(&self) -> String {
        let Self { workload, op, contender, is, .. } = self;
        let was = self.was.unwrap_or(*is);
        format!(
            "{contender} in {workload}: {was:.1} instructions a {op} recorded, {is:.1} counted ({:+.1}, {:+.1} %)",
            is - was,
            100.0 * (is - was) / was
        )
    }

    fn cells(&self) -> [String; 7] {
        let dash = || "-".to_owned();
        let change = |was: f64| format!("{:+.2} ({:+.1} %)", self.is - was, 100.0 * (self.is - was) / was);
        let word = match self.verdict {
            Verdict::Same => "",
            Verdict::More => "MORE",
            Verdict::Fewer => "fewer",
            Verdict::New => "not recorded",
            Verdict::Context => "for context",
        };
        [
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

/// The figures with those of the record, below what they are true of.
pub(super) fn table(counts: &Counts, record: Option<&Counts>) -> String {
    let Counts { rustc, libc, valgrind, commit, .. } = counts;
    let recorded = record.map_or(String::new(), |record| format!("; recorded at commit {}", record.commit));
    let mut text = format!(
        "Instructions an operation, by callgrind; {BUILD}\n{rustc}, {libc}, {valgrind}, commit {commit}{recorded}\n\n"
    );
    let head = ["workload", "contender", "was", "is", "change", "less the loop", ""].map(str::to_owned);
    let grid: Vec<_> = core::iter::once(head).chain(rows(counts, record).iter().map(Row::cells)).collect();
    let wide = |column: usize| grid.iter().map(|cells| cells[column].len()).max().unwrap_or(0);
    let widths: [usize; 7] = core::array::from_fn(wide);
    for cells in &grid {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            // Words to the left, figures to the right.
            let padded = if (2..6).contains(&column) {
                format!("{cell:>width$}  ")
            } else {
                format!("{cell:width$}  ")
            };
            line += &padded;
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Counts, Verdict, Workload, gone, judge, merged, rows, table, verdict};
    use crate::steps::Outcome;

    fn counts(rustc: &str, figures: &[(&str, &[(&str, f64)])]) -> Counts {
        let workload = |figures: &[(&str, f64)]| Workload {
            op: "pair".to_owned(),
            instructions: figures.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect(),
        };
        let workloads: BTreeMap<_, _> =
            figures.iter().map(|(id, figures)| ((*id).to_owned(), workload(figures))).collect();
        Counts {
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
    fn both_bounds_must_be_exceeded() {
        assert_eq!(judge(Some(10.0), 12.0), Verdict::Same, "two instructions");
        assert_eq!(judge(Some(10.0), 12.1), Verdict::More);
        assert_eq!(judge(Some(1000.0), 1010.0), Verdict::Same, "one per cent");
        assert_eq!(judge(Some(1000.0), 1010.1), Verdict::More);
        assert_eq!(judge(Some(12.1), 10.0), Verdict::Fewer);
        assert_eq!(judge(Some(12.0), 10.0), Verdict::Same);
        assert_eq!(judge(None, 10.0), Verdict::New);
    }

    #[test]
    fn more_fails_with_a_reason_and_fewer_does_not() {
        let record =
            counts("r", &[("S1", &[("nothing", 5.0), ("glibc", 50.0), ("ring", 20.0), ("pool", 30.0)])]);
        let now =
            counts("r", &[("S1", &[("nothing", 9.0), ("glibc", 90.0), ("ring", 24.0), ("pool", 20.0)])]);
        let Outcome::Failed(why) = verdict(&rows(&now, Some(&record)), Vec::new()) else {
            panic!("four more instructions of twenty are too many");
        };
        assert!(why.starts_with("2 figures: 1 above the record, 1 below, 0 not recorded\n"), "{why}");
        assert!(
            why.contains("ring in S1: 20.0 instructions a pair recorded, 24.0 counted (+4.0, +20.0 %)"),
            "{why}"
        );
        assert!(why.contains("--rebase"), "{why}");

        let now =
            counts("r", &[("S1", &[("nothing", 9.0), ("glibc", 90.0), ("ring", 20.0), ("pool", 20.0)])]);
        let Outcome::Passed(what) = verdict(&rows(&now, Some(&record)), Vec::new()) else {
            panic!("the loop and the C library are shown alone");
        };
        assert!(what.contains("pool in S1: 30.0 instructions a pair recorded, 20.0 counted"), "{what}");
    }

    #[test]
    fn nothing_counted_is_no_success() {
        let now = counts("r", &[("S1", &[("nothing", 9.0), ("glibc", 90.0)])]);
        assert!(matches!(verdict(&rows(&now, None), Vec::new()), Outcome::Failed(_)));
    }

    #[test]
    fn the_table_has_the_loop_taken_off_and_says_what_it_is_true_of() {
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
    fn another_compiler_is_not_compared_and_cannot_be_mixed_in() {
        let record = counts("old", &[("S1", &[("ring", 20.0)])]);
        let now = counts("new", &[("S1", &[("ring", 90.0)])]);
        let Outcome::Skipped(why) = super::judged(&now, &record, true) else {
            panic!("figures of another compiler prove nothing");
        };
        assert!(why.contains("rustc is new, recorded with old") && why.contains("rebase"), "{why}");
        assert!(merged(record, now).is_err());
    }

    #[test]
    fn a_narrow_rebase_leaves_the_rest_of_the_record() {
        let record = counts("r", &[("S1", &[("ring", 20.0)]), ("S2", &[("ring", 30.0)])]);
        let now = counts("r", &[("S2", &[("ring", 40.0)])]);
        assert_eq!(gone(&now, &record), ["S1 ring"]);
        let merged = merged(record, now).expect("the conditions are the same");
        assert!(gone(&merged, &merged.clone()).is_empty());
        let of = |id: &str| merged.workloads[id].instructions["ring"];
        assert_eq!((of("S1"), of("S2")), (20.0, 40.0));
    }
}
