//! What the harness asks of the operating system: pinning, context switches, stolen time, resident memory.
//!
//! All of it is optional: where a system does not offer it, the answer is `None` and the report says so.

use std::fs;

/// Whose counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The calling thread's.
    Thread,
    /// Those of all threads of the process, ended ones included.
    Process,
}

/// Counters of a thread or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Times a thread was interrupted in favour of another one.
    pub involuntary_switches: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
}

/// Pins the calling thread to a CPU; whether that worked.
#[cfg(target_os = "linux")]
pub fn pin(cpu: usize) -> bool {
    // SAFETY: a CPU set is a bit mask, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    if cpu >= 8 * size_of::<libc::cpu_set_t>() {
        return false;
    }
    // SAFETY: the index is within the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is initialised and its size is given; 0 means the calling thread.
    let status = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    status == 0
}

/// Pins the calling thread to a CPU; whether that worked. Not on this system.
#[cfg(not(target_os = "linux"))]
pub fn pin(_cpu: usize) -> bool {
    false
}

/// The CPUs that this process may run on.
#[cfg(target_os = "linux")]
#[must_use]
pub fn cpus() -> Vec<usize> {
    // SAFETY: a CPU set is a bit mask, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is as large as said; 0 means the calling thread.
    let status = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if status != 0 {
        return Vec::new();
    }
    // SAFETY: the index is within the set.
    let allowed = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..8 * size_of::<libc::cpu_set_t>()).filter(allowed).collect()
}

/// The CPUs that this process may run on: not known on this system.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn cpus() -> Vec<usize> {
    Vec::new()
}

/// Counters so far.
#[cfg(target_os = "linux")]
#[must_use]
pub fn usage(who: Who) -> Option<Usage> {
    let who = match who {
        Who::Thread => libc::RUSAGE_THREAD,
        Who::Process => libc::RUSAGE_SELF,
    };
    // SAFETY: the structure holds numbers alone, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the right type.
    let status = unsafe { libc::getrusage(who, &raw mut usage) };
    let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
    (status == 0)
        .then(|| Usage { involuntary_switches: count(usage.ru_nivcsw), minor_faults: count(usage.ru_minflt) })
}

/// Counters so far: not known on this system.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn usage(_who: Who) -> Option<Usage> {
    None
}

/// Time that the hypervisor gave to others, in the kernel's ticks, over all CPUs.
#[must_use]
pub fn steal() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    // The first line: "cpu", then user, nice, system, idle, iowait, irq, softirq, steal.
    stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()
}

/// Load averages over 1, 5 and 15 minutes.
#[must_use]
pub fn load_average() -> Option<String> {
    let line = fs::read_to_string("/proc/loadavg").ok()?;
    Some(line.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

fn status_kib(field: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim_start_matches(':').split_whitespace().next()?.parse().ok()
}

/// Bytes resident now.
#[must_use]
pub fn resident() -> Option<u64> {
    status_kib("VmRSS").map(|kib| kib * 1024)
}

/// Most bytes resident at a time since the start, or since [`reset_peak`].
#[must_use]
pub fn resident_peak() -> Option<u64> {
    status_kib("VmHWM").map(|kib| kib * 1024)
}

/// Gives pages that the process's own heap keeps free back to the system, where the C library can, so that a contender over
/// that heap does not find them and seem to take nothing.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the function takes a number and locks the heap by itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Sets the high-water mark back to what is resident now; whether that worked.
pub fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers() {
        let cpus = cpus();
        assert!(!cpus.is_empty());
        let cpu = cpus[0];
        assert!(std::thread::spawn(move || pin(cpu)).join().expect("pinning does not panic"));
        assert!(!pin(usize::MAX));
        assert!(usage(Who::Thread).is_some());
        let faults = |who| usage(who).expect("on Linux").minor_faults;
        let (own, all) = (faults(Who::Thread), faults(Who::Process));
        let touch = || drop(core::hint::black_box(vec![1_u8; 8 << 20]));
        std::thread::spawn(touch).join().expect("it touches memory");
        let (own, all) = (faults(Who::Thread) - own, faults(Who::Process) - all);
        // Three of them at least, should pages be of 2 MiB. Other tests run beside this one, and can only add.
        assert!(all >= own + 3, "{all} of the process, {own} of this thread, and another one touched 8 MiB");
        assert!(resident_peak() >= Some(1));
    }

    #[test]
    fn touched_memory_raises_the_peak() {
        let before = resident_peak().expect("on Linux");
        let block = core::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(resident_peak().expect("on Linux") >= before.min(resident().expect("on Linux")));
        assert!(resident_peak().expect("on Linux") >= 64 << 20);
        drop(block);
    }
}
