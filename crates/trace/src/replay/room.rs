//! Decides how much memory a replay may touch.
//!
//! A play that measures memory writes to each page of each block, even if the recorded program did
//! not. A program may request a large buffer and use little of it, so its trace may have more live
//! bytes than the machine has memory. The system would kill the replay of such a trace, and perhaps
//! other processes.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use ephemera_measure::os;

use crate::units::bytes;

use super::player;
use super::program::ReplayProgram;

/// The divisor that limits a measurement of memory. The live bytes and the replay's own data may
/// take at most the available memory divided by this number, because allocators take more than they
/// hand out.
const PART: u64 = 2;

/// Returns the memory that is available on the system or, if that is less, the limit of this
/// process's control groups, in bytes. Returns `None` if the system does not report its available
/// memory.
pub(super) fn available() -> Option<u64> {
    Some(group_limit().unwrap_or(u64::MAX).min(os::available()?))
}

/// Returns the smallest memory limit of this process's control groups (version 2), in bytes, or
/// `None` if no limit is known.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let limit = |group: &Path| -> Option<u64> {
        let file = Path::new("/sys/fs/cgroup").join(group).join("memory.max");
        fs::read_to_string(file).ok()?.trim().parse().ok()
    };
    Path::new(&own).ancestors().filter_map(limit).min()
}

/// Returns the number of bytes of memory that a replay with `players` players takes for itself.
pub(super) fn needs(program: &ReplayProgram, players: usize) -> u64 {
    program.resident() + players as u64 * player::resident(program)
}

/// Returns the reason why the memory of a program cannot be measured within `room` bytes, or `None`
/// if it can be measured, or if `room` is `None`. The replay's own memory must fit too.
pub(super) fn too_large(program: &ReplayProgram, room: Option<u64>) -> Option<String> {
    let wanted = program.peak_live.saturating_add(needs(program, 1));
    let room = room.filter(|room| wanted > room / PART)?;
    Some(format!(
        "memory was not measured: up to {} are live in the trace, and a replay may use half of the {} that are free here. Time was \
         measured. A machine with more memory can measure both",
        bytes(program.peak_live),
        bytes(room)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_exceeds_half_of_memory_is_not_measured() {
        let program = |peak_live| ReplayProgram { peak_live, ..ReplayProgram::default() };
        let room = Some(4 << 30);
        assert_eq!(too_large(&program(2 << 30), room), None);
        let said = too_large(&program(3 << 30), room).expect("the trace exceeds half of memory");
        assert!(said.contains("3.0 GiB") && said.contains("4.0 GiB"), "{said}");
        assert!(too_large(&program(12 << 40), room).is_some());
        assert_eq!(too_large(&program(u64::MAX), None), None, "the available memory is unknown");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_available_memory_is_known() {
        assert!(available().is_some_and(|room| room > 1 << 20), "{:?}", available());
    }
}
