//! How much memory a replay may touch.
//!
//! A play that measures memory writes to each page of each block once, even if the program did not.
//! A program may ask for a large buffer and use little of it, so its trace may ask for more than
//! the machine has. The system would end such a replay, and maybe other processes too.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use crate::units::bytes;

use super::player;
use super::program::Program;

/// The part of what is available that a replay may have alive, as a divisor: allocators take more
/// than they hand out.
const PART: u64 = 2;

/// Returns how many bytes this process can get before the system reclaims those of others, if the
/// system tells.
pub(super) fn available() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(group_limit().unwrap_or(u64::MAX).min(kib * 1024))
}

/// The least limit of the control groups (version 2) that this process is in.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let limit = |group: &Path| -> Option<u64> {
        let file = Path::new("/sys/fs/cgroup").join(group).join("memory.max");
        fs::read_to_string(file).ok()?.trim().parse().ok()
    };
    Path::new(&own).ancestors().filter_map(limit).min()
}

/// Returns the bytes of memory that a program takes with `players` players.
pub(super) fn needs(program: &Program, players: usize) -> u64 {
    program.resident() + players as u64 * player::resident(program)
}

/// Why the memory of a program is not measured in `room` bytes; `None` if it can be. What the
/// replay itself needs is counted.
pub(super) fn too_large(program: &Program, room: Option<u64>) -> Option<String> {
    let wanted = program.peak_live.saturating_add(needs(program, 1));
    let room = room.filter(|room| wanted > room / PART)?;
    Some(format!(
        "memory was not measured: up to {} are alive in the trace, and of the {} that are free here half may be used; time was \
         measured as always. A machine with more memory can measure both",
        bytes(program.peak_live),
        bytes(room)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_is_too_large_is_told() {
        let program = |peak_live| Program { peak_live, ..Program::default() };
        let room = Some(4 << 30);
        assert_eq!(too_large(&program(2 << 30), room), None);
        let said = too_large(&program(3 << 30), room).expect("more than half");
        assert!(said.contains("3.0 GiB") && said.contains("4.0 GiB"), "{said}");
        assert!(too_large(&program(12 << 40), room).is_some());
        assert_eq!(too_large(&program(u64::MAX), None), None, "where the system does not tell");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells() {
        assert!(available().is_some_and(|room| room > 1 << 20), "{:?}", available());
    }
}
