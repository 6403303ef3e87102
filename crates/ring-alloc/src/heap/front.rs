//! The fronts of a heap: the cursors of chunks that the heap allocates from.

use core::ptr;

use super::{ChunkHeap, RingEnv, full_chunk};
use crate::chunk::{BumpCursor, Chunk, ChunkPtr};
use crate::geometry::ChunkClass;

/// Makes the second cursor of `chunk` the front of `class` if the chunk is divided, its first
/// cursor if it is not, and the full chunk if there is no chunk. Tells `env` about the change (H7).
/// `ChunkHeap::enter` also sets fronts, but before a thread-local names the record.
pub(super) fn set_front<E: RingEnv>(env: E, class: ChunkClass, chunk: Option<ChunkPtr>) {
    let divided = chunk.filter(|chunk| chunk.is_divided());
    let front = match (divided, chunk) {
        (Some(chunk), _) => chunk.second().as_ptr(),
        (None, Some(chunk)) => chunk.front().as_ptr(),
        (None, None) => full_chunk(),
    };
    if class == ChunkClass::Small {
        env.heap().set_divided_front(divided.map_or(ptr::null_mut(), ChunkPtr::as_ptr));
    }
    env.heap().set_front(class, front);
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

    /// Makes `front` the front of `class`, and publishes the sums of the previous front (B2).
    pub(super) fn set_front(&self, class: ChunkClass, front: *mut BumpCursor) {
        let word = &self.fronts[class.index()];
        if weakened!("ring_front_relaxed") { word.set(front) } else { word.publish(front) }
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

    /// Notes the chunk of the front of small blocks, or null if the front is not the second cursor
    /// of a chunk.
    pub(super) fn set_divided_front(&self, divided: *mut Chunk) {
        self.holes.divided_front.set(divided);
    }
}
