//! Checks the share of time that `advise` reports against callgrind, on six programs.
//!
//! ```text
//! share            prints a table, and fails where a middle figure is more than a third away from callgrind's
//! share work       is one of the programs: parses a document again and again
//! ```
//!
//! `docs/traces.md` has the table.

#[cfg(target_os = "linux")]
mod callgrind;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("share: recording needs Linux");
}
