//! Defines the statistics of a ring: the memory that it holds from its backing allocator, and the
//! part of that memory in live blocks.

use core::fmt;

use ephemera_prim::account::Booked;
use ephemera_prim::summary;

use crate::geometry::{ChunkClass, Geometry};
use crate::heap::ChunkHeap;

/// The statistics of a ring, or of all threads of [`OneRingAlloc`](crate::OneRingAlloc).
///
/// The numbers are exact while no other thread runs an operation, for instance after all threads
/// that used the allocator have been joined. Each call collects them in a walk over the chunks, so
/// statistics do not slow down allocations and frees.
///
/// # Examples
///
/// ```
/// use allocator_api2::boxed::Box;
/// use ring_alloc::RingAlloc;
///
/// let ring = RingAlloc::new();
/// let boxed = Box::new_in([0_u8; 100], ring.clone());
/// let stats = ring.stats();
/// assert_eq!((stats.blocks_live, stats.bytes_live), (1, 100));
/// assert!(stats.to_string().ends_with("KiB held, 100 B live"));
/// assert!(stats.overhead() >= 31 << 10, "the block keeps a chunk of 32 KiB");
/// drop(boxed);
/// ring.trim();
/// assert_eq!(ring.stats().chunks(), 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The statistics of small blocks and their chunks.
    pub small: ClassStats,
    /// The statistics of medium blocks and their chunks.
    pub medium: ClassStats,
    /// The statistics of large blocks, which come directly from the backing allocator. The number
    /// of chunks is always 0.
    pub large: ClassStats,
    /// The bytes taken from the backing allocator: the requested sizes of chunks, large blocks and
    /// the ring's own state.
    pub bytes_held: usize,
    /// The bytes in use by the program: the requested sizes of the live blocks of all classes.
    pub bytes_live: usize,
    /// The number of live blocks of all classes.
    pub blocks_live: usize,
    /// The limit on `bytes_held`, or `usize::MAX` for none.
    pub limit: usize,
    /// The number of threads whose chunks this call could not all read. Such a thread changed its
    /// list of chunks faster than this call could follow, or another thread held the lock of that
    /// list for too long, to collect statistics or to free chunks. The other fields, except
    /// `bytes_held`, do not count the unread chunks.
    pub unread_heaps: usize,
    /// The number of records beyond the static ones. A record is the allocator's state for one
    /// thread. A new thread takes over the record of an exited thread if there is one. Records are
    /// never freed, and do not count in `bytes_held`.
    pub extra_records: usize,
}

/// The statistics of one class of blocks.
///
/// # Examples
///
/// ```
/// use allocator_api2::vec::Vec;
/// use ring_alloc::RingAlloc;
///
/// let ring = RingAlloc::new();
/// let mut bytes = Vec::new_in(&ring);
/// bytes.resize(3_000, 0_u8);
/// // Blocks of more than 2 KiB are medium ones.
/// let stats = ring.stats();
/// assert_eq!((stats.small.chunks, stats.medium.chunks), (0, 1));
/// assert_eq!(stats.medium.blocks_live, 1);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// The number of chunks of this class that are held.
    pub chunks: usize,
    /// The number of chunks without a live block, including the front if it is empty.
    pub empty_chunks: usize,
    /// The number of empty chunks whose pages other threads offered to the operating system while
    /// the owner was idle. An owner is idle if it has not filled a chunk for 100 ms, or if other
    /// threads have freed blocks in more than 4 MiB of its chunks since it last filled one.
    /// Repeated bursts raise this bound of 4 MiB. Other threads free most empty chunks of an idle
    /// owner, and purge only the chunks that they cannot free. Purged chunks still count in
    /// `bytes_held`. The system may refuse to take locked pages. If pages have 64 KiB, small chunks
    /// stay resident.
    pub purged_chunks: usize,
    /// The number of chunks that have live blocks and are not the front. Each of them is held until
    /// its last block is freed.
    pub pinned_chunks: usize,
    /// The bytes taken from the backing allocator for this class: the requested sizes of its
    /// chunks, or of the large blocks.
    pub bytes_held: usize,
    /// The number of live blocks of this class.
    pub blocks_live: usize,
    /// The bytes in use by the program: the requested sizes of the live blocks of this class.
    pub bytes_live: usize,
}

/// Displays `bytes_held` and `bytes_live`, and the limit if there is one.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        summary::write(f, self.bytes_held, self.bytes_live, self.limit)
    }
}

impl Stats {
    /// Returns the number of chunks of all classes.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.small.chunks + self.medium.chunks
    }

    /// Returns the number of pinned chunks of all classes.
    #[must_use]
    pub fn pinned_chunks(&self) -> usize {
        self.small.pinned_chunks + self.medium.pinned_chunks
    }

    /// Returns the number of purged chunks of all classes.
    #[must_use]
    pub fn purged_chunks(&self) -> usize {
        self.small.purged_chunks + self.medium.purged_chunks
    }

    /// Returns the number of empty chunks of all classes.
    #[must_use]
    pub fn empty_chunks(&self) -> usize {
        self.small.empty_chunks + self.medium.empty_chunks
    }

    /// Returns the number of bytes that are held and not in use by the program.
    #[must_use]
    pub fn overhead(&self) -> usize {
        self.bytes_held.saturating_sub(self.bytes_live)
    }

    /// Returns whether these statistics cover all chunks: whether `unread_heaps` is zero.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unread_heaps == 0
    }

    /// Returns the number of live blocks of all classes: the field
    /// [`blocks_live`](Stats#structfield.blocks_live).
    #[must_use]
    pub fn blocks_live(&self) -> usize {
        self.blocks_live
    }

    /// Returns the number of live bytes of all classes: the field
    /// [`bytes_live`](Stats#structfield.bytes_live).
    #[must_use]
    pub fn bytes_live(&self) -> usize {
        self.bytes_live
    }

    /// Creates statistics from an account, without chunks.
    pub(crate) fn of_account(booked: Booked) -> Self {
        let (blocks, bytes) = (booked.large_blocks, booked.large_bytes);
        let large =
            ClassStats { bytes_held: bytes, blocks_live: blocks, bytes_live: bytes, ..ClassStats::default() };
        Self {
            large,
            bytes_held: booked.held,
            bytes_live: bytes,
            blocks_live: blocks,
            limit: booked.limit,
            ..Self::default()
        }
    }

    /// Adds the chunks of a heap to these statistics.
    pub(crate) fn add_heap<G: Geometry>(&mut self, heap: &ChunkHeap) {
        let read = heap.walk(|class, chunk| {
            let stats = if class == ChunkClass::Small { &mut self.small } else { &mut self.medium };
            let live = chunk.live_now();
            stats.chunks += 1;
            stats.bytes_held += class.chunk_layout::<G>().size();
            stats.blocks_live += live.blocks();
            stats.bytes_live += live.bytes();
            stats.empty_chunks += usize::from(live.blocks() == 0);
            stats.purged_chunks += usize::from(live.blocks() == 0 && chunk.is_purged());
            stats.pinned_chunks += usize::from(live.blocks() != 0 && !heap.is_front(class, chunk));
            self.blocks_live += live.blocks();
            self.bytes_live += live.bytes();
        });
        self.unread_heaps += usize::from(!read);
    }
}
