//! The tables of `cargo xtask coherence`.

use core::fmt::Write as _;
use std::path::Path;

use ephemera_coherence::catalogue::{TracedContender, TracedWorkload};
use ephemera_coherence::{LineRegion, Measured};
use ephemera_measure::host;

use super::run::{Figure, Plan};

/// Returns the page: the facts of the run, and a table for each workload.
pub(super) fn page(root: &Path, plan: &Plan, figures: &[Figure]) -> String {
    let valgrind = host::first_line("valgrind", &["--version"]).unwrap_or_else(host::unknown);
    let rustc = host::first_line("rustc", &["--version"]).unwrap_or_else(host::unknown);
    let cpu = host::cpu().unwrap_or_else(host::unknown);
    let mut page = format!(
        "Commit {}; traced by {valgrind} on {cpu}; {rustc}. Events between caches for each operation.\n",
        host::commit(root)
    );
    for &workload in &plan.workloads {
        let _ = write!(page, "\n### {}: {}\n\n", workload.name(), workload.title());
        page += &table(plan, workload, figures);
    }
    page
}

/// Returns the table of a workload: totals for each number of threads, and the parts of the total
/// for the largest number.
fn table(plan: &Plan, workload: TracedWorkload, figures: &[Figure]) -> String {
    let Some(&most) = plan.threads.last() else { return String::new() };
    let mut text = String::from("| allocator |");
    for threads in &plan.threads {
        let _ = write!(text, " {threads} cores |");
    }
    let _ = write!(text, " program, {most} cores |");
    text += " read | upgrade | transfer | blocks | headers | statics | stacks |\n|---|";
    text += &"---:|".repeat(plan.threads.len() + 1 + 3 + LineRegion::ALL.len());
    text += "\n";
    for contender in &plan.contenders {
        let of = |threads: usize| {
            let is_it = |figure: &&Figure| {
                (figure.workload, figure.contender, figure.threads) == (workload, contender.key, threads)
            };
            figures.iter().find(is_it).map(|figure| figure.measured)
        };
        text += &row(contender, &plan.threads.iter().map(|&threads| of(threads)).collect::<Vec<_>>());
    }
    text
}

fn row(contender: &TracedContender, measured: &[Option<Measured>]) -> String {
    let mut cells = vec![contender.name.to_owned()];
    cells.extend(measured.iter().map(|measured| {
        measured.map_or_else(dash, |measured| each(measured, measured.allocator.total().events()))
    }));
    let Some(Some(most)) = measured.last().copied() else {
        cells.extend(core::iter::repeat_with(dash).take(4 + LineRegion::ALL.len()));
        return format!("| {} |\n", cells.join(" | "));
    };
    let total = most.allocator.total();
    let parts = [most.program.total().events(), total.reads, total.upgrades, total.transfers];
    cells.extend(parts.map(|count| each(most, count)));
    cells.extend(LineRegion::ALL.map(|region| each(most, most.allocator[region].events())));
    format!("| {} |\n", cells.join(" | "))
}

fn dash() -> String {
    "–".to_owned()
}

/// Returns the text of `count` divided by the number of operations: `0`, or three decimals.
fn each(measured: Measured, count: u64) -> String {
    if count == 0 {
        return "0".to_owned();
    }
    format!("{:.3}", count as f64 / measured.operations as f64)
}

#[cfg(test)]
mod tests {
    use super::{Plan, table};
    use crate::coherence::run::Figure;
    use ephemera_coherence::catalogue::{CONTENDERS, TracedWorkload};
    use ephemera_coherence::{EventCounts, LineRegion, Measured};

    #[test]
    fn a_row_has_the_totals_and_the_parts_of_the_most_cores() {
        let mut measured = Measured { operations: 200, ..Measured::default() };
        measured.allocator[LineRegion::Blocks] = EventCounts { reads: 100, upgrades: 20, transfers: 30 };
        measured.allocator[LineRegion::Statics] = EventCounts { transfers: 50, ..EventCounts::default() };
        measured.program[LineRegion::Blocks] = EventCounts { reads: 400, ..EventCounts::default() };
        let figure =
            Figure { workload: TracedWorkload::Ring, contender: CONTENDERS[0].key, threads: 8, measured };
        let plan = Plan {
            threads: vec![2, 8],
            workloads: vec![TracedWorkload::Ring],
            contenders: vec![CONTENDERS[0], CONTENDERS[1]],
        };
        let text = table(&plan, TracedWorkload::Ring, &[figure]);
        let rows: Vec<_> = text.lines().collect();
        assert_eq!(
            rows[2],
            "| OneRingAlloc | – | 1.000 | 2.000 | 0.500 | 0.100 | 0.400 | 0.750 | 0 | 0.250 | 0 |"
        );
        assert_eq!(rows[3].matches('–').count(), 10, "nothing was counted: {}", rows[3]);
        for row in &rows {
            assert_eq!(row.matches('|').count(), rows[0].matches('|').count());
        }
    }
}
