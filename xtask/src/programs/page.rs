//! The report of a run: a text for the terminal and a Markdown page with the same tables.

use core::fmt::Write as _;

use anyhow::Result;
use ephemera_measure::grid::{aligned, piped};
use ephemera_measure::host;
use ephemera_measure::stats::Estimate;

use super::builds;
use super::catalogue::{
    ALLOCATORS, GeneralAllocator, MeasuredProgram, OURS, OWN, ProgramPlan, ProgramWay, REFERENCE, TWIN,
};
use super::figures::{self, POINTS, ProgramMeans, ProgramRun, ProgramState, ProgramTable};
use crate::workspace::Workspace;

/// The keys of the allocators that the bars compare our allocator with.
const RIVALS: [&str; 3] = ["mimalloc", "jemalloc", "snmalloc"];

/// The bar for our mean time over the third-party programs, as a ratio to the best mean time of
/// [`RIVALS`].
const TIME_OF_ALL: f64 = 0.90;
/// The bar for our time of each program, as a ratio to the best time of a rival for this program.
const TIME_OF_ONE: f64 = 1.05;
/// The bars for our peak memory, as ratios to the peak of the rivals with these keys.
const PEAK: [(&str, f64); 2] = [("jemalloc", 1.0), ("mimalloc", 0.7)];

/// The heads of the columns in a program's table.
const HEAD: [&str; 11] = [
    "allocator",
    "ratio (95 % CI)",
    "verdict",
    "cpu ratio (95 % CI)",
    "ms",
    "user ms",
    "system ms",
    "peak MiB",
    "peak ratio",
    "mean MiB",
    NOTES,
];

/// The head of the last column. The cells of this column are long, because they state why a row has
/// no figures.
const NOTES: &str = "notes";

/// The text that explains the columns to a reader of the report.
const LEGEND: &str = "Ratios are to glibc, and below 1 is faster or smaller. The ratio of elapsed time is a median of paired rounds with a 95 % \
interval, and so is that of processor time (cpu: user and system). Times and memory are medians of rounds. Peak: the most resident memory. Mean: resident memory, averaged over the \
run's time. A verdict other than ≈ needs a 99 % interval that excludes 1, and a difference of more than 1 % and of more than three times that of the A/A pair.";

/// The rows of a table, as cells. The first row is the head.
type Grid = Vec<Vec<String>>;

