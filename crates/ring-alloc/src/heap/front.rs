//! The fronts of a heap: the cursors of chunks that the heap allocates from.

use core::ptr;

use super::{ChunkHeap, RingEnv, full_chunk};
use crate::chunk::ChunkPtr;
use crate::geometry::ChunkClass;

/// Makes the second cursor of `chunk` the front of `class` if the chunk is divided, its first
/// cursor if it is not, and the full chunk if there is no chunk. Tells `env` about the change (H7).
/// `ChunkHeap::enter` also sets fronts, but before a thread-local names the record.
pub(super) fn set_front<E: RingEnv>(env: E, class: ChunkClass, chunk: Option<ChunkPtr>) {
    let divided = chunk.filter(|chunk| chunk.is_divided());
    let front = chunk.map_or_else(full_chunk, |chunk| chunk.current().as_ptr());
    let heap = env.heap();
    if class == ChunkClass::Small {
        heap.holes.divided_front.set(divided.map_or(ptr::null_mut(), ChunkPtr::as_ptr));
    }
    let word = &heap.fronts[class.index()];
    // Publishes the sums of the previous front (B2).
    if weakened!("ring_front_relaxed") {
        word.set(front);
    } else {
        word.publish(front);
    }
    if !weakened!("front_not_renewed") {
        env.front_changed();
    }
}

impl ChunkHeap {
    /// Returns the chunk of the front of `class`, or `None` if the front is the full chunk.
    pub(super) fn front_chunk(&self, class: ChunkClass) -> Option<ChunkPtr> {
        let front = self.front(class);
        match self.divided_front() {
            Some(divided) if class == ChunkClass::Small => Some(divided),
            _ if front.as_ptr() == full_chunk() => None,
            // SAFETY: any other front is the first cursor of its chunk (H8).
            _ => Some(unsafe { front.chunk() }),
        }
    }

    /// Returns whether the owner has replaced `chunk` as the front. If so, the caller sees every
    /// allocation of the owner in the chunk. The caller must have borrowed the chunk (B2), and run
    /// the heavy fence since if the chunk is divided (B3).
    pub(crate) fn has_replaced(&self, chunk: ChunkPtr) -> bool {
        let front = self.fronts[chunk.class().index()].observe();
        !chunk.has_cursor(front) || weakened!("ring_front_is_purged")
    }

    /// Returns the chunk through whose hole the front of small blocks runs, if the front is the
    /// second cursor of a chunk.
    #[inline]
    pub(crate) fn divided_front(&self) -> Option<ChunkPtr> {
        // SAFETY: the chunk of a front is not freed (C1).
        unsafe { ChunkPtr::from_raw(self.holes.divided_front.get()) }
    }
}
