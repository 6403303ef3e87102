//! The child process: builds the cells of one workload, and checks them, times them in rounds, or
//! measures their memory or latencies.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ephemera_measure::turns;
use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use rand::seq::SliceRandom;

use super::parent::chance;
use super::record::{
    AloneRun, Checked, Job, Latencies, Measurements, Mode, PeakMemory, RefusalCount, SampleSize, TimedSample,
};
use crate::contenders::{self, ALWAYS, Entry, REFERENCE};
use crate::tally::watch;
use crate::workloads::blocks::json::Document;
use crate::workloads::draws::stream;
use crate::workloads::nodes::Sources;
use crate::workloads::{AloneOrder, Cell, Context, Load, WorkloadSpec, catalogue};
use crate::{backing, buffers, os, tally};

/// The number of warm-up rounds. If samples are so long that the budget does not allow all planned
/// rounds, only the first warm-up round runs.
const WARM_UP: i32 = 3;
/// The minimum number of rounds that a child runs when it reduces them to fit its budget.
const FEWEST: i32 = 5;
/// The share of contaminated rounds above which a child adds rounds: up to half of the planned
/// number, if the budget allows them.
const TOO_MANY: f64 = 0.2;
/// The minimum time of the reference's sample, in nanoseconds, even if other contenders are slow.
const SHORTEST_NS: f64 = 300_000.0;

/// The approximate number of points at which a child records memory over time.
const POINTS: u64 = 60;

/// The environment variable in which tests name the contender in whose turn the process aborts.
const FAULT: &str = "EPHEMERA_TEST_FAULT";

/// Runs a job and writes its [`Measurements`] to `out` as JSON.
///
/// # Errors
///
/// Returns an error if the job names an unknown workload or contender, or if writing fails.
pub fn serve(job: &Job, out: &mut dyn Write) -> io::Result<()> {
    let start = Instant::now();
    let unknown = |what: &str| io::Error::other(format!("no such {what}"));
    let spec =
        catalogue().into_iter().find(|spec| spec.id == job.workload).ok_or_else(|| unknown("workload"))?;
    let known = contenders::of(spec.class);
    let find = |key: &String| {
        known.iter().find(|entry| entry.key == key).copied().ok_or_else(|| unknown("contender"))
    };
    let entries = job.contenders.iter().map(find).collect::<io::Result<Vec<Entry>>>()?;

    let mut cpus = os::cpus();
    // Processes that run at the same time are spread over the processors.
    let turn = job.lane % cpus.len().max(1);
    cpus.rotate_right(turn);
    if let Some(&cpu) = cpus.last() {
        os::pin(cpu);
    }
    // The child reads the input of the workload before it measures time or memory.
    let sources = Sources::new(job.corpus.as_deref());
    spec.prepare(&sources, job.seed);
    // Only R1 reads the document, so every other workload gets a short one.
    let read = job.document.as_deref().filter(|_| spec.parses());
    let length = if spec.parses() { job.document_length } else { 1000 };
    let document = Document::load(read, job.seed, length);
    let child = Child {
        spec: &spec,
        entries: &entries,
        job,
        start,
        context: Context {
            seed: job.seed,
            document: Arc::new(document),
            sources: Arc::new(sources),
            second_cpu: (cpus.len() > 1).then(|| cpus[0]),
        },
    };
    let mut turn = TurnNote::new(&job.marker)?;
    let mut found = Measurements::default();
    for entry in child.entries {
        turn.of(entry.key)?;
        match &job.mode {
            Mode::Check | Mode::CheckAndTime => found.checks.push(child.check(entry)),
            Mode::Time => break,
            Mode::Memory => found.memory.extend(child.memory(entry)),
            Mode::Latencies(load) => found.latencies.extend(child.latencies(entry, load)),
            Mode::Alone(order) => child.alone(entry, order, &mut found),
        }
    }
    if matches!(job.mode, Mode::CheckAndTime | Mode::Time) {
        child.time(&mut turn, &mut found)?;
    }
    serde_json::to_writer(&mut *out, &found)?;
    out.flush()
}

/// The file that names the contender of this turn. The parent reads it if this process dies.
struct TurnNote {
    note: File,
    /// The key of the contender in whose turn the process aborts, for tests.
    fault: Option<String>,
}

impl TurnNote {
    fn new(path: &Path) -> io::Result<Self> {
        let note = fs::OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
        Ok(Self { note, fault: std::env::var(FAULT).ok() })
    }

    fn of(&mut self, key: &str) -> io::Result<()> {
        self.note.rewind()?;
        // The line has a fixed width, so a shorter key overwrites all of a longer one.
        writeln!(self.note, "{key:<32}")?;
        if self.fault.as_deref() == Some(key) {
            std::process::abort();
        }
        Ok(())
    }
}

