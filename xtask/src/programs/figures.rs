//! Turns runs into tables: ratios of paired rounds with intervals, memory, and means over programs.

use ephemera_measure::stats::{DRAWS, Estimate, Verdict, estimate, median, verdict};
use serde::Serialize;

use super::catalogue::{ALLOCATORS, GeneralAllocator, REFERENCE, TWIN};
use super::process::ProcessFigures;

/// The seed of the random draws for confidence intervals. It is constant, so the same runs always
/// give the same intervals.
const DRAWN_WITH: u64 = 1;

/// The number of points in a curve of memory over time.
pub(super) const POINTS: usize = 10;

/// One process, as a line of `programs.jsonl`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ProgramRun {
    pub(super) program: String,
    pub(super) contender: &'static str,
    pub(super) round: u32,
    #[serde(flatten)]
    pub(super) ended: ProgramEnd,
}

/// The outcome of a process.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(super) enum ProgramEnd {
    /// The process succeeded.
    Ran {
        /// The checksum that the process printed. For a command that prints none, a hash of its
        /// output.
        checksum: String,
        #[serde(flatten)]
        figures: ProcessFigures,
    },
    /// The process failed, or could not be started.
    Failed { reason: String },
}

/// The result of one program over one allocator.
#[derive(Debug, Clone)]
pub(super) struct ProgramCell {
    pub(super) allocator: GeneralAllocator,
    pub(super) state: ProgramState,
}

/// The state of a cell.
#[derive(Debug, Clone)]
pub(super) enum ProgramState {
    /// Every process succeeded, and its output equals the reference's output if the reference has
    /// one.
    Ran(Box<CellFigures>),
    Failed(String),
    /// An output differs from the reference's output.
    Wrong(String),
}

/// The figures of a cell. Ratios are to the reference.
#[derive(Debug, Clone)]
pub(super) struct CellFigures {
    /// The ratio of the elapsed time, or `None` if no round has a figure of both contenders.
    pub(super) ratio: Option<Estimate>,
    pub(super) verdict: Option<Verdict>,
    /// The ratio of the processor time, which is the sum of the time in the kernel and the time
    /// outside of it, or `None` if `ratio` is `None`.
    pub(super) cpu: Option<Estimate>,
    /// The medians over rounds, in milliseconds: the elapsed time, the processor time outside of
    /// the kernel, and the processor time in the kernel.
    pub(super) wall_ms: f64,
    pub(super) user_ms: f64,
    pub(super) system_ms: f64,
    /// The median over rounds of the peak number of resident bytes.
    pub(super) peak: f64,
    /// The median over rounds of the mean of resident bytes over time.
    pub(super) mean: f64,
    /// The resident bytes in the middle of each tenth of the elapsed time, as medians over rounds.
    pub(super) over_time: [f64; POINTS],
    /// The logarithms of both ratios in each round, or `None` if the contender or the reference has
    /// no figure in the round.
    logs: Vec<Option<f64>>,
    cpu_logs: Vec<Option<f64>>,
}

/// A table: one program over every allocator.
#[derive(Debug)]
pub(super) struct ProgramTable {
    pub(super) program: String,
    pub(super) cells: Vec<ProgramCell>,
    /// The ratio of the reference's second entry to the reference, or `None` if an entry lacks
    /// figures.
    pub(super) aa: Option<Estimate>,
}

/// The means of one allocator over the programs that every allocator ran.
#[derive(Debug)]
pub(super) struct ProgramMeans {
    pub(super) allocator: GeneralAllocator,
    /// The geometric mean of the ratios of elapsed time.
    pub(super) ratio: Option<Estimate>,
    /// The geometric mean of the ratios of processor time.
    pub(super) cpu: Option<Estimate>,
    /// The geometric mean of the ratios of peak memory.
    pub(super) peak: f64,
    /// The geometric mean of the ratios of the mean resident bytes.
    pub(super) mean: f64,
}

