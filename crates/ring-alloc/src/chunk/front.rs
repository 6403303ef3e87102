//! Defines [`FrontPtr`], through which a heap allocates from its front.
//!
//! Every chunk has a first cursor, at its base, which runs through the whole chunk. A chunk that
//! can be divided also has a second cursor, in the third line of its header, which runs through the
//! holes (see `sections`). A heap's front is one of these cursors. A free masks the address of its
//! block and compares the result, the base of the chunk, with the address of the front. The two are
//! never equal if the front is a second cursor.

use core::cell::Cell;
use core::ptr::NonNull;

use ephemera_prim::poison::unpoison;
use ephemera_prim::prefetch;
use ephemera_prim::witness::Witness;
use ephemera_prim::word::{OwnerU64, OwnerUsize};

use super::ChunkPtr;
use super::header::{BumpCursor, Chunk};
use crate::cursor::{place, room_of};
use crate::live::LiveCount;

/// A pointer to a cursor of a chunk.
///
/// # Invariant
/// The chunk satisfies C1, and the pointer may access the whole chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrontPtr(NonNull<BumpCursor>);

impl FrontPtr {
    // The chunk is not freed while the pointer is used (C1).
    words! {
        /// Returns the address at which the next block with an alignment of up to 8 bytes starts.
        pub(crate) fn next() -> &OwnerUsize = next;
        fn end() -> &Cell<usize> = end;
        /// Returns the `LiveCount` of this cursor's allocations since the chunk was last empty.
        pub(super) fn taken() -> &OwnerU64 = taken;
        fn contents() -> &Witness = contents;
    }

    /// # Safety
    /// `cursor` is a cursor of a chunk that satisfies C1, and may access the whole chunk.
    #[inline]
    pub(crate) unsafe fn new(cursor: NonNull<BumpCursor>) -> Self {
        Self(cursor)
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut BumpCursor {
        self.0.as_ptr()
    }

    #[inline]
    pub(crate) fn addr(self) -> usize {
        self.0.addr().get()
    }

    /// Returns the chunk whose first cursor this is.
    ///
    /// # Safety
    /// This is the first cursor of its chunk.
    #[inline]
    pub(crate) unsafe fn chunk(self) -> ChunkPtr {
        // SAFETY: the first cursor is the first field of the header, and the pointer may access the
        // whole chunk, which satisfies C1.
        unsafe { ChunkPtr::new(self.0.cast::<Chunk>()) }
    }

    /// Returns a pointer to `addr` in the chunk of this cursor. The pointer may access the whole
    /// chunk.
    #[inline]
    pub(super) fn at(self, addr: usize) -> NonNull<u8> {
        let pointer = self.as_ptr().cast::<u8>().with_addr(addr);
        // SAFETY: the address is above the chunk's base, so it is not null.
        unsafe { NonNull::new_unchecked(pointer) }
    }

    /// Returns whether this is the second cursor of its chunk, whose size is `chunk` bytes.
    #[inline]
    pub(crate) fn is_second(self, chunk: usize) -> bool {
        self.addr() & (chunk - 1) == size_of::<Chunk>()
    }

    /// Returns the chunk whose second cursor this is.
    ///
    /// # Safety
    /// This is the second cursor of its chunk.
    pub(crate) unsafe fn divided_chunk(self) -> ChunkPtr {
        // SAFETY: the second cursor comes right after the first two lines of the header.
        let chunk = unsafe { self.0.byte_sub(size_of::<Chunk>()) };
        // SAFETY: the pointer may access the whole chunk, which satisfies C1.
        unsafe { ChunkPtr::new(chunk.cast::<Chunk>()) }
    }

    /// Allocates `size` bytes at the cursor, aligned to `align`. Returns `None` if they do not fit.
    #[inline]
    pub(crate) fn bump(self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let place = place(self.next().get(), self.end().get(), size, align)?;
        self.contents().write();
        self.next().set(place.end);
        self.taken().add(LiveCount::block(size).0);
        let block = self.at(place.start);
        prefetch::for_write(self.as_ptr().cast::<u8>().with_addr(place.end));
        // SAFETY: the block is in the chunk and between the old cursor and the new one, so no live
        // block overlaps it.
        unsafe { unpoison(block, size) };
        Some(block)
    }

    /// Grows the block at `start` from `old` to `new` bytes and returns `true`, if it is the top
    /// block and there is room after it. Otherwise, returns `false` and leaves the block unchanged.
    #[inline]
    pub(crate) fn grow_top(self, start: usize, old: usize, new: usize) -> bool {
        if start + room_of(old) != self.next().get() || start + room_of(new) > self.end().get() {
            return false;
        }
        self.next().set(start + room_of(new));
        self.taken().add(LiveCount::resized(new - old).0);
        // SAFETY: the grown block ends in the chunk, and no other block lies after the top block.
        unsafe { unpoison(self.at(start + old), new - old) };
        true
    }
}

impl ChunkPtr {
    /// Returns the first cursor.
    #[inline]
    pub(crate) fn front(self) -> FrontPtr {
        // SAFETY: `whole` is the first field of the header, and the pointer may access the whole
        // chunk (C1).
        unsafe { FrontPtr::new(self.as_non_null().cast()) }
    }

    /// Returns the cursor that a heap allocates from if the chunk becomes its front: the second one
    /// if the chunk is divided.
    pub(crate) fn current(self) -> FrontPtr {
        if self.is_divided() { self.second() } else { self.front() }
    }

    /// Returns the second cursor of a chunk that is divided.
    pub(crate) fn second(self) -> FrontPtr {
        // SAFETY: the cursor is the first field of the sections, and the pointer may access the
        // whole chunk (C1).
        unsafe { FrontPtr::new(self.sections_ptr().cast()) }
    }

    /// Returns whether `front` is a cursor of this chunk.
    pub(crate) fn has_cursor(self, front: *mut BumpCursor) -> bool {
        front == self.front().as_ptr() || front == self.sections_ptr().as_ptr().cast()
    }
}
