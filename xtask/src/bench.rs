//! `cargo xtask bench`: builds the harness as its users would and runs it.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::cpeers::{HARNESS, Support};
use crate::icount;
use crate::shell::Cmd;
use crate::steps::{Outcome, Step};
use crate::test;
use crate::workspace::Workspace;

/// The harness's program.
const RUNNER: &str = "bench-runner";

/// The profile of what is measured.
const PROFILE: &str = "bench";

/// Puts blocks that are jumped to at the start of a cache line, so that where a loop lies is not a matter of luck.
const ALIGNED: &str = "-Cllvm-args=-align-all-nofallthru-blocks=6";

#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:
  cargo xtask bench --quick                                  tables in about two minutes of measuring
  cargo xtask bench --full --out results                     everything, into a directory of your own
  cargo xtask bench --quick --filter 'S[12]'                 workloads whose name matches
  cargo xtask bench --quick --peers ring,one-ring,mimalloc
  cargo xtask bench --seed 7 --quick                         other streams of operations, the same every time
  cargo xtask bench --quick --baseline old/summary.json      what changed since an earlier run
  cargo xtask bench --icount                                 instructions an operation, beside those recorded
  cargo xtask bench --icount --full --rebase                 records them, in bench/icount.json
  cargo xtask bench -- --help                                what else the harness understands

Writes report.html, report.md, summary.json and results.jsonl to --out. Contenders written in C are left out, and named,
where there is no C compiler. With --icount nothing is timed: valgrind counts, and what takes more than 1 % and more
than two instructions above the record fails.")]
pub(crate) struct Options {
    /// Fewer rounds; about two minutes.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// All rounds, memory and tails.
    #[arg(long)]
    full: bool,
    /// A regular expression that chooses workloads.
    #[arg(long, value_name = "RE")]
    filter: Option<String>,
    /// Contenders by name, separated by commas.
    #[arg(long, value_name = "LIST")]
    peers: Option<String>,
    /// Where reports go [default: target/bench].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The summary.json of an earlier run, to compare with.
    #[arg(long, value_name = "FILE", conflicts_with = "icount")]
    baseline: Option<PathBuf>,
    /// Count instructions and compare them with bench/icount.json; needs valgrind.
    #[arg(long)]
    icount: bool,
    /// Record what is counted.
    #[arg(long, requires = "icount", conflicts_with = "peers")]
    pub(crate) rebase: bool,
    /// The seed of all random choices.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Arguments for the harness as they are.
    #[arg(last = true, conflicts_with = "icount")]
    rest: Vec<String>,
}

/// Runs the command.
pub(crate) fn main(ws: &Workspace, options: &Options) -> Result<bool> {
    if options.icount {
        return icount::main(ws, options);
    }
    let runner = harness(ws, "run", PROFILE, true)?.arg("--quiet");
    eprintln!(
        "Building the harness with fat LTO. The first time that takes some minutes; measuring starts afterwards."
    );
    if !build(ws)? {
        bail!("the harness does not build; the messages are above");
    }
    runner.arg("--").args(options.passed(ws)?).run()
}

/// Every workload once, as a test: the check that `ci` runs.
pub(crate) fn smoke() -> Step<'static> {
    Step::new("bench-smoke", "each workload once with every contender", |ws| {
        // As the tests have it, C contenders and all: nothing is measured here.
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

impl Options {
    fn passed(&self, ws: &Workspace) -> Result<Vec<String>> {
        // The harness is started at the root; the user is where he is.
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

    /// The workloads that a regular expression chooses, and nothing else chosen.
    pub(crate) fn only(filter: &str) -> Self {
        Self { filter: Some(filter.to_owned()), ..Self::default() }
    }

    /// Whether everything that there is was asked for.
    pub(crate) fn is_whole(&self) -> bool {
        self.full && self.filter.is_none() && self.peers.is_none()
    }

    /// What is to be run, as the harness understands it.
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

fn build(ws: &Workspace) -> Result<bool> {
    if let Some(left_out) = Support::detect(ws).told() {
        eprintln!("{left_out}");
    }
    harness(ws, "build", PROFILE, true)?.run()
}

/// `cargo build` or `cargo run` of the harness, with the contenders written in C where they are wanted and can be had.
pub(crate) fn harness(ws: &Workspace, what: &str, profile: &str, peers: bool) -> Result<Cmd> {
    if !ws.package(HARNESS)?.bins.iter().any(|bin| bin == RUNNER) {
        bail!("the package {HARNESS} has no program {RUNNER}: this checkout is not complete");
    }
    let mut cargo = ws.cargo().args([what, "--profile", profile, "--package", HARNESS, "--bin", RUNNER]);
    if profile == PROFILE {
        cargo = cargo.env_append("RUSTFLAGS", ALIGNED);
    }
    Ok(if peers { cargo.args(Support::detect(ws).arguments()) } else { cargo.arg("--no-default-features") })
}

#[cfg(test)]
mod tests {
    use super::Options;
    use crate::workspace::tests::sample;

    #[test]
    fn arguments_go_through_and_the_output_has_a_default() {
        let args = Options::default().passed(&sample()).unwrap();
        assert_eq!(args, ["--out", "/ws/target/bench"]);
        let all = Options {
            quick: true,
            filter: Some("S[12]".into()),
            peers: Some("a,b".into()),
            seed: Some(7),
            out: Some("/tmp/r".into()),
            baseline: Some("/tmp/s.json".into()),
            rest: vec!["--list".into()],
            ..Options::default()
        };
        let args = all.passed(&sample()).unwrap().join(" ");
        assert_eq!(
            args,
            "--quick --filter S[12] --peers a,b --seed 7 --out /tmp/r --baseline /tmp/s.json --list"
        );
    }
}