pub(super) fn table(
    program: &str,
    allocators: &[GeneralAllocator],
    rounds: u32,
    runs: &[ProgramRun],
) -> ProgramTable {
    let of = |key: &str| -> Vec<&ProgramRun> {
        runs.iter().filter(|run| run.program == program && run.contender == key).collect()
    };
    let reference = of(ALLOCATORS[REFERENCE].key);
    let mut cells: Vec<_> = allocators
        .iter()
        .map(|&allocator| ProgramCell { allocator, state: state(&of(allocator.key), &reference, rounds) })
        .collect();
    let aa = cells.iter().find(|cell| cell.allocator.key == TWIN).and_then(|cell| cell.figures()?.ratio);
    let floor = aa.map_or(0.0, |aa| (aa.mid - 1.0).abs());
    for cell in &mut cells {
        if let ProgramState::Ran(figures) = &mut cell.state {
            figures.verdict = figures.ratio.map(|ratio| verdict(&ratio, floor));
        }
    }
    ProgramTable { program: program.to_owned(), cells, aa }
}

impl ProgramCell {
    /// Returns the figures, or `None` if the allocator failed the program or gave a wrong result.
    pub(super) fn figures(&self) -> Option<&CellFigures> {
        match &self.state {
            ProgramState::Ran(figures) => Some(figures),
            ProgramState::Failed(_) | ProgramState::Wrong(_) => None,
        }
    }
}

impl ProgramTable {
    /// Returns the figures of the allocator with this key, or `None` if the table lacks them.
    pub(super) fn of(&self, key: &str) -> Option<&CellFigures> {
        self.cells.iter().find(|cell| cell.allocator.key == key)?.figures()
    }

    pub(super) fn reference(&self) -> Option<&CellFigures> {
        self.of(ALLOCATORS[REFERENCE].key)
    }
}

/// Returns the state of a cell from its runs and the reference's runs.
fn state(runs: &[&ProgramRun], reference: &[&ProgramRun], rounds: u32) -> ProgramState {
    let failed = runs.iter().find_map(|run| match &run.ended {
        ProgramEnd::Failed { reason } => Some(reason),
        ProgramEnd::Ran { .. } => None,
    });
    if let Some(reason) = failed {
        return ProgramState::Failed(reason.clone());
    }
    let expected = reference.iter().find_map(|run| Some(ended(run)?.0));
    let other =
        runs.iter().filter_map(|run| Some(ended(run)?.0)).find(|own| expected.is_some_and(|all| *own != all));
    if let (Some(own), Some(expected)) = (other, expected) {
        return ProgramState::Wrong(format!("its checksum is {own}, and the reference's {expected}"));
    }
    match figures(runs, reference, rounds) {
        Some(figures) => ProgramState::Ran(Box::new(figures)),
        None => ProgramState::Failed("it did not run".to_owned()),
    }
}

/// Returns the checksum and the figures of a process that succeeded, otherwise `None`.
fn ended(run: &ProgramRun) -> Option<(&str, &ProcessFigures)> {
    match &run.ended {
        ProgramEnd::Ran { checksum, figures } => Some((checksum, figures)),
        ProgramEnd::Failed { .. } => None,
    }
}

fn figures(runs: &[&ProgramRun], reference: &[&ProgramRun], rounds: u32) -> Option<CellFigures> {
    let all: Vec<_> = runs.iter().filter_map(|run| Some(ended(run)?.1)).collect();
    let middle = |value: &dyn Fn(&ProcessFigures) -> f64| {
        median(&mut all.iter().map(|figures| value(figures)).collect::<Vec<_>>())
    };
    let logs = |time: &dyn Fn(&ProcessFigures) -> u64| -> Vec<Option<f64>> {
        let in_round = |runs: &[&ProgramRun], round: u32| {
            runs.iter().find(|run| run.round == round).and_then(|run| Some(time(ended(run)?.1) as f64))
        };
        let pair = |round| Some((in_round(runs, round)? / in_round(reference, round)?).ln());
        (0..rounds).map(pair).collect()
    };
    let (wall, cpu) =
        (logs(&|figures| figures.wall_ns), logs(&|figures| figures.user_ns + figures.system_ns));
    let mut over_time = [0.0; POINTS];
    for (point, bytes) in over_time.iter_mut().enumerate() {
        *bytes = middle(&|figures| course(figures)[point])?;
    }
    Some(CellFigures {
        ratio: ratio(&wall),
        verdict: None,
        cpu: ratio(&cpu),
        wall_ms: middle(&|figures| figures.wall_ns as f64 / 1e6)?,
        user_ms: middle(&|figures| figures.user_ns as f64 / 1e6)?,
        system_ms: middle(&|figures| figures.system_ns as f64 / 1e6)?,
        peak: middle(&|figures| figures.peak_bytes as f64)?,
        mean: middle(&mean)?,
        over_time,
        logs: wall,
        cpu_logs: cpu,
    })
}

