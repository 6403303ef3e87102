//! A chunk: its header, and the pointer by which the heap reaches it.
//!
//! ```text
//!  base (aligned to the chunk's size)
//!  | line 1: cursor, end, sums, links | line 2: owner, foreign word | blocks ... | top block | free ... | slack
//!    written by the owner alone         written by other threads      ^first                 ^cursor    ^end
//! ```
//!
//! A block has no header. The chunk adds up what was handed out (`taken`) and what was booked as come home (`back`), see
//! `live`; a chunk whose sums are equal is *drained* and has no block that anybody may use.

use core::ptr::{self, NonNull};

#[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
use ephemera_prim::foreign::COMPLETE;
#[cfg(target_has_atomic = "64")]
use ephemera_prim::foreign::{Foreign, Unit};
use ephemera_prim::poison::{poison, unpoison};
use ephemera_prim::prefetch;
use ephemera_prim::raw;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use crate::cursor::{place, room_of};
use crate::geometry::{Class, Geometry};
use crate::live::Live;

/// The header of a chunk. Never borrowed as a whole: each field by itself, through [`ChunkPtr`].
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
    remote: Remote,
}

/// The line that other threads write to. What never changes is there too: who reads it is on the way to the foreign word.
#[derive(Debug)]
#[repr(C, align(64))]
struct Remote {
    owner: OwnerPtr<()>,
    class: Class,
    #[cfg(target_has_atomic = "64")]
    foreign: Foreign<Chunk>,
}

impl Remote {
    ephemera_prim::const_unless_loom! {
        fn new(owner: *const (), class: Class) -> Self {
            Self {
                owner: OwnerPtr::new(owner.cast_mut()),
                class,
                #[cfg(target_has_atomic = "64")]
                foreign: Foreign::new(),
            }
        }
    }
}

/// The bit of an owner's address that marks an abandoned chunk: its record had no holder when a block of it was freed.
#[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
const ABANDONED: usize = 1;

/// Bytes of a chunk that its header takes.
pub(crate) const HEADER: usize = size_of::<Chunk>();

#[cfg(not(ephemera_loom))]
const _: () = assert!(HEADER == 128, "a header is two cache lines");

// SAFETY: all fields are atomics but `end`, `first`, `class` and `owner`, which never change once the chunk is made; `owner` is
// an identity, compared and only followed to a record, which is itself shared between threads.
#[cfg(any(ephemera_loom, target_has_atomic = "64"))]
unsafe impl Sync for Chunk {}

// SAFETY: there are types for one thread only on this target, and the one static chunk is never written.
#[cfg(not(any(ephemera_loom, target_has_atomic = "64")))]
unsafe impl Sync for Chunk {}

impl Chunk {
    ephemera_prim::const_unless_loom! {
        /// The front of a heap that has none: without room for one byte, and never written.
        pub(crate) fn full() -> Self {
            Self {
                cursor: OwnerUsize::new(0),
                end: 0,
                taken: OwnerU64::new(Live::NONE.word()),
                back: OwnerU64::new(Live::NONE.word()),
                first: 0,
                next: OwnerPtr::null(),
                prev: OwnerPtr::null(),
                below: OwnerPtr::null(),
                remote: Remote::new(ptr::null(), Class::Small),
            }
        }
    }
}

