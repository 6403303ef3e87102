//! Compares the share of time that `advise` reports with the shares that two profilers measure, for
//! six programs.
//!
//! ```text
//! share            prints a table, and fails if an estimate is far from both profilers
//! share NAME       does that for the programs whose name contains NAME
//! share work       is one of the programs: it parses a document many times
//! ```
//!
//! callgrind counts instructions, and perf samples time. The check compares with both profilers,
//! because each of them is wrong for some programs. `docs/traces.md` has the table and the reasons.

#[cfg(target_os = "linux")]
mod callgrind;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod perf;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("share: recording needs Linux");
}