struct Child<'a> {
    spec: &'a WorkloadSpec,
    entries: &'a [Entry],
    job: &'a Job,
    /// The time at which the child started the job. The job's budget counts from this time.
    start: Instant,
    context: Context,
}

impl Child<'_> {
    /// Runs a contender with counters, then one unit without counters, as in a timed run.
    fn check(&self, entry: &Entry) -> Checked {
        let units = self.spec.check_units();
        tally::reset();
        let mut cell = (entry.counted)(self.spec, &self.context);
        let checksum = cell.run(units);
        let tally = tally::read();
        drop(cell);
        (entry.timed)(self.spec, &self.context).run(1);
        Checked { contender: entry.key.to_owned(), asked: self.spec.asked(units), tally, checksum }
    }

    /// Takes samples in rounds, and adds them to `found`.
    fn time(&self, turn: &mut TurnNote, found: &mut Measurements) -> io::Result<()> {
        let mut rng = stream(chance(), 6);
        // The order of set-up decides where each contender's memory lies, so each process draws its
        // own order.
        let mut set_up: Vec<usize> = (0..self.entries.len()).collect();
        set_up.shuffle(&mut rng);
        let mut cells: Vec<Option<Box<dyn Cell>>> = self.entries.iter().map(|_| None).collect();
        for &index in &set_up {
            turn.of(self.entries[index].key)?;
            cells[index] = Some((self.entries[index].timed)(self.spec, &self.context));
        }
        let mut cells: Vec<Box<dyn Cell>> = cells.into_iter().flatten().collect();
        let units = match self.job.units {
            Some(units) => units,
            None => self.sample_size(&mut cells, turn)?,
        };
        found.size = Some(SampleSize { units, ops_per_unit: cells[0].ops_per_unit() });

        let mut refusals = vec![0; cells.len()];
        let samples = &mut found.samples;
        let mut order: Vec<usize> = (0..cells.len()).collect();
        let mut planned = self.job.rounds as i32;
        let mut rounds = planned;
        let mut contaminated = 0;
        let mut round = -WARM_UP;
        while round < rounds {
            turns::next_round(&mut rng, &mut order);
            let before = os::steal();
            let start = samples.len();
            for &index in &order {
                turn.of(self.entries[index].key)?;
                let refused = buffers::refused();
                samples.push(self.sample(index, &mut *cells[index], units, round));
                refusals[index] += buffers::refused() - refused;
            }
            let steal = os::steal().zip(before).map(|(after, before)| after.saturating_sub(before));
            samples[start..].iter_mut().for_each(|sample| sample.steal = steal);
            if round == -WARM_UP {
                let afford = self.affordable(samples, &order);
                if afford < planned {
                    planned = afford.max(FEWEST);
                    rounds = planned;
                    // Long samples do not need further warm-up.
                    round = -1;
                }
            }
            round += 1;
            if round > 0 {
                contaminated += u32::from(samples[start..].iter().any(TimedSample::contaminated));
            }
            if round == planned && f64::from(contaminated) > TOO_MANY * f64::from(round) {
                rounds += (rounds / 2).min(self.affordable(samples, &order));
            }
        }
        let units = units * (samples.len() / order.len()) as u64;
        let asked = self.spec.asked(units).unwrap_or(units) - self.spec.asked(0).unwrap_or(0);
        for (entry, refused) in self.entries.iter().zip(refusals) {
            let contender = entry.key.to_owned();
            found.refusals.push(RefusalCount { contender, refused, asked });
        }
        // Each cell is dropped in its contender's turn, because the drop may crash.
        for (entry, cell) in self.entries.iter().zip(cells) {
            turn.of(entry.key)?;
            drop(cell);
        }
        Ok(())
    }

    /// Returns the number of rounds that fit into the rest of the budget, estimated from the
    /// samples so far.
    fn affordable(&self, samples: &[TimedSample], order: &[usize]) -> i32 {
        let took: f64 = samples.iter().map(|sample| sample.ns).sum();
        let rounds = samples.len() as f64 / order.len() as f64;
        let left = self.job.budget_ns - self.start.elapsed().as_secs_f64() * 1e9;
        (left.max(0.0) * rounds / took) as i32
    }

    fn sample(&self, index: usize, cell: &mut dyn Cell, units: u64, round: i32) -> TimedSample {
        // If two threads each have their own processor, an interruption of either thread spoils the
        // sample. Threads that share processors interrupt each other by design, so the sample
        // counts only the interruptions of this thread.
        let who = if self.spec.is_of_two() { os::Who::Process } else { os::Who::Thread };
        let before = os::usage(who);
        let start = Instant::now();
        core::hint::black_box(cell.run(core::hint::black_box(units)));
        let took = start.elapsed();
        let used = os::usage(who).zip(before);
        TimedSample {
            workload: self.spec.id.clone(),
            contender: self.entries[index].key.to_owned(),
            process: self.job.process,
            round,
            ns: took.as_secs_f64() * 1e9,
            ops: units * cell.ops_per_unit(),
            involuntary_switches: used
                .map(|(after, before)| after.involuntary_switches - before.involuntary_switches),
            minor_faults: used.map(|(after, before)| after.minor_faults - before.minor_faults),
            steal: None,
        }
    }

    /// Returns the number of units for which a sample takes the target time, averaged over the
    /// contenders, and at least [`SHORTEST_NS`] for the reference. The number is at least the
    /// workload's `least_units`.
    fn sample_size(&self, cells: &mut [Box<dyn Cell>], turn: &mut TurnNote) -> io::Result<u64> {
        let mut all = 0.0;
        let mut reference: f64 = 0.0;
        for (entry, cell) in self.entries.iter().zip(cells.iter_mut()) {
            turn.of(entry.key)?;
            let mut units = 1;
            let per_unit = loop {
                let start = Instant::now();
                core::hint::black_box(cell.run(units));
                let took = start.elapsed().as_secs_f64() * 1e9;
                if took > SHORTEST_NS / 2.0 {
                    break took / units as f64;
                }
                units *= 2;
            };
            all += per_unit;
            if entry.key == ALWAYS[REFERENCE] {
                reference = per_unit;
            }
        }
        let units = (self.job.target_ns * cells.len() as f64 / all).max(SHORTEST_NS / reference.max(1e-3));
        Ok((units as u64).max(self.spec.least_units))
    }

    fn latencies(&self, entry: &Entry, load: &Load) -> Option<Latencies> {
        let mut cell = (entry.timed)(self.spec, &self.context);
        // This run is not timed. It warms up the contender and the connections.
        cell.run(self.spec.memory_units);
        let rate = self.spec.is_served().then(|| 1.0 / load.interval.as_secs_f64());
        Some(tail(entry.key, rate, &cell.latencies(load)?))
    }

    /// Runs the workload in a process that has one contender and no rounds.
    fn alone(&self, entry: &Entry, order: &AloneOrder, found: &mut Measurements) {
        let mut cell = (entry.timed)(self.spec, &self.context);
        if let Some(figures) = cell.alone(order) {
            found.latencies.extend(figures.calls.as_ref().map(|calls| tail(entry.key, None, calls)));
            let contender = entry.key.to_owned();
            found.alone.push(AloneRun { contender, after: order.after, figures });
        }
    }

    /// Measures the memory of a contender. Counts its calls, and runs it over a counting backing
    /// allocator if it accepts one.
    fn memory(&self, entry: &Entry) -> Option<PeakMemory> {
        tally::reset();
        backing::reset_peak();
        let held = backing::held();
        os::trim();
        os::reset_peak();
        let resident = os::resident();
        let exact = entry.info.counted;
        let grown = move |to: Option<u64>| to.zip(resident).map(|(to, from)| to.saturating_sub(from));
        if self.spec.shows_memory_over_time()
            && let Some(asked) = self.spec.asked(self.spec.memory_units)
        {
            let taken = move || if exact { Some(backing::held() - held) } else { grown(os::resident()) };
            watch::begin((asked / POINTS).max(1), taken);
        }
        let mut cell = (entry.counted)(self.spec, &self.context);
        cell.run(self.spec.memory_units);
        let over_time = watch::end();
        let peak = if exact { Some(backing::peak() - held) } else { grown(os::resident_peak()) };
        let peak_live = tally::read().peak_live;
        drop(cell);
        Some(PeakMemory { contender: entry.key.to_owned(), peak: peak?, peak_live, exact, over_time })
    }
}

/// Returns the quantiles of a contender's latencies.
fn tail(contender: &str, rate: Option<f64>, latencies: &Histogram<u64>) -> Latencies {
    let step = |step: IterationValue<u64>| (step.value_iterated_to(), 1.0 - step.quantile_iterated_to());
    // About three points for each halving of the share of operations that took longer.
    let mut above: Vec<(u64, f64)> =
        latencies.iter_quantiles(3).map(step).filter(|point| point.1 > 0.0).collect();
    above.dedup();
    Latencies {
        contender: contender.to_owned(),
        requests: latencies.len(),
        rate,
        p50: latencies.value_at_quantile(0.5),
        p99: latencies.value_at_quantile(0.99),
        p999: latencies.value_at_quantile(0.999),
        max: latencies.max(),
        above,
    }
}
