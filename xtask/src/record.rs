//! `cargo xtask record`: runs a program with the recorder preloaded.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[cfg(target_os = "linux")]
mod earlier;
#[cfg(target_os = "linux")]
mod environment;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod running;

#[cfg(target_os = "linux")]
pub(crate) use linux::main;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask record -- git log --stat
  cargo xtask record --out gcc.trace -- gcc -O2 -c file.c -o /dev/null
  cargo xtask record --max-bytes 64M -- python3 script.py

Then `cargo xtask advise TRACE` says what the trace shows, and `cargo xtask replay TRACE` measures it.

Every process that CMD starts is recorded, each into a file of its own. TRACE is the one that used its allocator most; the
others are in a directory in TRACE.processes/, named by process. A recording that has a trace replaces the earlier traces at the
same place. It refuses to replace any other file. Ctrl-C ends CMD as it would without the recorder, and the trace is kept. A
program cannot be recorded if it is statically linked, is set-user-id or clears its environment. docs/traces.md has more.

The exit status is that of CMD, or 128 plus the number of the signal that ended it; 125 if CMD succeeded and the recording
failed, 126 if CMD cannot be run, 127 if there is no CMD.")]
pub(crate) struct RecordOptions {
    /// Write the trace to this file [default: target/trace/trace].
    #[arg(long, value_name = "TRACE")]
    out: Option<PathBuf>,
    /// Limit the trace of each process to this number of bytes, from 64K to 16T, with the units K,
    /// M, G and T [default: 1G].
    #[arg(long, value_name = "N", value_parser = bytes)]
    max_bytes: Option<u64>,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Reports that this system has no recorder.
#[cfg(not(target_os = "linux"))]
pub(crate) fn main(_ws: &crate::workspace::Workspace, _options: &RecordOptions) -> std::process::ExitCode {
    crate::shell::tell(
        "error: this command records programs with a preloaded library, which exists for Linux only",
    );
    std::process::ExitCode::FAILURE
}

/// The smallest accepted value of `--max-bytes`.
const LEAST: u64 = 64 << 10;
/// The largest accepted value of `--max-bytes`.
const MOST: u64 = 16 << 40;

/// Parses a number of bytes, with an optional unit: K, M, G or T. Returns a message for any other
/// text, and for a number below [`LEAST`] or above [`MOST`].
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        Some((at, 'T' | 't')) => (&text[..at], 40),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a whole number of bytes, such as 65536, 64K, 100M or 2G".to_owned());
    }
    // A number that overflows is also too large.
    let number: u64 = digits.parse().unwrap_or(u64::MAX);
    match number.saturating_mul(1 << shift) {
        ..LEAST => Err("too small: a trace needs at least 64K".to_owned()),
        LEAST..=MOST => Ok(number << shift),
        _ => Err("too large: a process maps its whole trace, so the limit is at most 16T".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(bytes("65536"), Ok(65_536));
        assert_eq!(bytes("64K"), Ok(65_536));
        assert_eq!(bytes("2m"), Ok(2 << 20));
        assert_eq!(bytes("1G"), Ok(1 << 30));
        assert_eq!(bytes("16T"), Ok(16 << 40));
    }

    #[test]
    fn each_refused_size_has_its_own_message() {
        for (bad, told) in [
            ("", "whole number"),
            ("K", "whole number"),
            ("1.5G", "whole number"),
            ("-1", "whole number"),
            ("64é", "whole number"),
            ("12", "too small"),
            ("63K", "too small"),
            ("17T", "too large"),
            ("99999999999G", "too large"),
            ("99999999999999999999999", "too large"),
        ] {
            let said = bytes(bad).unwrap_err();
            assert!(said.contains(told), "{bad}: {said}");
        }
    }
}
