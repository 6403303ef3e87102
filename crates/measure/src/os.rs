//! Requests that measurements make to the operating system: pinning, context switches, stolen time,
//! resident memory.
//!
//! Every request is optional. On a system that cannot serve a request, the function returns `None`,
//! `false` or an empty list, and reports say so.

use std::fs;
use std::io::Read as _;

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The threads whose counters [`usage`] adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The calling thread.
    Thread,
    /// All threads of the process, including ended threads.
    Process,
}

/// Counters of a thread or of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// The number of times that the kernel interrupted a thread in favour of another thread.
    pub involuntary_switches: u64,
    /// The number of page faults that did not read from a disk.
    pub minor_faults: u64,
}

/// Pins the calling thread to a CPU. Returns whether that worked.
#[cfg(target_os = "linux")]
pub fn pin(cpu: usize) -> bool {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return false;
    }
    set.set(cpu);
    sched_setaffinity(None, &set).is_ok()
}

/// Returns `false`: this system cannot pin a thread to a CPU.
#[cfg(not(target_os = "linux"))]
pub fn pin(_cpu: usize) -> bool {
    false
}

/// Returns the CPUs that the calling thread may run on, or an empty list if the kernel does not
/// report them.
#[cfg(target_os = "linux")]
#[must_use]
pub fn cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Returns an empty list: this system does not report the CPUs that a thread may run on.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn cpus() -> Vec<usize> {
    Vec::new()
}

/// Returns the counters of the thread or the process so far, or `None` if the kernel does not
/// report them.
#[cfg(target_os = "linux")]
#[must_use]
pub fn usage(who: Who) -> Option<ResourceUsage> {
    let who = match who {
        Who::Thread => libc::RUSAGE_THREAD,
        Who::Process => libc::RUSAGE_SELF,
    };
    // SAFETY: the structure has only integers, for which all-zero bytes are valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is valid for a write of the structure.
    let status = unsafe { libc::getrusage(who, &raw mut usage) };
    let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
    (status == 0).then(|| ResourceUsage {
        involuntary_switches: count(usage.ru_nivcsw),
        minor_faults: count(usage.ru_minflt),
    })
}

/// Returns `None`: this system does not report the counters.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn usage(_who: Who) -> Option<ResourceUsage> {
    None
}

/// Returns the time that the hypervisor gave to other guests, in ticks of the kernel, over all
/// CPUs. Returns `None` if the kernel does not report that time.
#[must_use]
pub fn steal() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    // The first line: "cpu", then user, nice, system, idle, iowait, irq, softirq, steal.
    stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()
}

/// Returns the load averages over 1, 5 and 15 minutes as text.
#[must_use]
pub fn load_average() -> Option<String> {
    let line = fs::read_to_string("/proc/loadavg").ok()?;
    Some(line.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

/// Returns the value, in bytes, that a system file states in KiB on the line that starts with
/// `name`, or `None` if there is no such file, line or number.
#[must_use]
pub fn reported(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Returns the size of this process's resident memory in bytes. The function does not allocate, so
/// it does not change the figure.
#[must_use]
pub fn resident() -> Option<u64> {
    let mut text = [0; 128];
    let length = fs::File::open("/proc/self/statm").ok()?.read(&mut text).ok()?;
    // The first two numbers are the pages of the address space and the resident pages.
    let pages = str::from_utf8(&text[..length]).ok()?.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    Some(pages * page_size()?)
}

/// Returns the size of an OS page in bytes.
#[cfg(target_os = "linux")]
fn page_size() -> Option<u64> {
    // SAFETY: the call has no preconditions.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()
}

/// Returns `None`: this system does not report the size of an OS page.
#[cfg(not(target_os = "linux"))]
fn page_size() -> Option<u64> {
    None
}

/// Returns the kernel's estimate of how many bytes processes can still take without swapping.
#[must_use]
pub fn available() -> Option<u64> {
    reported("/proc/meminfo", "MemAvailable:")
}

/// Returns the peak of the process's resident memory in bytes, since the start of the process, or
/// since the last call to [`reset_peak`].
#[must_use]
pub fn resident_peak() -> Option<u64> {
    reported("/proc/self/status", "VmHWM:")
}

/// Returns the free pages of the C library's heap to the system, if the C library can do so.
/// Without this call, an allocator on top of that heap would reuse these pages and seem to take no
/// memory.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: any thread may call this function, because it locks the heap itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Sets the peak of the resident memory to its present size. Returns whether that worked.
pub fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_cpus_faults_and_memory() {
        let cpus = cpus();
        assert!(!cpus.is_empty());
        let cpu = cpus[0];
        assert!(std::thread::spawn(move || pin(cpu)).join().expect("pinning does not panic"));
        assert!(!pin(usize::MAX));
        assert!(usage(Who::Thread).is_some());
        let faults = |who| usage(who).expect("Linux reports page faults").minor_faults;
        let (own, all) = (faults(Who::Thread), faults(Who::Process));
        let touch = || drop(core::hint::black_box(vec![1_u8; 8 << 20]));
        std::thread::spawn(touch).join().expect("no panic");
        let (own, all) = (faults(Who::Thread) - own, faults(Who::Process) - all);
        // Eight MiB are at least three pages, even if pages have 2 MiB. Parallel tests can only
        // add faults.
        assert!(all >= own + 3, "{all} of the process, {own} of this thread, and another one touched 8 MiB");
        assert!(resident_peak() >= Some(1));
        assert!(available() > Some(1 << 20), "bytes, not KiB");
    }

    #[test]
    fn touched_memory_raises_the_peak() {
        let before = resident_peak().expect("Linux reports memory");
        let block = core::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(
            resident_peak().expect("Linux reports memory")
                >= before.min(resident().expect("Linux reports memory"))
        );
        assert!(resident_peak().expect("Linux reports memory") >= 64 << 20);
        assert!(
            resident().expect("Linux reports memory") >= 64 << 20,
            "resident bytes are not counted in pages"
        );
        drop(block);
    }
}
