//! `cargo xtask bench`: builds the harness with the flags of an optimised user program, and runs
//! it.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::cpeers::{self, HARNESS, RustPeers, Support};
use crate::shell::Cmd;
use crate::steps::{Outcome, Step};
use crate::test;
use crate::workspace::Workspace;

/// The name of the harness's program.
const RUNNER: &str = "bench-runner";

/// The profile of measured builds.
pub(crate) const PROFILE: &str = "bench";

/// The profile of measured builds that take less time, for `--thin`.
pub(crate) const THIN: &str = "bench-thin";

/// The compiler flag that aligns jump targets to cache lines, so that the position of a loop does
/// not change its time.
const ALIGNED: &str = "-Cllvm-args=-align-all-nofallthru-blocks=6";

#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:
  cargo xtask bench --quick                                  measures for about two minutes and prints tables
  cargo xtask bench --full --out results                     measures everything; reports go to `results`
  cargo xtask bench --quick --filter 'S[12]'                 runs the workloads whose name matches
  cargo xtask bench --quick --peers ring,one-ring,mimalloc
  cargo xtask bench --seed 7 --quick                         draws other operations; a seed always gives the same ones
  cargo xtask bench --quick --baseline old/summary.json      compares with an earlier run
  cargo xtask bench --quick --thin                           builds sooner, with fewer contenders
  cargo xtask bench --icount                                 counts instructions and compares them with the record
  cargo xtask bench --icount --full --rebase                 records the counts in benches/icount.json
  cargo xtask bench --programs --quick                       runs third-party programs over each general allocator
  cargo xtask bench --programs --filter '^(syn|redb)$' --peers jemalloc,pooled-allocator --rounds 5
  cargo xtask bench --programs --full --record               also writes docs/benchmarks/programs.md
  cargo xtask bench --scopes --quick                         measures scopes of PooledAllocator, and a service that uses them
  cargo xtask bench -- --help                                lists the harness's own options

Writes report.html, report.md, summary.json and results.jsonl to --out. Without a C compiler the contenders written in C
are left out, and the command names them. With --icount valgrind counts instructions and nothing is timed: a count that
exceeds its record by more than 1 % and more than two instructions fails. With --programs each program runs in a process
of its own, and --out receives programs.md and programs.jsonl. The command fails if a contender fails a program.")]
pub(crate) struct BenchOptions {
    /// Run fewer rounds: about two minutes.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run all rounds, and measure memory and tail latencies.
    #[arg(long)]
    full: bool,
    /// Build without link-time optimisation across crates, as a user's release build does, and
    /// without the less known contenders in Rust. The ratios differ from the ratios of the full
    /// build. Before you quote them, compare them with a summary of the full build (`--baseline`).
    #[arg(long, conflicts_with = "icount")]
    thin: bool,
    /// Run the workloads or programs that match a regular expression.
    #[arg(long, value_name = "RE")]
    pub(crate) filter: Option<String>,
    /// Run these contenders: names separated by commas. The reference always takes part too. In a
    /// run of the harness that measures time, so does the allocator that does nothing.
    #[arg(long, value_name = "LIST")]
    pub(crate) peers: Option<String>,
    /// The directory for reports [default: target/bench, with --programs target/bench-programs,
    /// with --scopes target/bench-scopes].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Compare with the summary.json of an earlier run.
    #[arg(long, value_name = "FILE", conflicts_with = "icount")]
    baseline: Option<PathBuf>,
    /// Count instructions and compare them with benches/icount.json; needs valgrind.
    #[arg(long)]
    pub(crate) icount: bool,
    /// Write the counts to benches/icount.json instead of comparing them.
    #[arg(long, requires = "icount", conflicts_with = "peers")]
    pub(crate) rebase: bool,
    /// The seed of all random choices.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) processes: ProgramOptions,
    /// Arguments that are passed to the harness unchanged.
    #[arg(last = true, conflicts_with = "icount")]
    rest: Vec<String>,
}

