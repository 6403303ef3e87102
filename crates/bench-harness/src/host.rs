//! The facts about the host and the build that a report states at its top.

use std::collections::BTreeSet;
use std::path::Path;

use ephemera_measure::host::{cpu, file, first_line, huge_pages, unknown};
use serde::{Deserialize, Serialize};

pub use ephemera_measure::host::commit;

use crate::contenders::Entry;
use crate::os;

/// The facts about the host and the build on which the figures depend.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// The model of the processor.
    pub cpu: String,
    /// The number of CPUs that the process may use; 1 if the system does not report them.
    pub cpus: usize,
    /// The operating system and its kernel.
    pub kernel: String,
    /// The C library and its version.
    pub libc: String,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: String,
    /// The version of the Rust compiler.
    pub rustc: String,
    /// The target triple.
    pub target: String,
    /// The name of the cargo profile's directory (`release` also for the profile `bench`), and the
    /// optimisation level.
    pub profile: String,
    /// The commit that is checked out in the working directory.
    pub commit: String,
    /// The load averages at the start of the run.
    pub load: String,
    /// The time that the hypervisor had given to other guests by the start of the run, in ticks.
    /// `None` on systems that do not report it.
    pub steal: Option<u64>,
    /// The name and the version of each contender, each name once.
    pub contenders: Vec<(String, String)>,
}

impl Host {
    /// Collects the facts about this host and build.
    pub fn here(contenders: &[Entry]) -> Self {
        let release = file("/proc/sys/kernel/osrelease").unwrap_or_else(unknown);
        let libc = first_line("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_else(unknown);
        let libc_version = libc.strip_prefix("glibc ").unwrap_or(&libc).to_owned();
        let mut seen = BTreeSet::new();
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
            contenders: contenders.iter().filter(|entry| seen.insert(entry.info.name)).map(version).collect(),
            libc,
        }
    }

    /// Returns whether the harness was built with an `opt-level` other than 2 or 3. The figures of
    /// such a build are meaningless.
    pub fn unoptimised() -> bool {
        !matches!(env!("EPHEMERA_OPT_LEVEL"), "2" | "3")
    }
}
