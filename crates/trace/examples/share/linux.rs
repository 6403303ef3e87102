//! Runs six programs, and prints a row of a table for each.

use core::error::Error;
use core::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use ephemera_trace::advise::Advice;
use ephemera_trace::{PATH_VARIABLE, Trace, TraceProfile};

use crate::{callgrind, perf};

/// The number of runs of a program without the recorder. Only the fastest run is used.
const RUNS: u32 = 3;
/// The number of recordings of a program. Only the recording with the median share is used, because
/// an interrupt in a measured call can distort a single recording.
const RECORDINGS: u32 = 5;

const LOOP: &str = "#include <stdlib.h>
int main(void) {
    void *volatile block;
    for (long i = 0; i < 1000000; i++) { block = malloc(16 + (i & 63)); free(block); }
}
";
const SCRIPT: &str = "import json
for turn in range(3):
    made = {str(i): [i, str(i) * 3, {'a': i}] for i in range(6000)}
    read = json.loads(json.dumps(made))
    order = sorted(read, key=lambda key: read[key][1])
";

/// Checks the programs that the argument selects, or runs as one of them.
pub(crate) fn main() -> ExitCode {
    let done = match env::args().nth(1).as_deref() {
        Some("work") => work().map(|()| true),
        wanted => check(wanted.unwrap_or_default()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("share: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs as the Rust program: parses a document of small objects many times.
fn work() -> Result<(), Box<dyn Error>> {
    let mut text = "[".to_owned();
    for i in 0..4000 {
        write!(text, "{{\"id\":{i},\"name\":\"name {i}\",\"list\":[{i},{i},null]}},")?;
    }
    text.push_str("0]");
    for _ in 0..20 {
        let value: serde_json::Value = serde_json::from_str(&text)?;
        drop(value);
    }
    Ok(())
}

/// Writes the input of the programs, and returns the programs by name.
fn programs(dir: &Path) -> Result<Vec<(&'static str, Command)>, Box<dyn Error>> {
    let file = |name: &str, text: &str| fs::write(dir.join(name), text).map(|()| dir.join(name));
    let mut sql = "CREATE TABLE word(id INTEGER PRIMARY KEY, text TEXT, length INTEGER);
        CREATE INDEX by_length ON word(length);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        INSERT INTO word SELECT i, hex(i * 2654435761 % 4294967296), i * 7 % 13 FROM n;\n"
        .to_owned();
    for i in 1..2000 {
        writeln!(sql, "SELECT count(*), max(text) FROM word WHERE length = {} AND id < {};", i % 13, i * 3)?;
        writeln!(sql, "UPDATE word SET text = text || 'x{i}' WHERE id = {i};")?;
    }
    let mut source = "#include <math.h>\n#include <string.h>\n".to_owned();
    for i in 0..60 {
        writeln!(
            source,
            "int f{i}(int *a, int n) {{ int s = 0; for (int j = 0; j < n; j++) switch (a[j] % {}) {{ case 0: s += a[j] * {i}; \
             break; case 1: s ^= a[j] << {}; break; case 2: s -= strlen((char *)a + j); break; default: s += sin(a[j]) * {i}; \
             }} return s; }}",
            i % 17 + 3,
            i % 7
        )?;
    }
    let looped = dir.join("loop");
    let built = Command::new("cc")
        .args(["-O1", "-fno-builtin", "-o"])
        .arg(&looped)
        .arg(file("loop.c", LOOP)?)
        .status()?;
    if !built.success() {
        return Err("the loop does not build".into());
    }
    let mut sqlite = Command::new("sqlite3");
    sqlite.arg(":memory:").arg(format!(".read {}", file("script.sql", &sql)?.display()));
    let mut git = Command::new("git");
    git.args(["--no-pager", "log", "--oneline", "--stat", "-n", "100"]);
    let mut python = Command::new("python3");
    python.arg(file("script.py", SCRIPT)?).env("PYTHONMALLOC", "malloc");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-c", "-o", "/dev/null"]).arg(file("program.c", &source)?);
    let mut rust = Command::new(env::current_exe()?);
    rust.arg("work");
    Ok(vec![
        ("malloc loop in C", Command::new(looped)),
        ("sqlite3", sqlite),
        ("git log --stat", git),
        ("python3, PYTHONMALLOC=malloc", python),
        ("gcc -O2 -c (cc1)", gcc),
        ("serde_json, in Rust", rust),
    ])
}

/// Prints a row for each program whose name contains `wanted`. Returns whether each share is near
/// the figure of at least one profiler. A program that does not run has no share.
fn check(wanted: &str) -> Result<bool, Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let dir = scratch.path();
    let library = recorder()?;
    let mut good = true;
    println!(
        "| program | processor time | callgrind | perf | middle | range | recorder |\n|---|---|---|---|---|---|---|"
    );
    for (at, (name, mut command)) in programs(dir)?.into_iter().enumerate() {
        if !name.contains(wanted) {
            continue;
        }
        let own = dir.join(at.to_string());
        fs::create_dir_all(&own)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let [user, system] = match alone(&mut command) {
            Ok(times) => times,
            Err(error) => {
                println!("| {name} | not run: {error} | | | | | |");
                continue;
            }
        };
        let mut recordings = Vec::new();
        for recording in 0..RECORDINGS {
            let place = own.join(recording.to_string());
            fs::create_dir_all(&place)?;
            let advice = recorded(&mut command, &library, &place)?;
            recordings.push((advice.share.of_processor().ok_or("the trace has no processor times")?, advice));
            fs::remove_dir_all(&place)?;
        }
        recordings.sort_by(|one, other| one.0.mid.total_cmp(&other.0.mid));
        let (share, advice) = recordings.swap_remove(recordings.len() / 2);
        let shares = callgrind::run(&command, &own)?;
        let weighted = |in_user: f64| (in_user * user + shares.system * system) / (user + system);
        let known = weighted(shares.instructions);
        let sampled = perf::run(&command, &own).map(weighted);
        let near = share.is_near(known) || sampled.as_ref().is_ok_and(|sampled| share.is_near(*sampled));
        good &= near;
        println!(
            "| {name} | {:.2} s | {:.1} % | {} | {:.1} % | {:.1} to {:.1} % | {:.0} %{} |",
            user + system,
            known * 100.0,
            sampled.map_or_else(|why| why.to_string(), |sampled| format!("{:.1} %", sampled * 100.0)),
            share.mid * 100.0,
            share.low * 100.0,
            share.high * 100.0,
            advice.share.recorder.mid / advice.share.recorded.map_or(1.0, |all| all.mid) * 100.0,
            if near { "" } else { " FAR" }
        );
    }
    Ok(good)
}

/// Builds the recorder, as `cargo xtask record` does. Returns the path of the library.
fn recorder() -> Result<PathBuf, Box<dyn Error>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let target = Path::new(root).join("target/recorder");
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        .args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "ephemera-recorder",
            "--lib",
            "--features",
            "preload",
        ])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(root);
    if !build.status()?.success() {
        return Err("the recorder does not build".into());
    }
    Ok(target.join("release/libephemera_recorder.so"))
}