/// The options of `--programs` and `--scopes`, in addition to the options of every measurement.
#[derive(Debug, Default, Args)]
pub(crate) struct ProgramOptions {
    /// Run third-party programs over each general allocator, each in separate processes; needs
    /// Linux.
    #[arg(long, group = "kind", conflicts_with_all = ["icount", "thin", "baseline", "rest"])]
    pub(crate) programs: bool,
    /// Measure what a scope of PooledAllocator costs, and a service with a scope for each request;
    /// needs Linux, a C compiler and make.
    #[arg(long, group = "kind", conflicts_with_all = ["icount", "thin", "baseline", "filter", "peers", "rest"])]
    pub(crate) scopes: bool,
    /// List the programs and the contenders, and run nothing.
    #[arg(long, requires = "programs")]
    pub(crate) list: bool,
    /// Run this number of rounds [default: 7, with --quick 3, with --full 15].
    #[arg(long, requires = "kind", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Write the tables to docs/benchmarks/programs.md or docs/benchmarks/scopes.md too.
    #[arg(long, requires = "kind")]
    pub(crate) record: bool,
}

/// Runs the harness over the workloads, and returns whether it succeeded.
pub(crate) fn main(ws: &Workspace, options: &BenchOptions) -> Result<bool> {
    let arguments = options.passed(ws)?;
    measuring(ws, options.thin)?.args(arguments).run()
}

/// Builds the harness for measurements, and returns the command that runs it. With `thin`, the
/// build takes less time and has fewer contenders. `bench` and `replay` share the build of each
/// profile, so neither rebuilds it after the other.
pub(crate) fn measuring(ws: &Workspace, thin: bool) -> Result<Cmd> {
    if let Some(left_out) = Support::detect(ws).told() {
        eprintln!("{left_out}");
    }
    let (profile, rust) = if thin {
        eprintln!(
            "Building the harness without LTO across crates, and without the less known contenders in Rust (--thin)."
        );
        (THIN, RustPeers::Known)
    } else {
        eprintln!("Building the harness with fat LTO, which takes some minutes; `--thin` takes fewer.");
        (PROFILE, RustPeers::All)
    };
    let command = |what| harness(ws, what, profile, Some(rust));
    command("build")?.run_or("the harness does not build: see the messages above")?;
    // Best effort: without this file, the next replay uses the thin build.
    let _ = std::fs::write(last_profile(ws), profile);
    Ok(command("run")?.args(["--quiet", "--"]))
}

/// Returns whether the harness was last built with `--thin`, or has not been built for
/// measurements.
pub(crate) fn last_is_thin(ws: &Workspace) -> bool {
    is_thin(std::fs::read_to_string(last_profile(ws)).ok().as_deref())
}

/// Returns whether a replay uses the build with `--thin`. `last` is the profile of the last build,
/// or `None` if nothing was built for measurements.
fn is_thin(last: Option<&str>) -> bool {
    last.is_none_or(|profile| profile == THIN)
}

/// Returns the path of the file with the profile of the last build for measurements.
fn last_profile(ws: &Workspace) -> PathBuf {
    ws.target_dir("bench-profile")
}

/// Returns the step of `ci` that runs every workload once, as a test.
pub(crate) fn smoke() -> Step<'static> {
    Step::new("bench-smoke", "every workload runs once with every contender", |ws| {
        // This step does not measure, so it uses the build of the tests, which includes the C
        // contenders.
        test::build(ws)?;
        let out = ws.target_dir("bench-smoke");
        let program = ws.target_dir("debug").join(format!("{RUNNER}{}", std::env::consts::EXE_SUFFIX));
        let ran = Cmd::new(program, &ws.root).args(["--smoke", "--out"]).arg(out).run()?;
        Ok(match (ran, Support::detect(ws).told()) {
            (false, _) => Outcome::Failed("bench-runner --smoke failed".to_owned()),
            (true, Some(left_out)) => Outcome::Passed(left_out),
            (true, None) => Outcome::Passed(String::new()),
        })
    })
}

impl BenchOptions {
    fn passed(&self, ws: &Workspace) -> Result<Vec<String>> {
        // The harness starts at the root, so paths relative to the user's directory are made
        // absolute.
        let out = match &self.out {
            Some(dir) => std::path::absolute(dir)?,
            None => ws.target_dir("bench"),
        };
        let mut args = self.chosen();
        args.extend(["--out".to_owned(), out.to_string_lossy().into_owned()]);
        if let Some(file) = &self.baseline {
            args.extend(["--baseline".to_owned(), std::path::absolute(file)?.to_string_lossy().into_owned()]);
        }
        args.extend(self.rest.iter().cloned());
        Ok(args)
    }

    /// Returns the default options, with `filter` for the workloads and `peers` for the contenders.
    pub(crate) fn only(filter: &str, peers: &[&str]) -> Self {
        Self { filter: Some(filter.to_owned()), peers: Some(peers.join(",")), ..Self::default() }
    }

