//! A chunk: its header, and the pointer by which the heap reaches it.
//!
//! ```text
//!  base (aligned to the chunk's size)
//!  | line 1: cursor, end, live, links | line 2: owner, foreign word | blocks ... | top block | free ... | slack
//!    written by the holder alone        written by other threads      ^first                 ^cursor    ^end
//! ```
//!
//! A block has no header. `live` counts the blocks (and their bytes) that were handed out and are not booked
//! as given back; a chunk whose `live` is zero is *drained* and has no block that anybody may use.

use core::ptr::{self, NonNull};

use ephemera_prim::foreign::{Foreign, Unit};
use ephemera_prim::poison::{poison, unpoison};
use ephemera_prim::raw;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use crate::cursor::{self, place};
use crate::geometry::{Class, Geometry};
use crate::live::Live;

/// The header of a chunk. Never borrowed as a whole: each field by itself, through [`ChunkPtr`].
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Chunk {
    cursor: OwnerUsize,
    end: usize,
    live: OwnerU64,
    next: OwnerPtr<Chunk>,
    prev: OwnerPtr<Chunk>,
    below: OwnerPtr<Chunk>,
    class: Class,
    remote: Remote,
}

/// The line that other threads write to. The owner is there too: it never changes, and who reads it is on
/// the way to the foreign word.
#[derive(Debug)]
#[repr(C, align(64))]
struct Remote {
    owner: *const (),
    foreign: Foreign<Chunk>,
}

/// Bytes of a chunk that its header takes.
pub(crate) const HEADER: usize = size_of::<Chunk>();

#[cfg(not(ephemera_loom))]
const _: () = assert!(HEADER == 128, "a header is two cache lines");

// SAFETY: all fields are atomics but `end`, `class` and `owner`, which never change once the chunk is made; `owner` is an
// identity, compared and only followed to a record, which is itself shared between threads.
unsafe impl Sync for Chunk {}

impl Chunk {
    ephemera_prim::const_unless_loom! {
        /// The front of a heap that has none: without room for one byte, and never written.
        pub(crate) fn full() -> Self {
            Self {
                cursor: OwnerUsize::new(0),
                end: 0,
                live: OwnerU64::new(0),
                next: OwnerPtr::null(),
                prev: OwnerPtr::null(),
                below: OwnerPtr::null(),
                class: Class::SMALL,
                remote: Remote { owner: ptr::null(), foreign: Foreign::new() },
            }
        }
    }
}

// SAFETY: the field's address is the same for as long as the chunk lives, and `&raw` makes no reference.
unsafe impl Unit for Chunk {
    #[inline]
    unsafe fn foreign(unit: NonNull<Self>) -> NonNull<Foreign<Self>> {
        // SAFETY: the unit is alive, by the caller.
        let field = unsafe { &raw mut (*unit.as_ptr()).remote.foreign };
        // SAFETY: a field of what is not null.
        unsafe { NonNull::new_unchecked(field) }
    }
}

/// A pointer to a chunk.
///
/// # Invariant
/// **C1** It points at the header of a chunk that is not freed for as long as the pointer is used, or at the
/// full chunk that stands for none; and it may access the whole chunk. Whoever makes one sees to that; methods rest on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkPtr(NonNull<Chunk>);

impl ChunkPtr {
    /// # Safety
    /// C1.
    #[inline]
    pub(crate) unsafe fn new(chunk: NonNull<Chunk>) -> Self {
        Self(chunk)
    }