/// Returns the user and the system time of a command and its children in seconds, for the fastest
/// of [`RUNS`] runs.
fn alone(command: &mut Command) -> Result<[f64; 2], Box<dyn Error>> {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..RUNS {
        let before = times();
        if !command.status()?.success() {
            return Err("the command failed".into());
        }
        let after = times();
        let taken = [after[0] - before[0], after[1] - before[1]];
        if taken[0] + taken[1] < best[0] + best[1] {
            best = taken;
        }
    }
    Ok(best)
}

/// Returns the user and the system time of all ended children in seconds.
fn times() -> [f64; 2] {
    let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: the structure has only integers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    (usage.ru_utime, usage.ru_stime) = (zero, zero);
    // SAFETY: the pointer is valid for writes of a `rusage`.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 + time.tv_usec as f64 / 1e6)
}

/// Records a command. Returns the advice for its largest trace.
fn recorded(command: &mut Command, library: &Path, dir: &Path) -> Result<Advice, Box<dyn Error>> {
    command.env("LD_PRELOAD", library).env(PATH_VARIABLE, dir.join("trace"));
    command.status()?;
    command.env_remove("LD_PRELOAD").env_remove(PATH_VARIABLE);
    let mut largest: Option<Trace> = None;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("trace."))
            && let Ok(trace) = Trace::open(&path)
            && largest.as_ref().is_none_or(|known| known.bytes < trace.bytes)
        {
            largest = Some(trace);
        }
    }
    let trace = largest.ok_or("no trace was written")?;
    Ok(Advice::of(&TraceProfile::of(&trace, |_| ())?, None))
}
