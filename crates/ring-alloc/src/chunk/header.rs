//! Defines the header of a chunk: its layout in memory, and the sizes that follow from a geometry.
//!
//! ```text
//!  base (aligned to the chunk's size)
//!  | line 1: cursor, end,   | line 2: owner,         | blocks ... | top block | free ... | slack
//!  |         sums, links    |         foreign word   |                        ^cursor    ^end
//!    the owner writes this    all threads write this  ^first
//! ```
//!
//! If the geometry is suitable, a chunk of small blocks has two more lines, for sections (see
//! `sections`).

use core::cell::Cell;
use core::mem::offset_of;
use core::ptr;

use ephemera_prim::foreign::{Foreign, ForeignHeader};
use ephemera_prim::sync::AtomicBool;
use ephemera_prim::unit_list::Listed;
use ephemera_prim::witness::Witness;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use super::counts::{FreedCounts, SHORTEST, countable, section_bytes};
use super::remote::RemoteCounts;
use crate::geometry::{CLASSES, ChunkClass, Geometry, fits};

/// The header of a chunk. `ChunkPtr` borrows single fields of it, never the whole header.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Chunk {
    pub(super) whole: BumpCursor,
    pub(super) back: OwnerU64,
    pub(super) first: usize,
    pub(super) next: OwnerPtr<Chunk>,
    pub(super) prev: OwnerPtr<Chunk>,
    /// Whether the chunk is divided: [`WHOLE`], [`DIVIDED`] or [`LISTED`].
    pub(super) state: OwnerUsize,
    pub(super) remote: ChunkRemote,
}

/// The cache line that other threads write. It also holds `owner` and `class`, because remote frees
/// read this line anyway.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct ChunkRemote {
    pub(super) owner: OwnerPtr<()>,
    pub(super) class: ChunkClass,
    /// Whether the chunk is purged. Only threads that dequeued or borrowed the chunk write this.
    pub(super) purged: AtomicBool,
    /// Whether the chunk is divided, for remote frees. Only the owner writes this.
    pub(super) divided: AtomicBool,
    pub(super) below: OwnerPtr<Chunk>,
    pub(super) foreign: Foreign<Chunk>,
    /// Represents the header in models. A purge leaves the header alone.
    pub(super) header: Witness,
}

impl ChunkRemote {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new(owner: *const (), class: ChunkClass) -> Self {
            Self {
                owner: OwnerPtr::new(owner.cast_mut()),
                class,
                purged: AtomicBool::new(false),
                divided: AtomicBool::new(false),
                below: OwnerPtr::null(),
                foreign: Foreign::new(),
                header: Witness::new(),
            }
        }
    }
}

/// Returns the size of the header of a chunk in bytes.
pub(crate) const fn header<G: Geometry>(class: ChunkClass) -> usize {
    match class {
        ChunkClass::Small if suit::<G>() => WITH_SECTIONS,
        _ => size_of::<Chunk>(),
    }
}

/// Returns the sizes of the headers of small and of medium chunks.
pub(crate) const fn headers<G: Geometry>() -> [usize; CLASSES] {
    [header::<G>(ChunkClass::Small), header::<G>(ChunkClass::Medium)]
}

/// The size of the header of a chunk that can be divided, in bytes.
pub(super) const WITH_SECTIONS: usize = size_of::<Chunk>() + size_of::<Sections>();

#[cfg(not(ephemera_loom))]
const _: () = assert!(WITH_SECTIONS == 256, "a header with sections is four cache lines");

// SAFETY: all fields are atomics, except `end`, `first` and `class`, which never change after the
// chunk is created. Threads compare `owner`, and follow it only if it points to a record, which
// threads may share. On a target without 64-bit atomics, threads share only the full chunk, which
// is never written.
unsafe impl Sync for Chunk {}

impl Chunk {
    ephemera_prim::const_unless_loom! {
        /// Creates the full chunk, which is never written. Even one byte does not fit into it.
        pub(crate) fn full() -> Self {
            Self {
                whole: BumpCursor::new(0, 0),
                back: OwnerU64::new(0),
                first: 0,
                next: OwnerPtr::null(),
                prev: OwnerPtr::null(),
                state: OwnerUsize::new(WHOLE),
                remote: ChunkRemote::new(ptr::null(), ChunkClass::Small),
            }
        }
    }
}

// SAFETY: `FOREIGN` is the field's offset. Any thread may free a chunk and its blocks.
unsafe impl ForeignHeader for Chunk {
    const FOREIGN: usize = offset_of!(Chunk, remote.foreign);
}

// SAFETY: `NEXT` and `PREV` are the offsets of two links, which only the list uses.
unsafe impl Listed for Chunk {
    const NEXT: usize = offset_of!(Chunk, next);
    const PREV: usize = offset_of!(Chunk, prev);
}

/// The position of the next block of a chunk, the end of the room for blocks, and the sum of all
/// allocations. A chunk has two cursors (see `front`).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BumpCursor {
    pub(super) next: OwnerUsize,
    /// The end of the first cursor never changes, and only the owner accesses the end of the second
    /// cursor. A plain word saves an instruction of each allocation.
    pub(super) end: Cell<usize>,
    /// The `LiveCount` of all allocations since the chunk was last empty. The sum of the first
    /// cursor stays 0 while the chunk is divided.
    pub(super) taken: OwnerU64,
    /// Represents the memory of the blocks in models.
    pub(super) contents: Witness,
}

impl BumpCursor {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new(next: usize, end: usize) -> Self {
            Self {
                next: OwnerUsize::new(next),
                end: Cell::new(end),
                taken: OwnerU64::new(0),
                contents: Witness::new(),
            }
        }
    }
}

/// The value of `due` while no local free puts the chunk on the list: the chunk is on the list
/// already, is the front, or has unbooked remote frees.
pub(super) const NEVER: usize = 0;

/// The state of an undivided chunk.
pub(super) const WHOLE: usize = 0;
/// The state of a divided chunk that is not on its heap's list of chunks with holes.
pub(super) const DIVIDED: usize = 1;
/// The state of a divided chunk that is on that list.
pub(super) const LISTED: usize = 2;

/// The third and fourth cache lines of a chunk's header, which only a divided chunk uses. Threads
/// other than the owner access only `cursor.taken` and `remote`.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Sections {
    pub(super) cursor: BumpCursor,
    /// The chunk joins the heap's list of chunks with holes once it has no more than this number of
    /// live bytes.
    pub(super) due: Cell<usize>,
    pub(super) freed: FreedCounts,
    /// The links of that list.
    pub(super) next: Cell<*mut Chunk>,
    pub(super) prev: Cell<*mut Chunk>,
    /// The bytes of remote frees. All threads write this field.
    pub(super) remote: RemoteCounts,
}

#[cfg(all(not(ephemera_loom), target_pointer_width = "64"))]
const _: () = assert!(offset_of!(Sections, next) == 64, "a local free writes one line of the sections");

impl Sections {
    pub(super) fn new() -> Self {
        Self {
            cursor: BumpCursor::new(0, 0),
            due: Cell::new(NEVER),
            freed: FreedCounts::new(),
            next: Cell::new(ptr::null_mut()),
            prev: Cell::new(ptr::null_mut()),
            remote: RemoteCounts::new(),
        }
    }
}

/// Returns whether small chunks of this geometry can be divided: a section has a suitable size, and
/// the largest small block fits into each hole.
pub(crate) const fn suit<G: Geometry>() -> bool {
    countable::<G>() && fits(WITH_SECTIONS, G::SMALL_ALIGN, G::SMALL_MAX, SHORTEST * section_bytes::<G>())
}
