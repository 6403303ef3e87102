//! Defines the header of a chunk, and [`ChunkPtr`], through which the heap accesses the chunk.
//!
//! ```text
//!  base (aligned to the chunk's size)
//!  | line 1: cursor, end,   | line 2: owner,         | blocks ... | top block | free ... | slack
//!  |         sums, links    |         foreign word   |                        ^cursor    ^end
//!    the owner writes this    all threads write this  ^first
//! ```
//!
//! Blocks do not have headers. The chunk keeps two sums of blocks and bytes (see `live`): `taken`
//! counts all allocations, and `back` all frees that the owner has *booked*, that is, added to this
//! sum. A chunk whose sums are equal is *empty*: none of its blocks is live.

pub(crate) mod purge;

use core::mem::offset_of;
use core::ptr::{self, NonNull};

use ephemera_prim::foreign::{COMPLETE, Foreign, ForeignHeader};
use ephemera_prim::poison::{poison, unpoison};
use ephemera_prim::prefetch;
use ephemera_prim::raw;
use ephemera_prim::sync::AtomicBool;
use ephemera_prim::unit_list::Listed;
use ephemera_prim::witness::Witness;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use crate::cursor::{place, room_of};
use crate::geometry::{ChunkClass, Geometry};
use crate::live::LiveCount;

/// The header of a chunk. [`ChunkPtr`] borrows single fields of it, never the whole header.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Chunk {
    cursor: OwnerUsize,
    end: usize,
    taken: OwnerU64,
    back: OwnerU64,
    first: usize,
    next: OwnerPtr<Chunk>,
    prev: OwnerPtr<Chunk>,
    below: OwnerPtr<Chunk>,
    remote: ChunkRemote,
}

/// The cache line that other threads write. It also holds `owner` and `class`, because remote frees
/// read this line anyway.
#[derive(Debug)]
#[repr(C, align(64))]
struct ChunkRemote {
    owner: OwnerPtr<()>,
    class: ChunkClass,
    /// Whether the chunk is purged. Only threads that dequeued or borrowed the chunk write this.
    purged: AtomicBool,
    foreign: Foreign<Chunk>,
    /// Represents the memory of the blocks in models.
    contents: Witness,
}

impl ChunkRemote {
    ephemera_prim::const_unless_loom! {
        fn new(owner: *const (), class: ChunkClass) -> Self {
            Self {
                owner: OwnerPtr::new(owner.cast_mut()),
                class,
                purged: AtomicBool::new(false),
                foreign: Foreign::new(),
                contents: Witness::new(),
            }
        }
    }
}

/// The bit in the owner's address that marks an abandoned chunk (A1).
const ABANDONED: usize = 1;

/// The size of a chunk's header in bytes.
pub(crate) const HEADER: usize = size_of::<Chunk>();

#[cfg(not(ephemera_loom))]
const _: () = assert!(HEADER == 128, "a header is two cache lines");

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
                cursor: OwnerUsize::new(0),
                end: 0,
                taken: OwnerU64::new(LiveCount::NONE.word()),
                back: OwnerU64::new(LiveCount::NONE.word()),
                first: 0,
                next: OwnerPtr::null(),
                prev: OwnerPtr::null(),
                below: OwnerPtr::null(),
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

/// A pointer to a chunk.
///
/// # Invariant
/// **C1** The pointer names the header of a chunk that is not freed while the pointer is used, or
/// the full chunk. It may access the whole chunk. The code that creates a `ChunkPtr` ensures this,
/// and the methods rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkPtr(NonNull<Chunk>);

impl ChunkPtr {
    // The chunk is not freed while the pointer is used (C1).
    words! {
        fn cursor() -> &OwnerUsize = cursor;
        /// Returns the `LiveCount` of all allocations since the last rewind.
        pub(crate) fn taken() -> &OwnerU64 = taken;
        /// Returns the `LiveCount` of all frees that have been booked since the last rewind.
        fn back() -> &OwnerU64 = back;
        fn owner_word() -> &OwnerPtr<()> = remote.owner;
        fn purged() -> &AtomicBool = remote.purged;
        fn contents() -> &Witness = remote.contents;
        /// Returns the chunk below this one on the stack of empty chunks.
        pub(crate) fn below() -> &OwnerPtr<Chunk> = below;
        /// Returns the field that contains the foreign word and the chunk's link in the inbox.
        fn foreign() -> &Foreign<Chunk> = remote.foreign;
        fn end() -> usize = end;
        fn first() -> usize = first;
        /// Returns the class of the chunk's blocks.
        pub(crate) fn class() -> ChunkClass = remote.class;
    }