    /// # Safety
    /// C1, unless the pointer is null.
    #[inline]
    pub(crate) unsafe fn from_raw(chunk: *mut Chunk) -> Option<Self> {
        NonNull::new(chunk).map(Self)
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut Chunk {
        self.0.as_ptr()
    }

    #[inline]
    pub(crate) fn as_non_null(self) -> NonNull<Chunk> {
        self.0
    }

    #[inline]
    pub(crate) fn addr(self) -> usize {
        self.0.addr().get()
    }

    /// Makes a chunk of fresh memory: nothing live, everything free.
    ///
    /// # Safety
    /// `memory` was acquired with the chunk layout of `class` and is the caller's alone.
    pub(crate) unsafe fn create<G: Geometry>(memory: NonNull<u8>, class: Class, owner: *const ()) -> Self {
        let chunk = memory.cast::<Chunk>();
        raw::expose(chunk.as_ptr());
        let bytes = class.chunk_layout::<G>().size();
        let base = chunk.addr().get();
        let header = Chunk {
            cursor: OwnerUsize::new(base + HEADER),
            end: base + bytes,
            class,
            remote: Remote { owner, foreign: Foreign::new() },
            ..Chunk::full()
        };
        // SAFETY: the memory is the caller's, aligned to the chunk's size and larger than a header.
        unsafe { chunk.write(header) };
        let this = Self(chunk);
        // SAFETY: behind the header lies memory of the chunk in which no block lives yet.
        unsafe { poison(this.at(base + HEADER), bytes - HEADER) };
        this
    }

    #[inline]
    fn cursor(&self) -> &OwnerUsize {
        // SAFETY: C1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).cursor }
    }

    #[inline]
    fn end(self) -> usize {
        // SAFETY: C1; `end` never changes.
        unsafe { (*self.as_ptr()).end }
    }

    /// The class of its blocks.
    #[cfg(any(feature = "std", ephemera_loom))]
    pub(crate) fn class(self) -> Class {
        // SAFETY: C1; `class` never changes.
        unsafe { (*self.as_ptr()).class }
    }

    #[inline]
    fn live_word(&self) -> &OwnerU64 {
        // SAFETY: C1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).live }
    }

    /// What the owner has handed out and not booked as given back.
    #[inline]
    pub(crate) fn live(self) -> Live {
        Live::from_word(self.live_word().get())
    }

    /// What is alive, with foreign frees that are not booked yet taken off. Exact at rest.
    pub(crate) fn live_now(self) -> Live {
        // SAFETY: C1.
        let foreign = unsafe { Chunk::foreign(self.0) };
        // SAFETY: C1; nobody has it mutably.
        let given = unsafe { foreign.as_ref() }.unbooked();
        self.live().less(Live::from_word(given))
    }

    /// Who may write this chunk's words: the address of a record, or null in a ring for one thread.
    #[inline]
    pub(crate) fn owner(self) -> *const () {
        // SAFETY: C1; `owner` never changes.
        unsafe { (*self.as_ptr()).remote.owner }
    }

    /// The next chunk of the heap's list of all chunks.
    #[inline]
    pub(crate) fn next(&self) -> &OwnerPtr<Chunk> {
        // SAFETY: C1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).next }
    }

    /// The chunk before it in that list.
    #[inline]
    pub(crate) fn prev(&self) -> &OwnerPtr<Chunk> {
        // SAFETY: C1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).prev }
    }

    /// The chunk below it on the stack of empties.
    #[inline]
    pub(crate) fn below(&self) -> &OwnerPtr<Chunk> {
        // SAFETY: C1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).below }
    }

    /// A pointer to an address in this chunk, with the right to the whole chunk.
    #[inline]
    pub(crate) fn at(self, addr: usize) -> NonNull<u8> {
        let pointer = self.as_ptr().cast::<u8>().with_addr(addr);
        // SAFETY: an address in a chunk is behind its base, which is not null.
        unsafe { NonNull::new_unchecked(pointer) }
    }

    #[inline]
    fn first(self) -> usize {
        self.addr() + HEADER
    }

    /// A block at the cursor, counted, if it fits.
    #[inline]
    pub(crate) fn bump(self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let place = place(self.cursor().get(), self.end(), size, align)?;
        self.cursor().set(place.cursor);
        self.live_word().add(Live::block(size).word());
        let block = self.at(place.start);
        // SAFETY: between the old cursor and the new one lies no other block.
        unsafe { unpoison(block, size) };
        Some(block)
    }

    /// Books a block, or some bytes of one, as given back, and returns what is left.
    #[inline]
    pub(crate) fn book(self, given: Live) -> Live {
        Live::from_word(self.live_word().sub(given.word()))
    }

    /// The front's cursor after a block of `size` bytes at `start` was booked as given back.
    #[inline]
    pub(crate) fn retreat(self, start: usize, size: usize, left: Live) {
        let drained = left == Live::NONE;
        self.cursor().set(cursor::after_free(self.cursor().get(), start, size, self.first(), drained));
    }

    /// Starts over in a drained chunk.
    #[inline]
    pub(crate) fn rewind(self) {
        debug_assert!(self.live() == Live::NONE, "a chunk with live blocks was rewound");
        self.cursor().set(self.first());
    }

    /// Gives the top block, of `old` bytes at `start`, `new` bytes instead, if it is the top one and they fit.
    #[inline]
    pub(crate) fn grow_top(self, start: usize, old: usize, new: usize) -> bool {
        if start + old != self.cursor().get() || new > self.end() - start {
            return false;
        }
        self.cursor().set(start + new);
        self.live_word().add(Live::bytes_only(new - old).word());
        // SAFETY: behind the top block lies no other block.
        unsafe { unpoison(self.at(start + old), new - old) };
        true
    }

    /// Moves the cursor back behind a top block that lost bytes.
    #[inline]
    pub(crate) fn shrink_top(self, start: usize, old: usize, new: usize) {
        if start + old == self.cursor().get() {
            self.cursor().set(start + new);
        }
    }

    /// The chunk goes back to the backing allocator: nobody else may touch it from here.
    pub(crate) fn end_of_life(self) -> NonNull<u8> {
        debug_assert!(self.live() == Live::NONE, "a chunk with live blocks goes back");
        // SAFETY: C1.
        let foreign = unsafe { Chunk::foreign(self.0) };
        // SAFETY: C1.
        unsafe { foreign.as_ref() }.end();
        self.0.cast()
    }
}
