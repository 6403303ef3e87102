//! The parameters of a run, and the operations that a workload needs from an allocator.

use ephemera_coherence::catalogue::TracedWorkload;

/// The workload of a run, its number of threads, and its number of counted rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TracedRun {
    pub(crate) workload: TracedWorkload,
    pub(crate) threads: usize,
    pub(crate) rounds: u64,
}

/// The largest requested size, in bytes.
pub(crate) const LARGEST: usize = 512;

/// An allocator with items that any thread may free, by dropping them.
pub(crate) trait TracedAllocator: Sync {
    /// A block, a value or a buffer, which is freed when it is dropped.
    type Item: Send;
    /// The heap that each thread owns; `()` if threads own no heaps.
    type Heap;

    /// Creates the heap of a thread.
    fn heap(&self) -> Self::Heap;

    /// Allocates an item. Contenders for values of one type ignore the size.
    fn make(&self, heap: &mut Self::Heap, bytes: usize) -> Self::Item;

    /// Writes all bytes of an item.
    fn fill(item: &mut Self::Item);

    /// Reads a byte of each cache line of a filled item.
    fn look(item: &Self::Item);
}
