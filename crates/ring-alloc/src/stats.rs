//! What a ring holds and what of it is alive.

use crate::account::Account;
use crate::geometry::{Class, Geometry};
use crate::heap::Heap;

/// What a ring holds from its backing allocator and what of it is alive.
///
/// Exact at rest: when no operation is in progress on another thread, and threads that used the ring were joined.
/// Gathered by walking along the chunks, so that nothing is counted for it while blocks come and go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Chunks of small blocks.
    pub small: ClassStats,
    /// Chunks of medium blocks.
    pub medium: ClassStats,
    /// Blocks too large for a chunk, which are the backing allocator's own. Their `chunks` are always zero.
    pub large: ClassStats,
    /// Bytes held from the backing allocator, as they were asked for: chunks, large blocks and the ring's own state.
    pub bytes_held: usize,
    /// The limit on `bytes_held`, in bytes; `usize::MAX` for none.
    pub limit: usize,
    /// Heaps of other threads that could not be read, since another reader stood in the way for long: what they have is missing above.
    pub unread_heaps: usize,
    /// Records of threads beyond the static ones. They are never freed, and are not part of `bytes_held`.
    pub extra_records: usize,
}

/// One class of blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// Chunks held.
    pub chunks: usize,
    /// Of these, chunks without a live block.
    pub empty_chunks: usize,
    /// Of these, chunks that are not being filled any more and have live blocks: each waits for its last one.
    pub pinned_chunks: usize,
    /// Bytes held.
    pub bytes_held: usize,
    /// Blocks alive.
    pub blocks_live: usize,
    /// Bytes alive, as they were asked for.
    pub bytes_live: usize,
}

impl Stats {
    /// Chunks held, of all classes.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.small.chunks + self.medium.chunks
    }

    /// Chunks that wait for their last block, of all classes.
    #[must_use]
    pub fn pinned_chunks(&self) -> usize {
        self.small.pinned_chunks + self.medium.pinned_chunks
    }

    /// Chunks without a live block, of all classes.
    #[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
    pub(crate) fn empty_chunks(&self) -> usize {
        self.small.empty_chunks + self.medium.empty_chunks
    }

    /// Blocks alive, of all classes.
    #[must_use]
    pub fn blocks_live(&self) -> usize {
        self.small.blocks_live + self.medium.blocks_live + self.large.blocks_live
    }

    /// Bytes alive, of all classes.
    #[must_use]
    pub fn bytes_live(&self) -> usize {
        self.small.bytes_live + self.medium.bytes_live + self.large.bytes_live
    }

    /// What an account knows, chunks not read yet.
    pub(crate) fn of_account(account: &impl Account) -> Self {
        let (blocks, bytes) = account.large_now();
        let large =
            ClassStats { bytes_held: bytes, blocks_live: blocks, bytes_live: bytes, ..ClassStats::default() };
        Self { large, bytes_held: account.held(), limit: account.limit(), ..Self::default() }
    }

    /// Adds the chunks of a heap.
    pub(crate) fn add_heap<G: Geometry>(&mut self, heap: &Heap) {
        let read = heap.walk(|class, chunk| {
            let stats = if class == Class::Small { &mut self.small } else { &mut self.medium };
            let live = chunk.live_now();
            stats.chunks += 1;
            stats.bytes_held += class.chunk_layout::<G>().size();
            stats.blocks_live += live.blocks();
            stats.bytes_live += live.bytes();
            stats.empty_chunks += usize::from(live.blocks() == 0);
            stats.pinned_chunks += usize::from(live.blocks() != 0 && !heap.is_front(class, chunk));
        });
        self.unread_heaps += usize::from(!read);
    }
}