    /// Returns whether the options select every workload and every contender.
    pub(crate) fn is_whole(&self) -> bool {
        self.full && self.filter.is_none() && self.peers.is_none()
    }

    /// Returns the number of rounds of `--programs` and `--scopes`.
    pub(crate) fn rounds_of_programs(&self) -> u32 {
        let default = if self.quick {
            3
        } else if self.full {
            15
        } else {
            7
        };
        self.processes.rounds.unwrap_or(default)
    }

    /// Returns the selection as arguments of the harness.
    pub(crate) fn chosen(&self) -> Vec<String> {
        let mut args = Vec::new();
        for (flag, on) in [("--quick", self.quick), ("--full", self.full)] {
            if on {
                args.push(flag.to_owned());
            }
        }
        let seed = self.seed.map(|seed| seed.to_string());
        for (flag, value) in [("--filter", &self.filter), ("--peers", &self.peers), ("--seed", &seed)] {
            if let Some(value) = value {
                args.extend([flag.to_owned(), value.clone()]);
            }
        }
        args
    }
}

/// Returns the command that builds or runs the harness: `what` is `build` or `run`. With `peers`,
/// the harness has these contenders in Rust, and all contenders in C and C++ that can be built
/// here. If `peers` is `None`, the harness is built without features.
pub(crate) fn harness(ws: &Workspace, what: &str, profile: &str, peers: Option<RustPeers>) -> Result<Cmd> {
    if !ws.package(HARNESS)?.bins.iter().any(|bin| bin == RUNNER) {
        bail!("the package {HARNESS} has no program {RUNNER}: this checkout is not complete");
    }
    let cargo = ws.cargo().args([what, "--profile", profile, "--package", HARNESS, "--bin", RUNNER]);
    let mut cargo = cpeers::one_library(cargo);
    if [PROFILE, THIN].contains(&profile) {
        cargo = cargo.env_append("RUSTFLAGS", ALIGNED);
    }
    if profile == THIN && cfg!(unix) {
        // The build of jemalloc requests debug information, which takes a fifth of the build's
        // time. This flag turns debug information off.
        cargo = cargo.env_append("CFLAGS", "-g0");
    }
    Ok(match peers {
        Some(rust) => cargo.args(Support::detect(ws).arguments(rust)),
        None => cargo.arg("--no-default-features"),
    })
}

#[cfg(test)]
mod tests {
    use super::{BenchOptions, HARNESS, PROFILE, RUNNER, THIN, harness, is_thin};
    use crate::workspace::Workspace;
    use crate::workspace::tests::sample;

    #[test]
    fn both_measured_builds_align_loops_and_have_a_profile() {
        let manifest = std::fs::read_to_string(Workspace::load().unwrap().root.join("Cargo.toml")).unwrap();
        for profile in [PROFILE, THIN] {
            let shown = harness(&sample(), "build", profile, None).unwrap().shown();
            assert!(shown.contains("align-all-nofallthru-blocks=6"), "{shown}");
            assert!(shown.contains(&format!("--profile {profile} ")), "{shown}");
            assert!(manifest.contains(&format!("[profile.{profile}]")), "{profile}");
        }
        let other = harness(&sample(), "build", "release", None).unwrap().shown();
        assert!(!other.contains("align-all"), "{other}");
    }

    #[test]
    fn a_replay_takes_the_last_build_and_the_quick_one_if_there_is_none() {
        assert!(is_thin(None) && is_thin(Some(THIN)) && !is_thin(Some(PROFILE)));
    }

    /// The harness has one program, because a second one would take as long to build as the first.
    #[test]
    fn one_program_of_the_harness_compares_and_replays() {
        assert_eq!(Workspace::load().unwrap().package(HARNESS).unwrap().bins, [RUNNER]);
    }

    #[test]
    fn options_are_passed_on_and_the_output_has_a_default() {
        let args = BenchOptions::default().passed(&sample()).unwrap();
        assert_eq!(args, ["--out", "/ws/target/bench"]);
        let all = BenchOptions {
            quick: true,
            filter: Some("S[12]".into()),
            peers: Some("a,b".into()),
            seed: Some(7),
            out: Some("/tmp/r".into()),
            baseline: Some("/tmp/s.json".into()),
            rest: vec!["--list".into()],
            ..BenchOptions::default()
        };
        let args = all.passed(&sample()).unwrap().join(" ");
        assert_eq!(
            args,
            "--quick --filter S[12] --peers a,b --seed 7 --out /tmp/r --baseline /tmp/s.json --list"
        );
    }
}
