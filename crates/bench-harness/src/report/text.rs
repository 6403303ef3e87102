//! The tables as text: aligned for a terminal, and as a Markdown page. Both have the same cells.

use core::fmt::Write;

use ephemera_measure::grid::{self, piped};

use super::alone;
use super::cells::{bytes, dash, interval, lines, ns};
use super::matrix::Matrix;
use super::model::{BenchReport, ReportRow, ReportTable};
use crate::contenders::REFERENCE;
use crate::os;
use crate::runner::{ContenderState, Latencies};
use crate::workloads::WorkloadSpec;

const HEAD: [&str; 9] = [
    "allocator",
    "ratio (95 % CI)",
    "verdict",
    "ns/op",
    "net ns",
    "net ratio (95 % CI)",
    "peak",
    "peak/live",
    "notes",
];

/// The smallest peak of live bytes for which a table shows the peak memory as a multiple of the
/// live bytes.
const SHARE_FROM: u64 = 64 * 1024;

/// The text that explains the columns. A report prints it once.
pub(super) const LEGEND: &str = "ratio: median of paired ratios to the reference, below 1 is faster. net: the ratio without the cost of the \
loop. peak: bytes taken from the system in a separate process; `*`: counted by a backing allocator, otherwise the \
growth of the resident set. `–`: cannot run this workload.";

fn cells(row: &ReportRow, reference: bool) -> Vec<String> {
    let ratio = if reference { "1.000".to_owned() } else { dash(row.ratio, interval) };
    let net = if reference { "1.000".to_owned() } else { dash(row.net_ratio, interval) };
    let verdict = match (&row.state, reference) {
        (ContenderState::Crashed(_), _) => "crashed".to_owned(),
        (ContenderState::Wrong(_), _) => "wrong".to_owned(),
        (_, true) => "ref".to_owned(),
        _ => dash(row.verdict, |verdict| verdict.word().to_owned()),
    };
    let memory = row.memory.as_ref();
    // With few live bytes, the multiple would mostly show the fixed size of the library.
    let live = memory.filter(|memory| memory.peak_live >= SHARE_FROM);
    vec![
        row.named(),
        ratio,
        verdict,
        dash(row.ns, ns),
        dash(row.net_ns, ns),
        net,
        dash(memory, |memory| bytes(memory.peak) + if memory.exact { "*" } else { "" }),
        dash(live, |memory| format!("{:.2}", memory.peak as f64 / memory.peak_live as f64)),
        row.note(),
    ]
}

/// Returns the rows of cells of a table, with the head first.
pub(super) fn grid(table: &ReportTable) -> Vec<Vec<String>> {
    if table.spec.is_alone() {
        return alone::grid(table);
    }
    let reference = table.rows.get(REFERENCE).map(|row| row.key);
    grid::grid(HEAD, table.rows.iter().map(|row| cells(row, Some(row.key) == reference)))
}

/// Returns a line that states the load, and the latencies of a table as rows. Returns `None` if the
/// table has no latencies, or if its own rows show them.
pub(super) fn latencies(table: &ReportTable) -> Option<(String, Vec<Vec<String>>)> {
    let measured = || table.rows.iter().filter_map(|row| Some((row.name, row.latencies.as_ref()?)));
    let (_, first) = measured().next().filter(|_| !table.spec.is_alone())?;
    let line = match first.rate {
        Some(rate) => format!(
            "{}, open loop, {rate:.0} requests a second (60 % of the reference's rate in the closed loop), {} for each contender",
            table.spec.id, first.requests
        ),
        None => format!("{}, the time of each {}, one after the other", table.spec.id, table.spec.op),
    };
    let micros = |ns: u64| format!("{:.1}", ns as f64 / 1000.0);
    let cells = |(name, of): (&str, &Latencies)| {
        [name.to_owned(), micros(of.p50), micros(of.p99), micros(of.p999), micros(of.max)].to_vec()
    };
    let head = ["allocator", "p50 µs", "p99 µs", "p99.9 µs", "longest µs"];
    Some((line, grid::grid(head, measured().map(cells))))
}

fn heading(table: &ReportTable) -> String {
    let WorkloadSpec { id, title, op, .. } = &table.spec;
    if table.spec.is_alone() {
        return format!("{id}: {title}");
    }
    let aa = table.aa.map_or("not run".to_owned(), interval);
    let mut line = format!("{id}: {title}; ns per {op}; A/A {aa}");
    if table.contaminated > 0.2 {
        let _ = write!(line, "; {:.0} % of rounds contaminated", table.contaminated * 100.0);
    }
    line
}

pub(super) const UNTRUSTED: &str = "UNTRUSTED: the reference differs from itself in this table";

pub(super) fn bar_grid(report: &BenchReport) -> Vec<Vec<String>> {
    let head = ["workload", "allocator", "against", "costs", "at most", "measured (95 % CI)", ""];
    let row = |key: &str| report.tables.iter().find_map(|table| table.row(key));
    let name = |key: &str| row(key).map_or(key, |row| row.name).to_owned();
    grid::grid(head, report.bars.iter().map(|bar| bar.cells(name)))
}

