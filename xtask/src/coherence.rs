//! `cargo xtask coherence`: counts the cache lines that move between cores for each allocation and
//! free, with up to 128 cores.
//!
//! The command builds the program of `ephemera-coherence`, runs it under valgrind's tool lackey,
//! and replays the printed accesses on a model of private caches. The counts depend neither on the
//! number of processors of this machine nor on other load.

mod run;
mod table;

use std::fs;

use anyhow::{Result, bail};
use clap::Args;
use ephemera_coherence::CORES;
use ephemera_coherence::catalogue::{CONTENDERS, TracedWorkload};

use self::run::Plan;
use crate::readme;
use crate::workspace::Workspace;

/// The page with the recorded tables.
const PAGE: &str = "docs/scaling.md";

/// The name of the markers in the page that enclose the tables.
const PLACE: &str = "coherence";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask coherence                                     all workloads and allocators with 2, 8 and 64 cores
  cargo xtask coherence --threads 2,128 --workloads ring    one workload
  cargo xtask coherence --threads 64 --peers one-ring,glibc
  cargo xtask coherence --record                            also writes the tables to docs/scaling.md

A core is a thread. The model has up to 128, independent of this machine. valgrind prints every load and store, so a
figure for 64 cores takes about half a minute. Without a C compiler the contenders written in C are left out, and the
command names them.")]
pub(crate) struct CoherenceOptions {
    /// Count with these numbers of threads, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 8, 64], value_name = "N,…")]
    threads: Vec<usize>,
    /// Run over these allocators: names separated by commas [default: all].
    #[arg(long, value_delimiter = ',', value_name = "LIST", conflicts_with = "record")]
    peers: Vec<String>,
    /// Run these workloads: own, ring, all, fan, larson [default: all].
    #[arg(long, value_delimiter = ',', value_name = "LIST", conflicts_with = "record")]
    workloads: Vec<String>,
    /// Write the tables to docs/scaling.md.
    #[arg(long)]
    record: bool,
}

/// Counts the events of the runs that the options choose, and prints the tables. Returns whether
/// every run gave a figure.
pub(crate) fn main(ws: &Workspace, options: &CoherenceOptions) -> Result<bool> {
    let mut plan = options.plan()?;
    let traced = run::prepare(ws, &mut plan.contenders)?;
    traced.check()?;
    let figures = traced.count(&plan)?;
    let page = table::page(&ws.root, &plan, &figures);
    print!("{page}");
    if options.record {
        let text = readme::spliced(&ws.root, PAGE, PLACE, &page)?;
        fs::write(ws.root.join(PAGE), text)?;
        eprintln!("recorded in {PAGE}");
    }
    Ok(figures.len() == plan.threads.len() * plan.workloads.len() * plan.contenders.len())
}

impl CoherenceOptions {
    /// Returns the runs that the options choose, or an error if the model lacks a chosen number of
    /// cores or a chosen name is unknown.
    fn plan(&self) -> Result<Plan> {
        if let Some(threads) = self.threads.iter().find(|threads| !(1..=CORES).contains(*threads)) {
            bail!("--threads {threads}: the model has 1 to {CORES} cores");
        }
        let mut threads = self.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        let known = TracedWorkload::MEASURED.map(TracedWorkload::name);
        let workloads = chosen(&self.workloads, "--workloads", &known)?;
        let contenders = chosen(&self.peers, "--peers", &CONTENDERS.map(|contender| contender.key))?;
        Ok(Plan {
            threads,
            workloads: workloads.into_iter().map(|index| TracedWorkload::MEASURED[index]).collect(),
            contenders: contenders.into_iter().map(|index| CONTENDERS[index]).collect(),
        })
    }
}

/// Returns the indices in `known` of the chosen names, or all indices if `names` is empty. Returns
/// an error that names `option` if a name is unknown.
fn chosen(names: &[String], option: &str, known: &[&str]) -> Result<Vec<usize>> {
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("{option} {name}: the known names are {}", known.join(", "));
    }
    let is_chosen = |name: &str| names.is_empty() || names.iter().any(|chosen| chosen == name);
    Ok((0..known.len()).filter(|index| is_chosen(known[*index])).collect())
}

#[cfg(test)]
mod tests {
    use super::{CoherenceOptions, PAGE, PLACE, TracedWorkload};
    use crate::readme;
    use crate::workspace::Workspace;

    fn options(threads: &[usize], peers: &[&str], workloads: &[&str]) -> CoherenceOptions {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        CoherenceOptions {
            threads: threads.to_vec(),
            peers: list(peers),
            workloads: list(workloads),
            record: false,
        }
    }

    #[test]
    fn options_choose_by_name_and_keep_the_order_of_the_tables() {
        let plan = options(&[64, 2, 64], &["glibc", "one-ring"], &["larson", "own"]).plan().unwrap();
        assert_eq!(plan.threads, [2, 64]);
        assert_eq!(plan.workloads, [TracedWorkload::Own, TracedWorkload::Larson]);
        let keys: Vec<_> = plan.contenders.iter().map(|contender| contender.key).collect();
        assert_eq!(keys, ["one-ring", "glibc"]);
        assert_eq!(options(&[2], &[], &[]).plan().unwrap().workloads, TracedWorkload::MEASURED);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let refused = |options: CoherenceOptions| options.plan().unwrap_err().to_string();
        assert!(refused(options(&[2], &["tcmalloc"], &[])).contains("one-ring, pooled-allocator"));
        assert!(refused(options(&[2], &[], &["S1"])).contains("own, ring"));
        assert!(refused(options(&[129], &[], &[])).contains("1 to 128 cores"));
    }

    #[test]
    fn the_page_has_a_place_for_the_tables() {
        let ws = Workspace::load().unwrap();
        let page = readme::spliced(&ws.root, PAGE, PLACE, "the tables\n").unwrap();
        assert!(page.contains("\nthe tables\n"));
    }
}