    /// # Safety
    /// `chunk` satisfies C1.
    #[inline]
    pub(crate) unsafe fn new(chunk: NonNull<Chunk>) -> Self {
        Self(chunk)
    }

    /// # Safety
    /// `chunk` is null or satisfies C1.
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

    /// Creates an empty chunk that belongs to `owner`, in new memory.
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
        let header = Chunk {
            cursor: OwnerUsize::new(base + HEADER),
            end: base + bytes,
            first: base + HEADER,
            remote: ChunkRemote::new(owner, class),
            ..Chunk::full()
        };
        // SAFETY: only the caller uses the memory, which is aligned and has room for the header.
        unsafe { chunk.write(header) };
        let this = Self(chunk);
        // SAFETY: the memory after the header is part of the chunk, and is not in use yet.
        unsafe { poison(this.at(this.first()), bytes - HEADER) };
        this
    }

    /// Returns the foreign word: remote frees that the owner has not booked yet, or a countdown.
    fn unbooked(self) -> u64 {
        self.foreign().touch();
        self.foreign().unbooked()
    }

    /// Returns the identity of the owner that may write this chunk's words: the address of a
    /// record, or null in a ring for one thread. For an abandoned chunk, returns the record's
    /// address with the bit [`ABANDONED`], which no record's address has.
    #[inline]
    pub(crate) fn owner(self) -> *const () {
        self.owner_word().get()
    }

    /// Returns the record whose inbox receives this chunk, even if the chunk is abandoned.
    #[inline]
    pub(crate) fn record(self) -> *const () {
        self.owner().map_addr(|addr| addr & !ABANDONED)
    }

    /// Stores the owner word of a chunk that ran empty, or of a chunk that this thread abandons.
    pub(crate) fn set_owner(self, owner: *const ()) {
        self.owner_word().set(owner.cast_mut());
    }

    /// Abandons a chunk with live blocks: marks its owner word, and starts the countdown of these
    /// blocks. The calling thread must hold a momentary lease of the chunk's record.
    pub(crate) fn abandon(self) {
        if weakened!("chunk_not_abandoned") {
            return;
        }
        self.set_owner(self.owner().map_addr(|addr| addr | ABANDONED));
        let live = self.taken().get().wrapping_sub(self.back().get());
        // `start_countdown` fails if a remote free has arrived since the chunk was dequeued. That
        // free pushes the chunk again, and the next drain handles the chunk.
        self.foreign().start_countdown(COMPLETE - live);
    }

    /// Returns a pointer to `addr` in this chunk. The pointer may access the whole chunk.
    #[inline]
    pub(crate) fn at(self, addr: usize) -> NonNull<u8> {
        let pointer = self.as_ptr().cast::<u8>().with_addr(addr);
        // SAFETY: the address is above the chunk's base, so it is not null.
        unsafe { NonNull::new_unchecked(pointer) }
    }

    /// Allocates `size` bytes at the cursor, aligned to `align`. Returns `None` if they do not fit.
    #[inline]
    pub(crate) fn bump(self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let place = place(self.cursor().get(), self.end(), size, align)?;
        self.contents().write();
        self.cursor().set(place.cursor);
        self.taken().add(LiveCount::block(size).word());
        let block = self.at(place.start);
        prefetch::for_write(self.as_ptr().cast::<u8>().with_addr(place.cursor));
        // SAFETY: the block is in the chunk and between the old cursor and the new one, so no live
        // block overlaps it.
        unsafe { unpoison(block, size) };
        Some(block)
    }

    /// Frees a block of the front, as the chunk's owner. If the chunk is then empty, rewinds it, so
    /// that short-lived blocks reuse the same cache lines. Otherwise, if the block was the top
    /// block, moves the cursor back.
    ///
    /// This code branches, and `rewind` loads `first` instead of deriving it from the block's
    /// address. With conditional moves or that arithmetic, every allocation would wait for the
    /// previous free, and that free would wait for the allocation of its block.
    #[inline]
    pub(crate) fn free_front(self, start: usize, size: usize) {
        // A plain store suffices, because the owner publishes this sum when it replaces the front.
        if self.book_by(LiveCount::block(size), OwnerU64::set) {
            self.rewind();
        } else if start + room_of(size) == self.cursor().get() {
            self.cursor().set(start);
        }
    }

    /// Books `given`: freed blocks, or the bytes that a block lost. Returns whether the chunk ran
    /// empty. If so, the caller must rewind the chunk.
    #[inline]
    #[must_use]
    pub(crate) fn book(self, given: LiveCount) -> bool {
        // The store publishes accesses to the freed memory to a thread that purges the chunk.
        let weak = weakened!("ring_local_free_relaxed");
        self.book_by(given, if weak { OwnerU64::set } else { OwnerU64::publish })
    }

    /// Books `given`, and writes the new sum with `store`. If the chunk ran empty, returns `true`
    /// without writing the sum, because the caller rewinds the chunk.
    #[inline]
    fn book_by(self, given: LiveCount, store: impl FnOnce(&OwnerU64, u64)) -> bool {
        self.contents().touch();
        let back = self.back().get().wrapping_add(given.word());
        if back == self.taken().get() {
            return true;
        }
        store(self.back(), back);
        false
    }

    /// Returns whether no block is live according to the booked frees.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.back().get() == self.taken().get()
    }

    /// Returns the count of the live blocks and their bytes. Blocks and bytes with an unbooked
    /// remote free count as freed. The result is exact while no thread runs an operation.
    pub(crate) fn live_now(self) -> LiveCount {
        let unbooked = self.unbooked();
        if let Some(live) = LiveCount::of_countdown(unbooked) {
            return live;
        }
        let [taken, back, unbooked] =
            [self.taken().get(), self.back().get(), unbooked].map(LiveCount::from_word);
        taken.minus(back, unbooked)
    }

    /// Rewinds an empty chunk: moves its cursor to its start and sets its sums to zero. No written
    /// value depends on an earlier allocation or free, so neither delays the next allocation.
    #[inline]
    pub(crate) fn rewind(self) {
        self.cursor().set(self.first());
        self.taken().set(LiveCount::NONE.word());
        // This check saves a store if each block is freed before the next is allocated.
        if self.back().get() != LiveCount::NONE.word() {
            self.back().set(LiveCount::NONE.word());
        }
    }

    /// Grows the block at `start` from `old` to `new` bytes and returns `true`, if it is the top
    /// block and there is room after it. Otherwise, returns `false` and leaves the block unchanged.
    #[inline]
    pub(crate) fn grow_top(self, start: usize, old: usize, new: usize) -> bool {
        if start + room_of(old) != self.cursor().get() || start + room_of(new) > self.end() {
            return false;
        }
        self.cursor().set(start + room_of(new));
        self.taken().add(LiveCount::resized(new - old).word());
        // SAFETY: the grown block ends in the chunk, and no other block lies after the top block.
        unsafe { unpoison(self.at(start + old), new - old) };
        true
    }

    /// Shrinks the block at `start`: books the bytes that the block loses. If the chunk is the
    /// front (`front`) and the block is its top block, also moves the cursor back.
    #[inline]
    pub(crate) fn shrink(self, start: usize, old: usize, new: usize, front: bool) {
        if front && start + room_of(old) == self.cursor().get() {
            self.cursor().set(start + room_of(new));
        }
        let bytes = LiveCount::resized(old - new);
        let emptied = if front { self.book_by(bytes, OwnerU64::set) } else { self.book(bytes) };
        ephemera_prim::invariant!(!emptied, "a chunk ran empty although a block in it was only shrunk");
    }

    /// Ends the use of an empty chunk and returns its memory, which only this thread may access.
    pub(crate) fn end_of_life(self) -> NonNull<u8> {
        ephemera_prim::invariant!(self.is_empty(), "a chunk with live blocks is freed");
        self.foreign().end();
        self.0.cast()
    }
}