/// Returns a text that says how the process is pinned, and which kinds of interference this system
/// counts.
fn isolation() -> String {
    let pinned = os::cpus()
        .last()
        .map_or("not pinned: not available here".to_owned(), |cpu| format!("pinned to CPU {cpu}"));
    let switches = if os::usage(os::Who::Thread).is_some() { "counted" } else { "not available here" };
    let steal = if os::steal().is_some() { "counted" } else { "not available here" };
    format!("{pinned}; involuntary switches {switches}; stolen time {steal}")
}

/// Returns the facts about the host and its costs, each with a name.
pub fn host_block(report: &BenchReport) -> Vec<(&'static str, String)> {
    let (host, cal) = (&report.host, &report.calibration);
    let versions: Vec<String> = host
        .contenders
        .iter()
        .filter(|(name, version)| version != "none" && !name.starts_with("A/A"))
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let mut block = vec![
        ("cpu", format!("{}, {} CPUs", host.cpu, host.cpus)),
        ("system", format!("{}, {}, huge pages {}", host.kernel, host.libc, host.huge_pages)),
        ("build", format!("{}, {}, {}", host.rustc, host.target, host.profile)),
        ("commit", host.commit.clone()),
        ("contenders", versions.join(", ")),
        ("document", report.document.clone()),
        (
            "trials",
            format!(
                "{} processes of up to {} rounds, seed {}",
                report.trials.0, report.trials.1, report.seed
            ),
        ),
        (
            "load",
            format!(
                "{} at the start; {} ticks stolen so far",
                host.load,
                dash(host.steal, |n| n.to_string())
            ),
        ),
        ("isolation", isolation()),
        ("loop", format!("{:.2} ns; pair over nothing {:.2} ns", cal.loop_ns, cal.void_pair_ns)),
        ("atomic addition", format!("{:.1} ns", cal.rmw_ns)),
        (
            "clock",
            format!(
                "{:.0} ns for nothing, {:.0} ns at 99.9 %, {:.1} µs at worst, steps of {:.0} ns",
                cal.timer_median_ns,
                cal.timer_p999_ns,
                cal.timer_max_ns / 1000.0,
                cal.timer_step_ns
            ),
        ),
        ("A/A floor", format!("{:.3} %", cal.aa_floor * 100.0)),
        ("false sharing", dash(cal.false_sharing, |factor| format!("{factor:.1} times slower on one line"))),
    ];
    if !report.left_to_full.is_empty() {
        block.push(("left to --full", report.left_to_full.join(", ")));
    }
    block
}

/// Returns a table for a terminal.
pub fn terminal_table(table: &ReportTable) -> String {
    format!("\n{}\n{}", heading(table), contents(table, false))
}

/// Returns a table without its heading, for a Markdown page or for a terminal.
fn contents(table: &ReportTable, markdown: bool) -> String {
    let mut text = String::new();
    let (stop, gap) = if markdown { (".\n\n", "\n") } else { ("\n", "") };
    if table.spec.is_alone() {
        text += &(alone::legend(table) + stop);
    } else if !table.trusted {
        text += &if markdown { format!("**{UNTRUSTED}.**\n\n") } else { format!("!! {UNTRUSTED}\n") };
    }
    let shown = if markdown { piped } else { lines };
    text += &(shown(&grid(table)) + gap);
    if let Some((line, grid)) = latencies(table) {
        let _ = writeln!(text, "{line}{}\n{}", if markdown { ":\n" } else { "" }, shown(&grid));
    }
    text
}

/// Returns the part of the report that follows all tables on a terminal.
pub fn terminal_end(report: &BenchReport) -> String {
    let mut text = format!("\n{LEGEND}\n");
    for (class, matrix) in Matrix::all(report) {
        let _ = writeln!(text, "\nRatios to the reference, {}\n{}", class.word(), lines(&matrix.grid()));
    }
    if !report.bars.is_empty() {
        let _ = writeln!(text, "\nBars\n{}", lines(&bar_grid(report)));
    }
    text
}

/// Returns the report as a Markdown page.
pub fn markdown(report: &BenchReport) -> String {
    let mut text = format!("# Allocators compared ({})\n\n| | |\n|---|---|\n", report.mode);
    for (name, value) in host_block(report) {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    let _ = writeln!(text, "\n{LEGEND}\n");
    for table in report.tables.iter().chain(&report.alone) {
        let _ = write!(text, "### {}\n\n{}", heading(table), contents(table, true));
    }
    for (class, matrix) in Matrix::all(report) {
        let _ = writeln!(
            text,
            "## Ratios to the reference, {}\n\nBelow 1 is faster. A mean over unlike workloads says little.\n",
            class.word()
        );
        let _ = writeln!(text, "{}", piped(&matrix.grid()));
    }
    if !report.bars.is_empty() {
        let _ = writeln!(text, "## Bars\n\n{}", piped(&bar_grid(report)));
    }
    text
}
