//! The command line of `bench-runner`.

use core::error::Error;
use core::time::Duration;
use std::fs;
use std::path::PathBuf;

use bench_harness::contenders::{self, ALWAYS, Entry};
use bench_harness::runner::RunPlan;
use bench_harness::workloads::{Corpus, Document, Scale, WorkloadSpec, catalogue};
use clap::{Parser, Subcommand};
use ephemera_trace::replay::{ReplayOptions, SUBCOMMAND};
use regex::Regex;

/// The time for the workloads with rounds in a quick run. It leaves a margin of five seconds for
/// the start of the run and the report.
const QUICK: Duration = Duration::from_secs(115);
/// The time for the workloads with rounds in a full run. It leaves a margin of four and a half
/// minutes, because steps with few rounds take longer than planned.
const FULL: Duration = Duration::from_secs(10 * 60 + 30);

/// Compares allocators by paired, interleaved rounds, and reports ratios with intervals.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  bench-runner --quick
  bench-runner --filter '^S1/' --peers mimalloc,bumpalo
  bench-runner --full --out target/bench-full --seed 7
  bench-runner --baseline yesterday/summary.json
  bench-runner --icount --filter '^S1/'
  bench-runner --smoke
  bench-runner replay TRACE --peers mimalloc,one-ring"
)]
pub(crate) struct RunnerArguments {
    #[command(subcommand)]
    pub(crate) task: Option<RunnerTask>,
    /// Run three processes of at most 15 rounds in two minutes, then S12 and S13 for a quarter of a
    /// minute (the default)
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Run seven processes of at most 40 rounds, with every workload, in fifteen minutes on two
    /// cores, then S12 and S13 in three more minutes
    #[arg(long)]
    pub(crate) full: bool,
    /// Run only workloads whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    pub(crate) filter: Option<Regex>,
    /// Run only these contenders, the reference and the allocator that does nothing; with --icount,
    /// only these contenders
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// The directory of the report
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) out: PathBuf,
    /// The seed of sizes and of the order of frees: the same seed gives the same operations
    #[arg(long, value_name = "N", default_value_t = 4141)]
    pub(crate) seed: u64,
    /// Compare with the summary.json of an earlier run, row by row
    #[arg(long, value_name = "FILE", conflicts_with_all = ["smoke", "icount"])]
    pub(crate) baseline: Option<PathBuf>,
    /// Count instructions under valgrind instead of measuring time
    #[arg(long, conflicts_with = "smoke")]
    pub(crate) icount: bool,
    /// Run a counted process: `--icount` passes this to its own processes
    #[arg(long, hide = true)]
    pub(crate) region: Option<String>,
    /// Run every workload once over every contender and compare checksums, without figures
    #[arg(long)]
    pub(crate) smoke: bool,
    /// List workloads and contenders
    #[arg(long)]
    pub(crate) list: bool,
    /// Run a measuring process: the runner passes this to its own processes
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
}

/// A task other than a comparison. It is part of this program, because a second program with the
/// same contenders would take as long to build.
#[derive(Debug, Subcommand)]
pub(crate) enum RunnerTask {
    /// Replay the trace of a program over every general allocator
    #[command(name = SUBCOMMAND)]
    Replay(ReplayOptions),
}

impl RunnerArguments {
    /// Returns the chosen workloads, or an error if `--filter` matches none.
    pub(crate) fn specs(&self) -> Result<Vec<WorkloadSpec>, Box<dyn Error>> {
        let all = self.full || self.smoke || self.list;
        let wanted = |spec: &WorkloadSpec| match &self.filter {
            Some(filter) => filter.is_match(&spec.id),
            None => all || spec.scale == Scale::Quick,
        };
        let specs: Vec<WorkloadSpec> = catalogue().into_iter().filter(wanted).collect();
        if specs.is_empty() {
            return Err("`--filter` matches no workload; `--list` shows all".into());
        }
        Ok(specs)
    }

    /// Returns the names of the workloads that a quick run leaves out. The list is empty with
    /// `--full` or `--filter`.
    pub(crate) fn left_to_full(&self) -> Vec<String> {
        if self.full || self.filter.is_some() {
            return Vec::new();
        }
        catalogue().into_iter().filter(|spec| spec.scale == Scale::Full).map(|spec| spec.id).collect()
    }

    /// Returns the chosen contenders, or an error if `--peers` has an unknown name. The allocator
    /// that does nothing, the reference and its second entry are always among them.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, Box<dyn Error>> {
        let known = contenders::all();
        for peer in &self.peers {
            if !known.iter().any(|entry| entry.key == peer) {
                return Err(format!(
                    "no contender `{peer}` in this build; the contenders are {}",
                    contenders::keys().join(", ")
                )
                .into());
            }
        }
        let wanted = |key: &str| self.peers.is_empty() || self.peers.iter().any(|peer| peer == key);
        Ok(known.into_iter().filter(|entry| ALWAYS.contains(&entry.key) || wanted(entry.key)).collect())
    }

    /// Returns the plan of the run, and creates its scratch directory.
    pub(crate) fn plan(&self) -> Result<RunPlan, Box<dyn Error>> {
        let (processes, rounds, target, total) =
            if self.full { (7, 40, 2000, FULL) } else { (3, 15, 1300, QUICK) };
        let scratch = self.out.join("scratch");
        fs::create_dir_all(&scratch)?;
        Ok(RunPlan {
            specs: self.specs()?,
            entries: self.entries()?,
            smoke: self.smoke,
            processes,
            rounds,
            target: Duration::from_micros(target),
            total,
            latencies: Duration::from_millis(if self.full { 4000 } else { 300 }),
            isolated: self.full,
            seed: self.seed,
            document: if self.smoke { None } else { Document::find() },
            document_length: if self.smoke { 200_000 } else { Document::LENGTH },
            corpus: if self.smoke { None } else { Corpus::find() },
            scratch,
        })
    }
}
