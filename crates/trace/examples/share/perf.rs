//! Samples a program with perf and counts the samples in its allocator.

use core::error::Error;
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// The number of runs of a program. The samples of all runs are added up.
const RUNS: u32 = 5;
/// The number of samples in a second.
const FREQUENCY: u32 = 20_000;
/// The prefixes of the names of the C library's allocator functions.
const ALLOCATOR: [&str; 24] = [
    "malloc",
    "__libc_malloc",
    "_int_malloc",
    "free",
    "cfree",
    "__libc_free",
    "_int_free",
    "calloc",
    "__libc_calloc",
    "realloc",
    "__libc_realloc",
    "_int_realloc",
    "memalign",
    "__libc_memalign",
    "_mid_memalign",
    "_int_memalign",
    "posix_memalign",
    "aligned_alloc",
    "unlink_chunk",
    "sysmalloc",
    "systrim",
    "munmap_chunk",
    "mremap_chunk",
    "tcache_init",
];

/// Returns the allocator's share of the user time of the busiest process. The error says why perf
/// has no figure.
pub(crate) fn run(command: &Command, dir: &Path) -> Result<f64, Box<dyn Error>> {
    let (mut all, mut allocator) = (0, 0);
    for _ in 0..RUNS {
        let data = dir.join("perf.data");
        let recorded = Command::new("perf")
            .args(["record", "--quiet", "--event", "cpu-clock:u", "--freq", &FREQUENCY.to_string()])
            .arg("--output")
            .arg(&data)
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args())
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !recorded.success() {
            return Err("perf cannot sample here".into());
        }
        let report = Command::new("perf")
            .args(["report", "--stdio", "--no-children", "--fields", "sample,pid,sym"])
            .args(["--field-separator", ";", "--input"])
            .arg(&data)
            .stderr(Stdio::null())
            .output()?;
        let busiest = busiest(&String::from_utf8_lossy(&report.stdout)).ok_or("perf sampled nothing")?;
        all += busiest[0];
        allocator += busiest[1];
    }
    Ok(allocator as f64 / all as f64)
}

/// Returns the number of samples of the process with the most samples, and the number of these
/// samples in its allocator, or `None` if the report has no samples. A line of the report is
/// `samples;pid:command;[.] symbol`.
fn busiest(report: &str) -> Option<[u64; 2]> {
    let mut processes: HashMap<&str, [u64; 2]> = HashMap::new();
    for line in report.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split(';').map(str::trim);
        let (Some(samples), Some(process), Some(symbol)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let Ok(samples) = samples.parse::<u64>() else { continue };
        let name = symbol.rsplit("] ").next().unwrap_or(symbol).split(['@', '.']).next().unwrap_or("");
        let counts = processes.entry(process).or_default();
        counts[0] += samples;
        counts[1] += if ALLOCATOR.iter().any(|known| name.starts_with(known)) { samples } else { 0 };
    }
    processes.into_values().max_by_key(|counts| counts[0])
}