/// The conditions and the results of a run, ready to be printed.
#[derive(Debug)]
pub(super) struct ProgramReport {
    /// The conditions of the run, as pairs of a name and a value.
    facts: Vec<(&'static str, String)>,
    /// The programs of the run: each name with its version, and what the program does.
    programs: Vec<(String, &'static str)>,
    tables: Vec<ProgramTable>,
    /// The names of the programs that run with each allocator preloaded, not linked.
    preloaded: Vec<&'static str>,
}

/// The conditions of a run: facts about the machine, and the programs with their versions.
#[derive(Debug)]
pub(super) struct ProgramFacts {
    facts: Vec<(&'static str, String)>,
    programs: Vec<(String, &'static str)>,
}

impl ProgramFacts {
    /// Returns the conditions as a Markdown list, without the programs.
    pub(super) fn list(&self) -> String {
        self.facts.iter().map(|(what, value)| format!("* {what}: {value}\n")).collect()
    }
}

/// Returns the conditions of a run that begins now. `load` is the load average before the programs
/// were built.
///
/// # Errors
/// Returns an error if the lock file of the programs cannot be read.
pub(super) fn facts(ws: &Workspace, plan: &ProgramPlan, load: Option<String>) -> Result<ProgramFacts> {
    let known = |fact: Option<String>| fact.unwrap_or_else(host::unknown);
    let versions = builds::versions(ws)?;
    let versioned = |name: &str, package: &str| {
        let version = versions.get(package).map_or("of an unknown version", String::as_str);
        // The version of jemalloc's package ends with a commit, which the page leaves out.
        format!("{name} {}", version.split_once("-0-g").map_or(version, |(version, _)| version))
    };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let load = known(load);
    let busy = load.split(' ').next().and_then(|one| one.parse::<f64>().ok()).is_some_and(|one| one > 0.5);
    let warning = if busy { ". The machine had other work: do not rely on the times" } else { "" };
    let contenders = plan.allocators.iter().filter_map(|one| Some(versioned(one.label, one.package?)));
    let facts = vec![
        ("commit", host::commit(&ws.root)),
        ("run", format!("{} rounds, seed {}", plan.rounds, plan.seed)),
        ("cpu", format!("{}, {cpus} CPUs", known(host::cpu()))),
        (
            "system",
            format!(
                "{} {}, {}, huge pages {}",
                std::env::consts::OS,
                known(host::file("/proc/sys/kernel/osrelease")),
                known(host::first_line("getconf", &["GNU_LIBC_VERSION"])),
                known(host::huge_pages())
            ),
        ),
        ("build", format!("{}, release with thin LTO", known(host::first_line("rustc", &["--version"])))),
        ("load before the build", format!("{load}{warning}")),
        ("contenders", contenders.collect::<Vec<_>>().join(", ")),
    ];
    let programs = plan.programs.iter();
    let named = |one: &MeasuredProgram| match one.way {
        ProgramWay::Linked { package } => versioned(one.name, package),
        ProgramWay::Preloaded(command) => {
            let version = known(host::first_line(command.program, &["--version"]));
            format!("{}, preloaded ({version})", one.name)
        }
    };
    let programs = programs.map(|one| (named(one), one.what)).collect();
    Ok(ProgramFacts { facts, programs })
}

impl ProgramReport {
    pub(super) fn new(plan: &ProgramPlan, facts: ProgramFacts, runs: &[ProgramRun]) -> Self {
        let table = |name| figures::table(name, &plan.allocators, plan.rounds, runs);
        let tables = plan.programs.iter().map(|program| table(program.name)).collect();
        let preloaded = plan.programs.iter().filter(|program| program.command().is_some());
        let preloaded = preloaded.map(|program| program.name).collect();
        Self { facts: facts.facts, programs: facts.programs, tables, preloaded }
    }

    /// Returns whether every contender ran every program with the reference's result.
    pub(super) fn is_whole(&self) -> bool {
        self.tables.iter().flat_map(|table| &table.cells).all(|cell| cell.figures().is_some())
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for (what, value) in &self.facts {
            let _ = writeln!(out, "{what}: {value}");
        }
        for (title, grid, remark) in self.sections() {
            let _ = write!(out, "\n{title}\n{}", lines(&grid));
            if !remark.is_empty() {
                let _ = writeln!(out, "{remark}");
            }
        }
        let _ = writeln!(out, "\n{LEGEND}");
        out
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = String::from(
            "# Real programs\n\n`cargo xtask bench --programs --record` writes this page. Each program is linked with each allocator, or runs over its preloaded library. \
             A round runs every program over every allocator in random order, each in a process of its own. All outputs of a program \
             have the same checksum; an allocator with another one has no figures. [Methodology](methodology.md#real-programs) says \
             more.\n\n",
        );
        for (what, value) in &self.facts {
            let _ = writeln!(out, "* {what}: {value}");
        }
        let _ = writeln!(out, "\n{LEGEND}\n\n| program | what it does |\n|---|---|");
        for (name, what) in &self.programs {
            let _ = writeln!(out, "| {name} | {what} |");
        }
        for (title, grid, remark) in self.sections() {
            let _ = write!(out, "\n## {title}\n\n{}", piped(&grid));
            if !remark.is_empty() {
                let _ = writeln!(out, "\n{remark}");
            }
        }
        out
    }

    /// Returns the sections of the report. Each has a title, a table, and a remark, which can be
    /// empty.
    fn sections(&self) -> Vec<(String, Grid, String)> {
        let mut sections = Vec::new();
        let is_preloaded = |table: &&ProgramTable| self.preloaded.contains(&table.program.as_str());
        // The means include only programs that others wrote.
        let others = || self.tables.iter().filter(|table| table.program != OWN);
        let (preloaded, linked): (Vec<_>, Vec<_>) = others().partition(is_preloaded);
        for (tables, what) in [(&linked, "linked"), (&preloaded, "preloaded")] {
            if tables.is_empty() {
                continue;
            }
            let (means, common) = figures::means(tables);
            let remark = match tables.len() - common {
                0 => String::new(),
                left_out => format!("Programs that not every contender ran are left out: {left_out}."),
            };
            sections.push((format!("Geometric means, {what} programs: {common}"), summary(&means), remark));
        }
        if let Some(bars) = self.bars(&figures::means(&others().collect::<Vec<_>>()).0) {
            sections.push(("Ours and the others".to_owned(), bars, String::new()));
        }
        for table in &self.tables {
            let grid: Grid = core::iter::once(HEAD.map(str::to_owned).to_vec()).chain(rows(table)).collect();
            sections.push((table.program.clone(), grid, caveat(table)));
        }
        let remark = "Resident MiB in the middle of each tenth of the elapsed time.".to_owned();
        sections.push(("Memory over time".to_owned(), self.courses(), remark));
        sections
    }

    /// Returns the table that compares our allocator with [`RIVALS`] and with the bars. Returns
    /// `None` if the run lacks figures of our allocator or of a rival.
    fn bars(&self, means: &[ProgramMeans]) -> Option<Grid> {
        let of = |key: &str| means.iter().find(|means| means.allocator.key == key);
        let ours = of(OURS)?;
        let rivals = RIVALS.map(of).into_iter().collect::<Option<Vec<_>>>()?;
        let time = |means: &&ProgramMeans| Some((means.ratio?.mid, means.allocator.label));
        let best = rivals.iter().filter_map(time).min_by(|one, other| one.0.total_cmp(&other.0))?;
        let mut grid = vec![["bar", "at most", "measured", "met"].map(str::to_owned).to_vec()];
        let mut judge = |what: String, at_most: f64, measured: f64| {
            let met = if measured <= at_most { "yes" } else { "no" };
            grid.push(vec![what, format!("{at_most:.2}"), format!("{measured:.3}"), met.to_owned()]);
        };
        judge(format!("time, of the best by its mean: {}", best.1), TIME_OF_ALL, ours.ratio?.mid / best.0);
        for table in &self.tables {
            let time = |key: &'static str| Some((table.of(key)?.ratio?.mid, key));
            let best = RIVALS.into_iter().filter_map(time).min_by(|one, other| one.0.total_cmp(&other.0));
            if let (Some((own, _)), Some((least, key))) = (time(OURS), best) {
                judge(format!("time of {}, of the best: {key}", table.program), TIME_OF_ONE, own / least);
            }
        }
        for (key, at_most) in PEAK {
            judge(format!("peak memory, of {key}"), at_most, ours.peak / of(key)?.peak);
        }
        Some(grid)
    }

    fn courses(&self) -> Grid {
        let points = (0..POINTS).map(|point| format!("{} %", 100 * point / POINTS + 50 / POINTS));
        let head = ["program", "allocator"].into_iter().map(str::to_owned).chain(points).collect();
        let mut grid = vec![head];
        for table in &self.tables {
            for cell in table.cells.iter().filter(|cell| cell.allocator.key != TWIN) {
                let Some(figures) = cell.figures() else { continue };
                let points = figures.over_time.iter().map(|&bytes| mib(bytes));
                let names = [table.program.as_str(), cell.allocator.label].map(str::to_owned);
                grid.push(names.into_iter().chain(points).collect());
            }
        }
        grid
    }
}

/// Returns a warning if the ratio of the reference's two entries differs from 1 by more than 0.1,
/// or if its 95 % interval excludes 1. Otherwise, returns an empty string.
fn caveat(table: &ProgramTable) -> String {
    match table.aa {
        Some(aa) if aa.excludes_one() || (aa.mid - 1.0).abs() > 0.1 => {
            format!("Not trusted: the reference against itself is {aa}.")
        }
        _ => String::new(),
    }
}

fn summary(means: &[ProgramMeans]) -> Grid {
    let head =
        ["allocator", "time ratio (95 % CI)", "cpu ratio (95 % CI)", "peak ratio", "mean memory ratio"];
    let mut grid = vec![head.map(str::to_owned).to_vec()];
    for row in means {
        let of_reference = is_reference(&row.allocator);
        grid.push(vec![
            row.allocator.label.to_owned(),
            shown(row.ratio, of_reference),
            shown(row.cpu, of_reference),
            format!("{:.3}", row.peak),
            format!("{:.3}", row.mean),
        ]);
    }
    grid
}

fn rows(table: &ProgramTable) -> impl Iterator<Item = Vec<String>> {
    table.cells.iter().map(|cell| {
        let label = cell.allocator.label.to_owned();
        let dash = || "–".to_owned();
        let figures = match &cell.state {
            ProgramState::Ran(figures) => figures,
            ProgramState::Failed(why) => return without(label, "failed", why),
            ProgramState::Wrong(what) => return without(label, "wrong", what),
        };
        let of_reference = is_reference(&cell.allocator);
        let peak = table.reference().map(|reference| figures.peak / reference.peak);
        vec![
            label,
            shown(figures.ratio, of_reference),
            if of_reference {
                "ref".to_owned()
            } else {
                figures.verdict.map_or_else(dash, |verdict| verdict.word().to_owned())
            },
            shown(figures.cpu, of_reference),
            format!("{:.0}", figures.wall_ms),
            format!("{:.0}", figures.user_ms),
            format!("{:.0}", figures.system_ms),
            mib(figures.peak),
            peak.map_or_else(dash, |ratio| format!("{ratio:.3}")),
            mib(figures.mean),
            String::new(),
        ]
    })
}

/// Returns a row without figures, with the reason in its last cell.
fn without(label: String, verdict: &str, why: &str) -> Vec<String> {
    let mut row = vec!["–".to_owned(); HEAD.len()];
    row[0] = label;
    row[2] = verdict.to_owned();
    row[HEAD.len() - 1] = why.to_owned();
    row
}

/// Returns a ratio with its interval, or a dash without a ratio. The ratio of the reference is 1 by
/// definition.
fn shown(ratio: Option<Estimate>, of_reference: bool) -> String {
    match ratio {
        _ if of_reference => "1.000".to_owned(),
        Some(ratio) => ratio.to_string(),
        None => "–".to_owned(),
    }
}

fn is_reference(allocator: &GeneralAllocator) -> bool {
    *allocator == ALLOCATORS[REFERENCE]
}

fn mib(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}

/// Returns a table as text. The first column and the notes are aligned to the left, the other
/// columns to the right.
fn lines(grid: &Grid) -> String {
    aligned(grid, |column| column > 0 && grid[0].get(column).is_none_or(|head| head != NOTES), false)
}

#[cfg(test)]
mod tests;
