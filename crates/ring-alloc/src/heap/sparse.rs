//! The words of a heap that may be sparse: its chunks with holes (see `holes`), and its census (see
//! `census`).

use core::cell::Cell;
use core::ptr;

use ephemera_prim::word::{OwnerPtr, OwnerUsize};

use crate::chunk::{Chunk, ChunkPtr};

/// The initial and the largest value of [`Holes::sparse`]: a heap stops being sparse after it has
/// continued in this many of its empty chunks without taking a hole.
pub(super) const PATIENCE: usize = 64;

/// The chunks with holes of a heap, and whether the heap is sparse.
#[derive(Debug)]
pub(super) struct Holes {
    pub(super) divided_front: OwnerPtr<Chunk>,
    pub(super) first: OwnerPtr<Chunk>,
    /// Positive while the heap is sparse. Each hole that the heap takes adds one, up to
    /// [`PATIENCE`]. Each empty chunk that the heap already had and continues in subtracts one,
    /// even the front.
    pub(super) sparse: OwnerUsize,
}

impl Holes {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new() -> Self {
            Self {
                divided_front: OwnerPtr::null(),
                first: OwnerPtr::null(),
                sparse: OwnerUsize::new(0),
            }
        }
    }

    /// Makes the heap sparse, or makes it stop being sparse.
    pub(super) fn set_sparse(&self, sparse: bool) {
        self.sparse.set(if sparse { PATIENCE } else { 0 });
    }

    /// Puts a divided chunk on the list of chunks with holes.
    pub(super) fn push(&self, chunk: ChunkPtr) {
        let [next, prev] = chunk.hole_links();
        let first = self.first.get();
        next.set(first);
        prev.set(ptr::null_mut());
        // SAFETY: a chunk on the list is not freed: it is removed when it runs empty (C1).
        if let Some(first) = unsafe { ChunkPtr::from_raw(first) } {
            first.hole_links()[1].set(chunk.as_ptr());
        }
        self.first.set(chunk.as_ptr());
        chunk.set_listed(true);
    }

    /// Removes a chunk from the list of chunks with holes, if it is on the list.
    pub(super) fn remove(&self, chunk: ChunkPtr) {
        if !chunk.is_listed() {
            return;
        }
        let [next, prev] = chunk.hole_links().map(Cell::get);
        // SAFETY: a chunk on the list is not freed: it is removed when it runs empty (C1).
        if let Some(next) = unsafe { ChunkPtr::from_raw(next) } {
            next.hole_links()[1].set(prev);
        }
        // SAFETY: the previous chunk is on the list too, so it is not freed (C1).
        match unsafe { ChunkPtr::from_raw(prev) } {
            Some(prev) => prev.hole_links()[0].set(next),
            None => self.first.set(next),
        }
        chunk.set_listed(false);
    }
}

/// The state of a pass over the small chunks of a heap.
#[derive(Debug)]
pub(super) struct ChunkCensus {
    /// The next chunk of the pass, or null between two passes.
    pub(super) next: OwnerPtr<Chunk>,
    /// The number of chunks with live blocks that this pass has found.
    pub(super) chunks: OwnerUsize,
    /// The live bytes in them.
    pub(super) live: OwnerUsize,
}

impl ChunkCensus {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new() -> Self {
            Self { next: OwnerPtr::null(), chunks: OwnerUsize::new(0), live: OwnerUsize::new(0) }
        }
    }
}
