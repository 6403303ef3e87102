//! Makes the traces of R6 in `data/`, whose `README.md` says how each was made.
//!
//! ```text
//! record json OUT          records serde_json over a generated document
//! record syn OUT           records syn over a source file of this harness
//! record http OUT          records the server of R3 over 3,200 requests
//! record thin IN OUT WHAT  renumbers addresses, zeroes times, and sets the command line to WHAT
//! ```

#![expect(clippy::std_instead_of_alloc, reason = "a program of a host")]

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("record: recording needs Linux");
}
