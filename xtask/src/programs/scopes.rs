//! `cargo xtask bench --scopes`: measures the operations of a scope, and services that run each
//! request with or without a scope.
//!
//! The samples of single operations come from `programs-scopes`, which samples the operations in
//! rotation. Each service runs in a separate process, and the order of the services is random in
//! each round.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};
use ephemera_measure::os;
use ephemera_measure::stats::{DRAWS, Estimate, estimate};
use ephemera_measure::turns::next_round;
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

use super::catalogue::{self, ALLOCATORS, GeneralAllocator, OURS, ProgramPlan};
use super::{builds, page, process, rounds};
use crate::bench::BenchOptions;
use crate::workspace::Workspace;

/// The executable that samples single operations, and the feature that it needs.
pub(super) const COSTS: (&str, &str) = ("programs-scopes", "scope-costs");

/// The feature with the services that enter a scope for each request. The feature in `COSTS`
/// enables it.
#[cfg(test)]
pub(super) const SERVICE: &str = "service-scopes";

/// The key of the allocator that the bars on memory compare our allocator with.
const JEMALLOC: &str = "jemalloc";

/// The time limit of a process. The slowest process takes half a minute.
const LIMIT: Duration = Duration::from_secs(300);

/// The page that `--record` writes, as a path from the root of the workspace.
const PAGE: &str = "docs/benchmarks/scopes.md";

/// The seed of the random draws for confidence intervals.
const DRAWN_WITH: u64 = 1;

/// The services that run in each round: the key of an allocator, and a program.
const SERVICES: [(&str, &str); 5] = [
    (JEMALLOC, "service-long"),
    (OURS, "service-long"),
    (OURS, "service-scopes-long"),
    (OURS, "service-bursts"),
    (OURS, "service-scopes-bursts"),
];

/// The samples of single operations in one process, by operation.
type CostSamples = BTreeMap<String, Vec<f64>>;

/// The figures of one process of a service.
#[derive(Debug, Clone, Copy, Default)]
struct ServiceFigures {
    wall_ns: f64,
    peak: f64,
    /// The resident bytes after the last request, or 0 if the program does not print them.
    resident: f64,
    /// The largest ratio of the resident memory after a burst to the resident memory before it, or
    /// 0 if the program has no bursts.
    after_burst: f64,
}

/// A row of the table: a figure, and the bar that it must not exceed. Without a bar, `bar` is
/// infinite.
#[derive(Debug)]
struct ScopeBar {
    what: &'static str,
    unit: &'static str,
    figure: Option<Estimate>,
    bar: f64,
}

/// Runs `bench --scopes`. Returns `true` if every process succeeded, even if a bar was missed, and
/// otherwise an error.
pub(super) fn main(ws: &Workspace, options: &BenchOptions) -> Result<bool> {
    let chosen = |one: &&GeneralAllocator| [JEMALLOC, OURS].contains(&one.key);
    // The load is read first, because the build below would raise it.
    let load = os::load_average();
    let plan = ProgramPlan {
        programs: catalogue::programs(Some("^service"))?,
        allocators: ALLOCATORS.iter().filter(chosen).copied().collect(),
        rounds: options.rounds_of_programs(),
        seed: options.seed.unwrap_or_else(rounds::now),
    };
    let out = match &options.out {
        Some(dir) => std::path::absolute(dir)?,
        None => ws.target_dir("bench-scopes"),
    };
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    build(ws, &plan)?;
    let facts = page::facts(ws, &plan, load)?;
    let processes = plan.rounds as usize * (1 + SERVICES.len());
    eprintln!(
        "{} rounds of {} processes; a round takes a minute and a half.",
        plan.rounds,
        processes / plan.rounds as usize
    );
    let bar = rounds::bar(processes);
    let (mut costs, mut services, mut checksums) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let mut order: Vec<_> = (0..SERVICES.len()).collect();
    for _ in 0..plan.rounds {
        bar.set_message("single operations");
        costs.push(sample(ws, &out)?);
        bar.inc(1);
        let mut figures = [ServiceFigures::default(); SERVICES.len()];
        next_round(&mut rng, &mut order);
        for &turn in &order {
            let (key, program) = SERVICES[turn];
            bar.set_message(format!("{program} over {key}"));
            let checksum;
            (figures[turn], checksum) = serve(ws, SERVICES[turn], &out)?;
            // The services with and without scopes must compute the same result.
            let computes = program.trim_start_matches("service-").trim_start_matches("scopes-");
            if *checksums.entry(computes).or_insert_with(|| checksum.clone()) != checksum {
                bail!("{program} over {key} computes another result than the others");
            }
            bar.inc(1);
        }
        services.push(figures);
    }
    bar.finish_and_clear();
    let text = markdown(&facts.list(), &rows(&costs, &services));
    print!("{text}");
    fs::write(out.join("scopes.md"), &text)?;
    if options.processes.record {
        fs::write(ws.root.join(PAGE), &text)?;
        println!("recorded in {PAGE}");
    }
    Ok(true)
}

