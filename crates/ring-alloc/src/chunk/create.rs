//! Writes the headers of a new chunk.

use core::ptr::NonNull;

use ephemera_prim::poison::poison;
use ephemera_prim::raw;
use ephemera_prim::word::OwnerUsize;

use super::{Chunk, ChunkPtr, ChunkRemote, HEADER};
use crate::geometry::{ChunkClass, Geometry, SECTIONS, SLACK, section_size};

impl ChunkPtr {
    /// Creates an empty chunk in new memory.
    ///
    /// # Safety
    /// `memory` was acquired with the chunk layout of `class` and belongs to the caller alone.
    pub(crate) unsafe fn create<G: Geometry>(
        memory: NonNull<u8>,
        class: ChunkClass,
        owner: *const (),
    ) -> Self {
        let chunk = memory.cast::<Chunk>();
        raw::expose(chunk.as_ptr());
        let (base, bytes) = (chunk.addr().get(), class.chunk_layout::<G>().size());
        // SAFETY: the memory is the caller's, aligned to the chunk's size and large enough.
        unsafe { Self::write(chunk, base + bytes, class, owner) }
    }

    /// Writes the header of an empty chunk or section that ends at `end`.
    ///
    /// # Safety
    /// The memory from `chunk` to `end` belongs to the caller alone. It has room for the header.
    unsafe fn write(chunk: NonNull<Chunk>, end: usize, class: ChunkClass, owner: *const ()) -> Self {
        let (first, remote) = (chunk.addr().get() + HEADER, ChunkRemote::new(owner, class));
        let header = Chunk { cursor: OwnerUsize::new(first), end, first, remote, ..Chunk::full() };
        // SAFETY: the memory is the caller's.
        unsafe { chunk.write(header) };
        let this = Self(chunk);
        // SAFETY: the memory after the header has no block yet.
        unsafe { poison(this.at(first), end - first) };
        this
    }

    /// Creates a split chunk in new memory.
    ///
    /// # Safety
    /// `memory` was acquired with the chunk layout of the small class and belongs to the caller
    /// alone. `section_size` of this geometry is not 0.
    pub(crate) unsafe fn create_split<G: Geometry>(memory: NonNull<u8>, owner: *const ()) -> Self {
        let chunk = memory.cast::<Chunk>();
        raw::expose(chunk.as_ptr());
        let (base, size) = (chunk.addr().get(), section_size::<G>(HEADER));
        let remote = ChunkRemote::new(owner, ChunkClass::Small);
        // SAFETY: the memory is the caller's, aligned and large enough.
        unsafe { chunk.write(Chunk { first: size, remote, ..Chunk::full() }) };
        let this = Self(chunk);
        for (i, section) in this.sections().enumerate() {
            let end = base + (i + 1) * size - if i + 1 == SECTIONS { SLACK } else { 0 };
            // SAFETY: the memory up to `end` is the caller's, and `section_size` made sure that it
            // has room for the header.
            unsafe { Self::write(section.as_non_null(), end, ChunkClass::Small, owner) };
        }
        this
    }
}