#[cfg(target_has_atomic = "64")]
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

    /// Makes a chunk of fresh memory: nothing handed out.
    ///
    /// # Safety
    /// `memory` was acquired with the chunk layout of `class` and is the caller's alone.
    pub(crate) unsafe fn create<G: Geometry>(memory: NonNull<u8>, class: Class, owner: *const ()) -> Self {
        let chunk = memory.cast::<Chunk>();
        raw::expose(chunk.as_ptr());
        let (base, bytes) = (chunk.addr().get(), class.chunk_layout::<G>().size());
        let header = Chunk {
            cursor: OwnerUsize::new(base + HEADER),
            end: base + bytes,
            first: base + HEADER,
            remote: Remote::new(owner, class),
            ..Chunk::full()
        };
        // SAFETY: the memory is the caller's, aligned to the chunk's size and larger than a header.
        unsafe { chunk.write(header) };
        let this = Self(chunk);
        // SAFETY: behind the header lies memory of the chunk in which no block lives yet.
        unsafe { poison(this.at(this.first()), bytes - HEADER) };
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

    /// What other threads gave back.
    #[cfg(target_has_atomic = "64")]
    fn foreign(&self) -> &Foreign<Chunk> {
        // SAFETY: C1; a reference to the foreign words alone, which are atomics.
        unsafe { &(*self.as_ptr()).remote.foreign }
    }

    /// The foreign word: remote frees that the owner has not booked yet, or a countdown.
    fn unbooked(self) -> u64 {
        #[cfg(target_has_atomic = "64")]
        {
            self.foreign().touch();
            self.foreign().unbooked()
        }
        // Without 64-bit atomics there are only types for one thread.
        #[cfg(not(target_has_atomic = "64"))]
        0
    }

    /// The sum of what was handed out.
    #[inline]
    fn taken(&self) -> &OwnerU64 {
        // SAFETY: C1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).taken }
    }

    /// The sum of what was booked as come home.
    #[inline]
    fn back(&self) -> &OwnerU64 {
        // SAFETY: C1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).back }
    }

    /// The class of its blocks.
    #[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
    pub(crate) fn class(self) -> Class {
        // SAFETY: C1; `class` never changes.
        unsafe { (*self.as_ptr()).remote.class }
    }

    #[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
    #[inline]
    fn owner_word(&self) -> &OwnerPtr<()> {
        // SAFETY: C1; a reference to the word alone.
        unsafe { &(*self.as_ptr()).remote.owner }
    }

    /// The owner whose thread may write this chunk's words: the address of a record, null in a ring for one thread. An
    /// abandoned chunk has the address with [`ABANDONED`], which is that of no record.
    #[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
    #[inline]
    pub(crate) fn owner(self) -> *const () {
        self.owner_word().get()
    }

    /// The record whose inbox the chunk goes to, abandoned or not.
    #[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
    #[inline]
    pub(crate) fn record(self) -> *const () {
        self.owner().map_addr(|addr| addr & !ABANDONED)
    }

    /// The chunk is its record's own: drained, whatever it was before.
    #[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
    pub(crate) fn set_owner(self, owner: *const ()) {
        self.owner_word().set(owner.cast_mut());
    }

    /// Starts the countdown of a chunk with live blocks, on a record that no thread but this one holds, and for a moment.
    #[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
    pub(crate) fn abandon(self) {
        if cfg!(ephemera_weaken = "chunk_not_abandoned") {
            return;
        }
        self.set_owner(self.owner().map_addr(|addr| addr | ABANDONED));
        let live = self.taken().get().wrapping_sub(self.back().get());
        // Where another remote free came since the dequeue, the chunk is in the inbox again, and so looked at again.
        self.foreign().start_countdown(COMPLETE - live);
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
        // SAFETY: C1; `first` never changes.
        unsafe { (*self.as_ptr()).first }
    }

    /// A block at the cursor, counted, if it fits.
    #[inline]
    pub(crate) fn bump(self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let place = place(self.cursor().get(), self.end(), size, align)?;
        self.cursor().set(place.cursor);
        self.taken().add(Live::block(size).word());
        let block = self.at(place.start);
        prefetch::for_write(self.as_ptr().cast::<u8>().with_addr(place.cursor));
        // SAFETY: between the old cursor and the new one lies no other block.
        unsafe { unpoison(block, size) };
        Some(block)
    }

    /// A block of the front comes home. The last one alive makes the chunk start over, so that what does not
    /// live long stays in the same cache lines; the top one moves the cursor back.
    ///
    /// These are branches, and the first place is read, not computed from the block: with conditional moves or arithmetic,
    /// every allocation would wait for the free before it, and that one for its allocation.
    #[inline]
    pub(crate) fn free_front(self, start: usize, size: usize) {
        if self.book(Live::block(size)) {
            self.rewind();
        } else if start + room_of(size) == self.cursor().get() {
            self.cursor().set(start);
        }
    }

    /// Books a foreign word, as it came out of the inbox: remote frees, or a countdown at its end. Returns whether that drains
    /// the chunk, which must then be rewound.
    #[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
    pub(crate) fn book_word(self, word: u64) -> bool {
        if word == COMPLETE {
            self.back().set(self.taken().get());
            return true;
        }
        self.book(Live::from_word(word))
    }

    /// Books a block, or bytes of one, that came home. `true` if that drains the chunk: it must then be rewound.
    #[inline]
    #[must_use]
    pub(crate) fn book(self, given: Live) -> bool {
        let back = self.back().get().wrapping_add(given.word());
        if back == self.taken().get() {
            return true;
        }
        self.back().set(back);
        false
    }

    /// Whether nothing is alive in it, as far as was booked.
    #[inline]
    pub(crate) fn is_drained(self) -> bool {
        self.back().get() == self.taken().get()
    }

    /// What is live, without remote frees that are not booked yet. Exact at rest.
    pub(crate) fn live_now(self) -> Live {
        let unbooked = self.unbooked();
        if let Some(live) = Live::of_countdown(unbooked) {
            return live;
        }
        let (taken, back) = (Live::from_word(self.taken().get()), Live::from_word(self.back().get()));
        taken.minus(back, Live::from_word(unbooked))
    }

    /// Starts over in a drained chunk. Constants go into all its words, so nothing waits for what was there.
    #[inline]
    pub(crate) fn rewind(self) {
        self.cursor().set(self.first());
        self.taken().set(Live::NONE.word());
        // A store less for blocks that come and go one by one.
        if self.back().get() != Live::NONE.word() {
            self.back().set(Live::NONE.word());
        }
    }

    /// Gives the block of `old` bytes at `start` `new` bytes instead, if it is the top one and they fit.
    #[inline]
    pub(crate) fn grow_top(self, start: usize, old: usize, new: usize) -> bool {
        if start + room_of(old) != self.cursor().get() || start + room_of(new) > self.end() {
            return false;
        }
        self.cursor().set(start + room_of(new));
        self.taken().add(Live::resized(new - old).word());
        // SAFETY: behind the top block lies no other block.
        unsafe { unpoison(self.at(start + old), new - old) };
        true
    }

    /// Takes what the block of `old` bytes at `start` loses, and moves the cursor back if it is the top one of the front.
    #[inline]
    pub(crate) fn shrink(self, start: usize, old: usize, new: usize, front: bool) {
        if front && start + room_of(old) == self.cursor().get() {
            self.cursor().set(start + room_of(new));
        }
        let drained = self.book(Live::resized(old - new));
        ephemera_prim::invariant!(!drained, "a block that shrank is still alive");
    }

    /// The chunk goes back to the backing allocator: nobody else may touch it from here.
    pub(crate) fn end_of_life(self) -> NonNull<u8> {
        ephemera_prim::invariant!(self.is_drained(), "a chunk with live blocks goes back");
        #[cfg(target_has_atomic = "64")]
        self.foreign().end();
        self.0.cast()
    }
}
