//! Runs a program under callgrind and reads the share of its allocator.

use core::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The names of the functions of the C library that a program calls for memory.
const ALLOCATOR: [&str; 8] =
    ["malloc", "free", "calloc", "realloc", "memalign", "posix_memalign", "aligned_alloc", "reallocarray"];

/// The allocator's shares in the process that executes the most instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) instructions: f64,
    /// The share of the processor time in system calls.
    pub(crate) system: f64,
}

/// Runs a command under callgrind, which writes its files into `dir`. Returns the allocator's
/// shares, or an error if no process left a profile with a main function.
pub(crate) fn run(command: &Command, dir: &Path) -> Result<Shares, Box<dyn Error>> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", "--trace-children=yes", "--collect-systime=nsec"])
        .arg(format!("--callgrind-out-file={}", dir.join("callgrind.%p").display()))
        .arg(command.get_program())
        .args(command.get_args())
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(at) = command.get_current_dir() {
        valgrind.current_dir(at);
    }
    valgrind.status()?;
    let mut best: Option<(u64, Shares)> = None;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|name| name == "callgrind")
            && let Some(found) = read(&path)?
            && best.is_none_or(|(most, _)| most < found.0)
        {
            best = Some(found);
        }
    }
    best.map(|(_, shares)| shares).ok_or_else(|| "callgrind left no profile with a main function".into())
}

/// Reads a profile. Returns the number of instructions of the process and the shares of its
/// allocator, or `None` if the process has no main function.
fn read(path: &Path) -> Result<Option<(u64, Shares)>, Box<dyn Error>> {
    let output = Command::new("callgrind_annotate")
        .args(["--inclusive=yes", "--threshold=100", "--show-percs=no"])
        .arg(path)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut columns = [0; 2];
    let (mut whole, mut part) = (None, [0; 2]);
    for line in text.lines() {
        if let Some(names) = line.strip_prefix("Events shown:") {
            let place = |wanted: &str| names.split_whitespace().position(|name| name == wanted);
            columns = [place("Ir").unwrap_or(0), place("sysCpuTime").ok_or("no times of system calls")?];
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<u64> = words.iter().map_while(|word| number(word)).collect();
        let Some(name) = words.get(numbers.len()) else { continue };
        let costs = columns.map(|column| numbers.get(column).copied().unwrap_or(0));
        let function = name.rsplit(':').next().unwrap_or(name).split(['@', '\'']).next().unwrap_or(name);
        if line.contains(":(below main)") {
            whole = whole.max(Some(costs));
        } else if ALLOCATOR.contains(&function) && line.contains("/libc") {
            part = [part[0] + costs[0], part[1] + costs[1]];
        }
    }
    Ok(whole.map(|whole| {
        let of = |at: usize| part[at] as f64 / whole[at].max(1) as f64;
        (whole[0], Shares { instructions: of(0), system: of(1) })
    }))
}

/// Parses a number with commas. A dot means 0. Returns `None` for any other word.
fn number(word: &str) -> Option<u64> {
    if word == "." { Some(0) } else { word.replace(',', "").parse().ok() }
}