/// Estimates a ratio from its logarithm in each round. The rounds are independent samples, because
/// each round has its own processes. The interval of a single round is unbounded, because nothing
/// is known about the error of the round. Returns `None` if no round has a logarithm.
fn ratio(logs: &[Option<f64>]) -> Option<Estimate> {
    let rounds: Vec<_> = logs.iter().flatten().map(|&log| vec![log]).collect();
    let mut found = estimate(&rounds, DRAWS, DRAWN_WITH)?;
    if rounds.len() == 1 {
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        found = Estimate { mid: found.mid, low95: low, high95: high, low99: low, high99: high };
    }
    Some(found.map(f64::exp))
}

/// Returns the mean of the resident bytes over time, or the peak if there is no reading. Each
/// reading counts until the next one.
fn mean(figures: &ProcessFigures) -> f64 {
    let ends = figures.resident.iter().skip(1).map(|&(at, _)| at).chain([figures.wall_ns]);
    let (mut area, mut time) = (0.0, 0.0);
    for (&(at, bytes), end) in figures.resident.iter().zip(ends) {
        let held = end.saturating_sub(at) as f64;
        area += held * bytes as f64;
        time += held;
    }
    if time > 0.0 { area / time } else { figures.peak_bytes as f64 }
}

/// Returns the resident bytes in the middle of each tenth of the elapsed time.
fn course(figures: &ProcessFigures) -> [f64; POINTS] {
    core::array::from_fn(|point| {
        let at = figures.wall_ns as f64 * (point as f64 + 0.5) / POINTS as f64;
        let before = figures.resident.iter().take_while(|(time, _)| *time as f64 <= at).last();
        before.or(figures.resident.first()).map_or(0.0, |&(_, bytes)| bytes as f64)
    })
}

/// Returns the means of each allocator over the programs that every allocator ran, and the number
/// of these programs. An allocator that ran no program is left out.
pub(super) fn means(tables: &[&ProgramTable]) -> (Vec<ProgramMeans>, usize) {
    let Some(first) = tables.first() else { return (Vec::new(), 0) };
    let ran = |allocator: &GeneralAllocator| tables.iter().any(|table| table.of(allocator.key).is_some());
    let allocators: Vec<_> = first.cells.iter().map(|cell| cell.allocator).filter(ran).collect();
    let whole = |table: &&&ProgramTable| {
        table.reference().is_some() && allocators.iter().all(|allocator| table.of(allocator.key).is_some())
    };
    let common: Vec<_> = tables.iter().filter(whole).collect();
    let means = allocators.into_iter().map(|allocator| {
        let rows: Vec<_> = common.iter().filter_map(|table| table.of(allocator.key)).collect();
        let geometric = |value: &dyn Fn(&CellFigures) -> f64| {
            let log = |table: &&&ProgramTable| {
                Some((value(table.of(allocator.key)?) / value(table.reference()?)).ln())
            };
            let logs: Vec<f64> = common.iter().filter_map(log).collect();
            (logs.iter().sum::<f64>() / logs.len() as f64).exp()
        };
        let over_rounds = |logs: &dyn Fn(&CellFigures) -> &[Option<f64>]| {
            let rounds = rows.iter().map(|row| logs(row).len()).max()?;
            let in_round = |round: usize| {
                let all: Option<Vec<f64>> = rows.iter().map(|row| *logs(row).get(round)?).collect();
                all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
            };
            ratio(&(0..rounds).map(in_round).collect::<Vec<_>>())
        };
        ProgramMeans {
            allocator,
            ratio: over_rounds(&|row| &row.logs),
            cpu: over_rounds(&|row| &row.cpu_logs),
            peak: geometric(&|row| row.peak),
            mean: geometric(&|row| row.mean),
        }
    });
    (means.collect(), common.len())
}

#[cfg(test)]
mod tests;
