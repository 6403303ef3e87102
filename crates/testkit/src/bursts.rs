//! Measures the resident memory and the page faults of the process around a burst of blocks, on
//! Linux. Tests use these measurements to show which memory an allocator returns without a further
//! call, and which pages it keeps.

use core::time::Duration;
use std::fs;
use std::sync::mpsc::sync_channel;
use std::thread;

/// The size of an OS page in bytes.
pub const PAGE: usize = 4 << 10;

/// Returns the number of resident bytes of the process.
///
/// # Panics
/// Panics if `/proc/self/statm` cannot be read or does not contain the number.
#[must_use]
pub fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").expect("the system has this file");
    let pages = pages.split(' ').nth(1).and_then(|word| word.parse::<usize>().ok());
    pages.expect("the second word is a number") * PAGE
}

/// Returns the number of minor page faults of the process so far, that is, of faults without a disk
/// access.
///
/// # Panics
/// Panics if `/proc/self/stat` cannot be read or does not contain the number.
#[must_use]
pub fn faults() -> usize {
    let stat = fs::read_to_string("/proc/self/stat").expect("the system has this file");
    let after_name = stat.rsplit(')').next().expect("the text contains the name of the program");
    // The text after the name starts with field 3, and `minflt` is field 10.
    after_name.split_whitespace().nth(7).and_then(|word| word.parse().ok()).expect("field 10 is a number")
}

/// Returns the maximum number of resident bytes that huge pages add around used spans of `lengths`
/// different lengths. This is 2 MiB for each length if the system gives huge pages to every
/// program, and otherwise 0.
#[must_use]
pub fn huge_page_excess(lengths: usize) -> usize {
    let mode = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if mode.contains("[always]") { lengths * (2 << 20) } else { 0 }
}

/// Returns the number that the system gave to the calling thread.
fn thread_number() -> String {
    let stat = fs::read_to_string("/proc/thread-self/stat").expect("the system has this file");
    stat.split(' ').next().expect("the text begins with the number of the thread").to_owned()
}

/// Waits until a thread of this process sleeps. A thread that the system has preempted before it
/// sleeps could still take the slow path of its allocator.
///
/// # Panics
/// Panics if the thread has ended.
fn wait_until_asleep(thread: &str) {
    let is_asleep = || {
        let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).expect("the thread lives");
        stat.rsplit(')').next().is_some_and(|after_name| after_name.trim_start().starts_with('S'))
    };
    while !is_asleep() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The memory of the process around one burst.
#[derive(Debug, Clone, Copy)]
pub struct BurstMemory {
    /// The resident bytes before the burst.
    pub before: usize,
    /// The resident bytes when all blocks were live.
    pub peak: usize,
    /// The resident bytes after the last block was freed. The collection that held the blocks is
    /// still allocated.
    pub after: usize,
    /// The number of minor page faults during the allocation of the blocks.
    pub faults: usize,
}

/// Measures a burst that `make` allocates. `free` frees the blocks, but not the collection that
/// holds them.
pub fn measured<B>(make: impl FnOnce() -> B, free: impl FnOnce(&mut B)) -> BurstMemory {
    let (before, faults_before) = (resident(), faults());
    let mut blocks = make();
    let (faults, peak) = (faults() - faults_before, resident());
    free(&mut blocks);
    BurstMemory { before, peak, after: resident(), faults }
}

/// Measures `bursts` bursts that another thread allocates and the calling thread frees. After the
/// allocations of each burst, the other thread sleeps until the next burst.
pub fn freed_elsewhere<B: Send>(
    make: impl Fn() -> B + Send,
    free: impl Fn(&mut B),
    bursts: usize,
) -> Vec<BurstMemory> {
    let (send, receive) = sync_channel(1);
    let (order, orders) = sync_channel(1);
    thread::scope(|threads| {
        let owner = threads.spawn(move || {
            let number = thread_number();
            orders.iter().for_each(|()| send.send((number.clone(), make())).unwrap_or(()));
        });
        let next = || {
            order.send(()).expect("the owner waits");
            let (number, blocks) = receive.recv().expect("the owner sends");
            wait_until_asleep(&number);
            blocks
        };
        let memory = (0..bursts).map(|_| measured(next, &free)).collect();
        drop(order);
        // `thread::scope` may return before the thread's exit is complete, and the exit frees
        // memory.
        owner.join().expect("no panic");
        memory
    })
}

/// Measures two bursts that two other threads allocate. While these threads sleep, two more threads
/// free the bursts at the same time. The result covers both bursts together.
pub fn two_freed_at_once<B: Send>(make: impl Fn() -> B + Sync, free: impl Fn(&mut B) + Sync) -> BurstMemory {
    let (before, faults_before) = (resident(), faults());
    let (send, receive) = sync_channel(2);
    thread::scope(|threads| {
        let owners = [(), ()].map(|()| {
            let (send, make) = (send.clone(), &make);
            let (end, ended) = sync_channel::<()>(1);
            let owner = threads.spawn(move || {
                send.send((thread_number(), make())).unwrap_or(());
                ended.recv().unwrap_or(());
            });
            (owner, end)
        });
        let mut blocks = [(), ()].map(|()| {
            let (number, blocks) = receive.recv().expect("the owner sends");
            wait_until_asleep(&number);
            blocks
        });
        let (faults, peak) = (faults() - faults_before, resident());
        thread::scope(|freeing| {
            let started = blocks.each_mut().map(|blocks| freeing.spawn(|| free(blocks)));
            started.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        let after = resident();
        for (owner, end) in owners {
            drop(end);
            owner.join().expect("no panic");
        }
        BurstMemory { before, peak, after, faults }
    })
}

/// Checks that each of the last two of ten bursts takes few page faults, which shows that the
/// allocator kept their pages. Each burst has `bytes` bytes.
///
/// # Panics
/// Panics if one of these two bursts takes faults for a quarter of its pages or more, or if
/// `memory` does not have ten bursts.
pub fn check_pages_are_kept(memory: &[BurstMemory], bytes: usize) {
    let faults: Vec<_> = memory.iter().map(|burst| burst.faults).collect();
    assert_eq!(
        faults.len(),
        10,
        "the check needs ten bursts, because the allocator adapts during the first eight"
    );
    assert!(faults[8..].iter().all(|later| *later < bytes / PAGE / 4), "{faults:?}");
}
