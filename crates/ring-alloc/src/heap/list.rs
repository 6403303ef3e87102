//! The list of all chunks: the owner adds and removes, statistics walk along it from any thread.
//!
//! Adding needs no lock: the new chunk is published at the head. Removing does, since a walker may stand on
//! the chunk: the owner tries the gate, a bounded number of times, and keeps the chunk if it stays closed.

use super::Heap;
use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::Class;

impl Heap {
    /// Adds a new chunk (H5). The owner's alone.
    pub(super) fn link(&self, chunk: ChunkPtr, class: Class) {
        let head = &self.chunks[class.index()];
        let next = head.get();
        chunk.next().set(next);
        // SAFETY: C1: chunks on the list are alive.
        if let Some(next) = unsafe { ChunkPtr::from_raw(next) } {
            next.prev().set(chunk.as_ptr());
        }
        head.publish(chunk.as_ptr());
    }

    /// Removes a chunk that is about to be freed. `false`, and nothing done, if the gate stays closed.
    pub(super) fn unlink(&self, chunk: ChunkPtr, class: Class) -> bool {
        let weak = cfg!(ephemera_weaken = "unlink_beside_a_walk");
        let pass = if weak { None } else { self.gate.enter() };
        if pass.is_none() && !weak {
            return false;
        }
        let (prev, next) = (chunk.prev().get(), chunk.next().get());
        // SAFETY: C1: its neighbours are on the list, hence alive.
        match unsafe { ChunkPtr::from_raw(prev) } {
            Some(prev) => prev.next().set(next),
            None => self.chunks[class.index()].set(next),
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { ChunkPtr::from_raw(next) } {
            next.prev().set(prev);
        }
        true
    }

    /// Calls `visit` for every chunk. `false` if the gate stayed closed and nothing was visited.
    pub(crate) fn walk(&self, mut visit: impl FnMut(Class, ChunkPtr)) -> bool {
        let Some(_pass) = self.gate.enter() else { return false };
        for class in Class::ALL {
            let mut at: *mut Chunk = self.chunks[class.index()].follow();
            // SAFETY: C1: no chunk leaves the list while this thread is behind the gate (H5).
            while let Some(chunk) = unsafe { ChunkPtr::from_raw(at) } {
                at = chunk.next().get();
                visit(class, chunk);
            }
        }
        true
    }

    /// Whether `chunk` is what this heap allocates from now. For statistics.
    pub(crate) fn is_front(&self, class: Class, chunk: ChunkPtr) -> bool {
        self.fronts[class.index()].get() == chunk.as_ptr()
    }
}
