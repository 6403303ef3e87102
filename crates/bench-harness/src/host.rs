//! The facts about the host and the build that the head of a report states.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::contenders::Entry;
use crate::os;

/// The facts on which figures depend.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// The model of the processor.
    pub cpu: String,
    /// The number of CPUs that the process may use.
    pub cpus: usize,
    /// The operating system and its kernel.
    pub kernel: String,
    /// The C library and its version.
    pub libc: String,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: String,
    /// The compiler.
    pub rustc: String,
    /// The target triple.
    pub target: String,
    /// The profile's directory (`release` also for cargo's profile `bench`) and the optimisation
    /// level.
    pub profile: String,
    /// The commit of the working directory.
    pub commit: String,
    /// The load averages at the start.
    pub load: String,
    /// The time that the hypervisor gave to other guests so far, in ticks.
    pub steal: Option<u64>,
    /// The contenders and their versions.
    pub contenders: Vec<(String, String)>,
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn file(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the first line that a command prints.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let out = Command::new(program).args(arguments).output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or_default().trim().to_owned())
}

fn cpu() -> Option<String> {
    let info = file("/proc/cpuinfo")?;
    let line = info.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn huge_pages() -> Option<String> {
    let choice = file("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let chosen = choice.split('[').nth(1)?.split(']').next()?;
    Some(chosen.to_owned())
}

/// Returns the commit, with `dirty` if files differ from it. `unknown` without git or a repository.
#[must_use]
pub fn commit(directory: &Path) -> String {
    let directory = directory.to_string_lossy();
    let git = |arguments: &[&str]| first_line("git", &[&["-C", &directory], arguments].concat());
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return unknown() };
    let dirty = git(&["status", "--porcelain"]).is_some_and(|line| !line.is_empty());
    if dirty { format!("{commit} dirty") } else { commit }
}

impl Host {
    /// Collects the facts.
    #[must_use]
    pub fn here(contenders: &[Entry]) -> Self {
        let release = file("/proc/sys/kernel/osrelease").unwrap_or_else(unknown);
        let libc = first_line("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_else(unknown);
        let libc_version = libc.strip_prefix("glibc ").unwrap_or(&libc).to_owned();
        let version = |entry: &Entry| {
            let own = entry.info.version;
            (entry.info.name.to_owned(), if own.is_empty() { libc_version.clone() } else { own.to_owned() })
        };
        Self {
            cpu: cpu().unwrap_or_else(unknown),
            cpus: os::cpus().len().max(usize::from(std::thread::available_parallelism().is_ok())),
            kernel: format!("{} {release}", std::env::consts::OS),
            huge_pages: huge_pages().unwrap_or_else(unknown),
            rustc: env!("EPHEMERA_RUSTC").to_owned(),
            target: env!("EPHEMERA_TARGET").to_owned(),
            profile: format!("{}, opt-level {}", env!("EPHEMERA_PROFILE"), env!("EPHEMERA_OPT_LEVEL")),
            commit: commit(Path::new(".")),
            load: os::load_average().unwrap_or_else(unknown),
            steal: os::steal(),
            contenders: {
                let mut all: Vec<_> = contenders.iter().map(version).collect();
                let mut seen = BTreeSet::new();
                all.retain(|(name, _)| seen.insert(name.clone()));
                all
            },
            libc,
        }
    }

    /// Returns whether the harness was built without optimisation. Its figures then mean nothing.
    #[must_use]
    pub fn unoptimised() -> bool {
        !matches!(env!("EPHEMERA_OPT_LEVEL"), "2" | "3")
    }
}
