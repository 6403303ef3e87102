//! Defines [`ChunkPtr`], through which a heap accesses a chunk. The modules are:
//!
//! * `header`: the layout of a chunk's header. Blocks do not have headers.
//! * `sums`: the sums of the chunk's allocations and frees.
//! * `front`: allocation from a chunk that is a heap's front.
//! * `sections`: the reuse of memory between live blocks.
//! * `counts`, `remote`: the numbers of freed bytes of the sections.
//! * `purge`: the purge of a chunk, or the end of its use, by a thread other than the owner.

mod counts;
pub(crate) mod front;
mod header;
pub(crate) mod purge;
mod remote;
pub(crate) mod sections;
pub(crate) mod sums;

pub(crate) use header::{BumpCursor, Chunk, headers, suit};

use core::ptr::NonNull;

use ephemera_prim::foreign::{COMPLETE, Foreign};
use ephemera_prim::poison::poison;
use ephemera_prim::raw;
use ephemera_prim::sync::AtomicBool;
use ephemera_prim::witness::Witness;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use self::header::{ChunkRemote, Sections, WITH_SECTIONS, header};
use self::remote::RemoteCounts;
use crate::geometry::{ChunkClass, Geometry};

/// The bit in the owner's address that marks an abandoned chunk (A1).
const ABANDONED: usize = 1;

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
        /// Returns the first cursor, which an undivided chunk uses.
        fn whole() -> &BumpCursor = whole;
        /// Returns the `LiveCount` of all frees that have been booked since the last rewind.
        fn back() -> &OwnerU64 = back;
        fn owner_word() -> &OwnerPtr<()> = remote.owner;
        fn purged() -> &AtomicBool = remote.purged;
        fn divided() -> &AtomicBool = remote.divided;
        fn state() -> &OwnerUsize = state;
        /// Returns the chunk below this one on the stack of empty chunks.
        pub(crate) fn below() -> &OwnerPtr<Chunk> = remote.below;
        /// Returns the field that contains the foreign word and the chunk's link in the inbox.
        fn foreign() -> &Foreign<Chunk> = remote.foreign;
        fn header() -> &Witness = remote.header;
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
        let first = base + header::<G>(class);
        let header = Chunk {
            whole: BumpCursor::new(first, base + bytes),
            first,
            remote: ChunkRemote::new(owner, class),
            ..Chunk::full()
        };
        // SAFETY: only the caller uses the memory, which is aligned and has room for the header.
        unsafe { chunk.write(header) };
        let this = Self(chunk);
        if first - base == WITH_SECTIONS {
            // SAFETY: only the caller uses the memory, and the header has room for the sections.
            unsafe { this.sections_ptr().write(Sections::new()) };
        }
        // SAFETY: the memory after the header is part of the chunk, and is not in use yet.
        unsafe { poison(this.at(first), base + bytes - first) };
        this
    }

    /// Returns whether the chunk has unbooked remote frees. Only the owner may call this. It may do
    /// so even while another thread purges the chunk, because the call reads only the header.
    pub(crate) fn has_unbooked(self) -> bool {
        self.foreign().unbooked() != 0
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
    /// blocks. The calling thread must hold a lease of the chunk's record for this call only.
    pub(crate) fn abandon(self) {
        if weakened!("chunk_not_abandoned") {
            return;
        }
        self.header().touch();
        self.set_owner(self.owner().map_addr(|addr| addr | ABANDONED));
        let live = self.taken().wrapping_sub(self.back().get());
        // `start_countdown` fails if a remote free has arrived since the chunk was dequeued. That
        // free pushes the chunk again, and the next drain handles the chunk.
        self.foreign().start_countdown(COMPLETE - live);
    }

    /// Returns a pointer to `addr` in this chunk. The pointer may access the whole chunk.
    #[inline]
    pub(crate) fn at(self, addr: usize) -> NonNull<u8> {
        self.front().at(addr)
    }

    /// Returns a pointer to the third and the fourth line of the header.
    fn sections_ptr(self) -> NonNull<Sections> {
        self.at(self.addr() + size_of::<Chunk>()).cast()
    }

    /// Returns the third and the fourth line of the header. The chunk must be divided, or about to
    /// be divided.
    #[inline]
    fn sections(&self) -> &Sections {
        let sections = self.sections_ptr().as_ptr();
        // SAFETY: only chunks with these lines are divided, and the chunk is not freed while the
        // pointer is used (C1). Apart from models, only the owner calls this method.
        unsafe { &*sections }
    }

    /// Returns the bytes of remote frees of a divided chunk. Every thread that frees in the chunk
    /// may call this method.
    fn remote_counts(&self) -> &RemoteCounts {
        let sections = self.sections_ptr().as_ptr();
        // SAFETY: only a chunk whose header has sections is ever divided, and the chunk is not
        // freed while the pointer is used (C1). All words of the counts are atomics.
        unsafe { &(*sections).remote }
    }

    /// Ends the use of an empty chunk and returns its memory, which only this thread may access.
    pub(crate) fn end_of_life(self) -> NonNull<u8> {
        ephemera_prim::invariant!(self.is_empty(), "a chunk with live blocks is freed");
        self.foreign().end();
        self.header().end();
        self.0.cast()
    }
}