fn build(ws: &Workspace, plan: &ProgramPlan) -> Result<()> {
    eprintln!("Building the services. The first build takes some minutes; measuring starts afterwards.");
    let cargo = builds::cargo(ws, &builds::directory(ws), &plan.programs, &plan.allocators);
    let cargo = cargo.args(["--features", COSTS.1, "--bin", COSTS.0]);
    let captured = cargo.quiet("building the services")?;
    if !captured.success {
        bail!("{}\nthe services do not build: {}", captured.text, builds::first_error(&captured.text));
    }
    Ok(())
}

/// Returns a command that runs an executable in a clean environment.
fn command(ws: &Workspace, executable: &str) -> Command {
    let file = format!("{executable}{}", std::env::consts::EXE_SUFFIX);
    let mut command = Command::new(builds::directory(ws).join("release").join(file));
    command.env_clear().current_dir(&ws.root);
    command
}

fn sample(ws: &Workspace, out: &Path) -> Result<CostSamples> {
    let (_, output) = process::run(command(ws, COSTS.0), LIMIT, out).map_err(|why| anyhow!(why))?;
    serde_json::from_slice(&output).context("the samples have an unknown form")
}

/// Runs one process of a service. Returns its figures and its checksum.
fn serve(ws: &Workspace, (key, program): (&str, &str), out: &Path) -> Result<(ServiceFigures, String)> {
    let mut command = command(ws, &format!("programs-{key}"));
    command.arg(program).arg(&ws.root);
    let failed = |why| anyhow!("{program} over {key}: {why}");
    let (figures, output) = process::run(command, LIMIT, out).map_err(failed)?;
    let checksum = rounds::checksum(&output).map_err(failed)?;
    let told = told(&String::from_utf8_lossy(&output));
    if told.resident == 0.0 && told.after_burst == 0.0 {
        return Err(failed("it did not print its memory".to_owned()));
    }
    let figures = ServiceFigures { wall_ns: figures.wall_ns as f64, peak: figures.peak_bytes as f64, ..told };
    Ok((figures, checksum))
}

/// Returns the figures in the lines that a service prints about its memory.
fn told(output: &str) -> ServiceFigures {
    let mut figures = ServiceFigures::default();
    for line in output.lines() {
        let mut words = line.split(' ');
        let name = words.next();
        let numbers: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        match (name, &numbers[..]) {
            (Some("resident"), &[bytes]) => figures.resident = bytes,
            (Some("burst"), &[before, after]) if before > 0.0 => {
                figures.after_burst = figures.after_burst.max(after / before);
            }
            _ => {}
        }
    }
    figures
}

fn rows(costs: &[CostSamples], services: &[[ServiceFigures; SERVICES.len()]]) -> Vec<ScopeBar> {
    let row = |what, unit, bar, figure| ScopeBar { what, unit, figure, bar };
    // `cost` estimates a figure from the samples of two operations in each round of each process.
    let cost = |of: [&str; 2], figure: fn(f64, f64) -> f64| {
        let process = |samples: &CostSamples| {
            let [first, second] = of.map(|name| samples.get(name).map_or(&[][..], Vec::as_slice));
            first.iter().zip(second).map(|(&first, &second)| figure(first, second)).collect()
        };
        estimate(&costs.iter().map(process).collect::<Vec<Vec<f64>>>(), DRAWS, DRAWN_WITH)
    };
    let service = |figure: fn(&[ServiceFigures; SERVICES.len()]) -> f64| {
        let rounds: Vec<_> = services.iter().map(|round| vec![figure(round)]).collect();
        estimate(&rounds, DRAWS, DRAWN_WITH)
    };
    let alone = |first, _| first;
    vec![
        row(
            "a pair of allocation and free inside a scope, of outside",
            "",
            1.1,
            cost(["pair inside", "pair outside"], |inside, outside| inside / outside),
        ),
        row("entering and leaving a scope", " ns", 60.0, cost(["enter", "enter"], alone)),
        row(
            "the same with one block that is allocated and freed",
            " ns",
            60.0,
            cost(["enter with a block", "enter"], alone),
        ),
        row(
            "polling a future in a scope, beyond polling it without",
            " ns",
            15.0,
            cost(["poll inside", "poll outside"], |inside, outside| inside - outside),
        ),
        row(
            "ending a scope with 1,000 blocks of 50 sizes, all freed",
            " µs",
            2.0,
            cost(["end", "end"], |end, _| end / 1e3),
        ),
        row(
            "service with scopes: time, of without",
            "",
            1.0,
            service(|[_, plain, scopes, ..]| scopes.wall_ns / plain.wall_ns),
        ),
        row(
            "its resident memory at the end, of jemalloc without scopes",
            "",
            1.0,
            service(|[jemalloc, _, scopes, ..]| scopes.resident / jemalloc.resident),
        ),
        row(
            "its peak, of jemalloc without scopes",
            "",
            1.0,
            service(|[jemalloc, _, scopes, ..]| scopes.peak / jemalloc.peak),
        ),
        row(
            "its resident memory ten requests after a burst of 64 MB, of before",
            "",
            1.1,
            service(|[.., scopes]| scopes.after_burst),
        ),
        row("the same without scopes", "", f64::INFINITY, service(|[.., plain, _]| plain.after_burst)),
    ]
}

