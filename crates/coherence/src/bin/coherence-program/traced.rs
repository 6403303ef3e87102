//! The parameters of a run, and the operations that a workload needs from an allocator.

use ephemera_coherence::catalogue::TracedWorkload;

/// The parameters of a run: the workload, the number of threads, and the number of counted rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TracedRun {
    pub(crate) workload: TracedWorkload,
    pub(crate) threads: usize,
    pub(crate) rounds: u64,
}

/// The largest requested size, in bytes.
pub(crate) const LARGEST: usize = 512;

/// An allocator whose items any thread may free by dropping them.
pub(crate) trait TracedAllocator: Sync {
    /// A block, a value or a buffer, which is freed when it is dropped.
    type Item: Send;
    /// The heap that each thread owns; `()` if threads own no heaps.
    type Heap;

    /// Creates the heap of a thread.
    fn heap(&self) -> Self::Heap;

    /// Allocates an item of `bytes` bytes. Contenders for values of one type ignore `bytes`.
    fn make(&self, heap: &mut Self::Heap, bytes: usize) -> Self::Item;

    /// Writes all bytes of an item.
    fn fill(item: &mut Self::Item);

    /// Reads part of a filled item: every 64th byte, or the first word of a value.
    fn look(item: &Self::Item);
}