fn markdown(facts: &str, rows: &[ScopeBar]) -> String {
    let mut out = format!(
        "# Scopes\n\n\
         `cargo xtask bench --scopes --record` writes this page. The first rows are single operations with \
         `PooledAllocator` as the global allocator: medians of rounds of several processes, with a 95 % \
         interval. The others are a service that parses 10 KB of JSON for each of 500,000 requests and \
         keeps 100 bytes of every second one in a cache of 200,000 strings. Each of its requests runs in a \
         scope, or none does. In the rows of bursts, one request in 10,000 also fills 64 MB with blocks \
         of 1,000 bytes, and the largest ratio of a process counts.\n\n{facts}\n\
         | | measured | at most | |\n|---|---:|---:|---|\n"
    );
    for row in rows {
        let figure = row.figure.map_or("–".to_owned(), |one| {
            // A figure below 2 has three decimals, and any other figure has two.
            let digits = if one.mid < 2.0 { 3 } else { 2 };
            format!("{:.digits$}{} [{:.digits$}, {:.digits$}]", one.mid, row.unit, one.low95, one.high95)
        });
        let (bar, met) = if row.bar.is_finite() {
            let met = row.figure.is_some_and(|one| one.mid <= row.bar);
            (format!("{}{}", row.bar, row.unit), if met { "met" } else { "missed" })
        } else {
            ("–".to_owned(), "")
        };
        out.push_str(&format!("| {} | {figure} | {bar} | {met} |\n", row.what));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{CostSamples, ServiceFigures, markdown, rows, told};

    #[test]
    fn the_memory_that_a_service_prints_is_read_and_the_largest_burst_counts() {
        let figures = told("burst 100 110\nburst 100 180\nburst 0 7\nresident 4096\nchecksum 12\n");
        assert_eq!((figures.resident, figures.after_burst), (4096.0, 1.8));
        assert_eq!(told("").resident, 0.0);
    }

    #[test]
    fn the_table_compares_each_row_with_its_bar() {
        let samples = [
            ("pair inside", 3.3),
            ("pair outside", 3.0),
            ("enter", 8.0),
            ("enter with a block", 61.0),
            ("poll inside", 9.5),
            ("poll outside", 0.5),
            ("end", 1500.0),
        ];
        let costs: CostSamples =
            samples.into_iter().map(|(name, value)| (name.to_owned(), vec![value; 3])).collect();
        let one =
            |wall_ns, resident, after_burst| ServiceFigures { wall_ns, resident, peak: 8.0, after_burst };
        let services = [one(9.0, 50.0, 0.0), one(10.0, 60.0, 0.0), one(11.0, 40.0, 0.0)];
        let bursts = [one(1.0, 0.0, 8.0), one(1.0, 0.0, 1.05)];
        let round = [services[0], services[1], services[2], bursts[0], bursts[1]];
        let text = markdown("* cpu: one\n", &rows(&[costs.clone(), costs], &[round, round]));
        for line in [
            "| entering and leaving a scope | 8.00 ns [8.00, 8.00] | 60 ns | met |",
            "| the same with one block that is allocated and freed | 61.00 ns [61.00, 61.00] | 60 ns | missed |",
            "| polling a future in a scope, beyond polling it without | 9.00 ns [9.00, 9.00] | 15 ns | met |",
            "| service with scopes: time, of without | 1.100 [1.100, 1.100] | 1 | missed |",
            "| its resident memory at the end, of jemalloc without scopes | 0.800 [0.800, 0.800] | 1 | met |",
            "| the same without scopes | 8.00 [8.00, 8.00] | – |  |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
