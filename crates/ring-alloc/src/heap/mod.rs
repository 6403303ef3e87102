//! Defines the heap that one owner allocates from, and the environment that connects it to its
//! owner.
//!
//! ```text
//!   front[class] --> a cursor of the chunk being allocated from
//!   empties[class] --> empty chunk --> empty chunk  (usually at most `rest::kept`)
//!   chunks[class] <-> every chunk of the class, in any state
//! ```
//!
//! A chunk that is neither a front nor empty is *pinned*. Until the last block of a pinned chunk is
//! freed, the heap refers to the chunk only in its list of all chunks, in its list of chunks with
//! holes, and in its census. [`RingEnv`] connects a heap to its owner: the thread of a ring
//! (`ring/inner.rs`), or the holder of a record (`one/record.rs`). The modules are:
//!
//! * `fast`: the fast path of every allocation and free.
//! * `slow`: the slow path, which gets a new front, and keeps or frees empty chunks.
//! * `front`: the fronts, and the code that replaces them.
//! * `rest`: chunks that rest before they are reused.
//! * `holes`: the free sections of chunks that long-lived blocks pin.
//! * `census`: the decision whether a heap is sparse.
//! * `sparse`: the words for holes and the census.
//! * `resize`: growing and shrinking.
//! * `large`: blocks of size zero, and blocks that the backing allocator serves directly.
//! * `list`: the lists of all chunks.
//! * `evict`: the lock under which other threads remove chunks of an idle owner from these lists.
//!
//! The design page has the invariants H1 to H8 and S1 to S3.

mod census;
mod evict;
mod fast;
mod front;
mod holes;
mod large;
pub(crate) mod list;
mod resize;
mod rest;
pub(crate) mod slow;
mod sparse;

pub(crate) use evict::Evictions;
pub(crate) use fast::{allocate, deallocate};
pub(crate) use resize::{allocate_zeroed, grow, shrink};
pub(crate) use slow::{dissolve, refill, trim};

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::account::{Account, Limit};
use ephemera_prim::rest::Rest;
use ephemera_prim::unit_list::UnitList;
use ephemera_prim::word::{OwnerPtr, OwnerUsize};

use self::sparse::{ChunkCensus, Holes};
use crate::chunk::front::FrontPtr;
use crate::chunk::{BumpCursor, Chunk, ChunkPtr};
use crate::geometry::{CLASSES, ChunkClass, Geometry};

/// The chunks of one owner. Dropping a heap does not free its chunks.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct ChunkHeap {
    fronts: [OwnerPtr<BumpCursor>; CLASSES],
    empties: [OwnerPtr<Chunk>; CLASSES],
    empties_len: [OwnerUsize; CLASSES],
    chunks: [UnitList<Chunk>; CLASSES],
    /// The number of small chunks, including chunks that other threads evicted.
    small: OwnerUsize,
    /// Decides whether small chunks rest.
    rest: Rest,
    holes: Holes,
    census: ChunkCensus,
}

impl ChunkHeap {
    ephemera_prim::const_unless_loom! {
        /// Creates a heap without chunks. Call [`ChunkHeap::enter`] before its first use.
        pub(crate) fn new() -> Self {
            Self {
                fronts: [OwnerPtr::null(), OwnerPtr::null()],
                empties: [OwnerPtr::null(), OwnerPtr::null()],
                empties_len: [OwnerUsize::new(0), OwnerUsize::new(0)],
                chunks: [UnitList::new(), UnitList::new()],
                small: OwnerUsize::new(0),
                rest: Rest::new(),
                holes: Holes::new(),
                census: ChunkCensus::new(),
            }
        }
    }

    #[cfg(not(ephemera_loom))]
    ephemera_prim::const_unless_loom! {
        /// Creates a heap whose fronts are the full chunk, for threads that do not own chunks (H6).
        pub(crate) fn nowhere() -> Self {
            Self { fronts: [OwnerPtr::new(full_chunk()), OwnerPtr::new(full_chunk())], ..Self::new() }
        }
    }

    /// Makes the full chunk the front of each class that has none (H2).
    pub(crate) fn enter(&self) {
        for front in &self.fronts {
            if front.get().is_null() {
                front.set(full_chunk());
            }
        }
    }

    #[inline]
    pub(crate) fn front(&self, class: ChunkClass) -> FrontPtr {
        let front = self.fronts[class.index()].get();
        // SAFETY: a front is never null after the heap was entered (H2).
        let front = unsafe { NonNull::new_unchecked(front) };
        // SAFETY: a chunk is not freed while it is the front (C1).
        unsafe { FrontPtr::new(front) }
    }
}

/// Returns the full chunk, which stands in for a missing front.
#[cfg(not(ephemera_loom))]
#[inline]
pub(crate) const fn full_chunk() -> *mut BumpCursor {
    static FULL: Chunk = Chunk::full();
    (&raw const FULL).cast_mut().cast()
}

/// Returns the full chunk, which stands in for a missing front.
#[cfg(ephemera_loom)]
fn full_chunk() -> *mut BumpCursor {
    loom::lazy_static! {
        static ref FULL: Chunk = Chunk::full();
    }
    (&raw const *FULL).cast_mut().cast()
}

/// The environment of a heap: its owner, the source of its chunks, and the way to free blocks of
/// other threads' chunks. The default bodies suit a ring for one thread, except those of `owns` and
/// `retain`, which suit a record.
///
/// # Safety
/// * `heap` returns a heap that was entered and whose chunks all came from `backing`. The calling
///   thread owns the heap (H1), or the heap is unowned and never written (H6).
/// * While `refill` or the backing allocator runs, the thread can become bound to a record, whose
///   heap then replaces an unowned heap. An owned heap stays the same until the call returns.
/// * Whenever code of this crate calls `front`, the result is the front of `heap`. After that front
///   has changed, `front_changed` renews any copy of it (H7).
/// * `owns` returns `true` if and only if the owner of `heap` may write the chunk's words.
/// * `evictions` returns the lock under which other threads evict chunks of `heap`. It may return
///   `None` only if no other thread does.
/// * All allocators that `backing` returns can free each other's blocks.
pub(crate) unsafe trait RingEnv: Copy {
    type Geometry: Geometry;
    type Backing: Allocator;
    type Account: Account;
    /// Whether other threads free blocks of the heap, so that chunks may rest (see `rest`).
    const HANDS_OVER: bool = false;

    fn heap(&self) -> &ChunkHeap;
    /// Returns the front of `heap`, from a copy if the environment keeps one (H7).
    #[inline]
    fn front(&self, class: ChunkClass) -> FrontPtr {
        self.heap().front(class)
    }
    /// Tells the environment that `heap` has a new front, which `front` must return from then on
    /// (H7).
    fn front_changed(&self) {}
    /// Allocates a block that does not fit into the front of `heap`. `limit` says whether the limit
    /// applies to the block.
    fn refill(self, layout: Layout, class: ChunkClass, limit: Limit) -> Result<NonNull<u8>, AllocError>;
    fn backing(&self) -> &Self::Backing;
    fn account(&self) -> &Self::Account;
    /// Returns the owner word of this heap's chunks: the address of a record, or null.
    fn identity(&self) -> *const ();
    /// Returns whether this heap's owner may write the words of `chunk`.
    #[inline]
    fn owns(&self, chunk: ChunkPtr) -> bool {
        self.identity() == chunk.owner()
    }
    /// Returns the number of empty chunks of each class that the heap keeps besides the front, if
    /// no chunks rest.
    fn retain(&self) -> usize {
        Self::Geometry::RETAIN
    }
    /// Returns the lock for threads that evict chunks of the heap, or `None` if no thread does.
    #[inline]
    fn evictions(&self) -> Option<&Evictions> {
        None
    }
    /// Returns whether the heap may grow to let chunks rest (see `rest`). Returns `false` under a
    /// limit.
    fn may_rest(&self) -> bool {
        false
    }
    /// Books the remote frees of the chunks in the inbox: adds them to the chunks' sums of freed
    /// blocks.
    fn book_mail(&self) {}
    /// Frees the empty chunks of records that no thread has leased, and asks the holders of all
    /// other records to trim. After a refusal, the slow path calls this before its second attempt.
    fn last_resort(&self) {}
    /// Frees a block, or bytes of one, in a chunk that this heap's owner does not own.
    ///
    /// # Safety
    /// `given` counts a live block of `chunk`, or bytes of one. The block or the bytes are not used
    /// after this call. `owns` returned `false` for `chunk`.
    unsafe fn free_remotely(self, chunk: ChunkPtr, given: crate::live::LiveCount);
}

/// Returns the chunk that contains `block`, and whether its first cursor is the front of `env`'s
/// heap.
///
/// # Safety
/// `block` is a live block of `class` from a heap of `env`'s geometry.
#[inline]
unsafe fn chunk_of<E: RingEnv>(env: E, block: NonNull<u8>, class: ChunkClass) -> (ChunkPtr, bool) {
    let front = env.front(class);
    if ephemera_prim::raw::base_addr(block, class.chunk_size::<E::Geometry>()) == front.addr() {
        // SAFETY: the front is at the chunk's base, so it is the chunk's first cursor.
        return (unsafe { front.chunk() }, true);
    }
    // SAFETY: the caller's live block is of this class and geometry.
    (unsafe { chunk_behind::<E::Geometry>(block, class) }, false)
}

/// Returns the chunk that contains `block`.
///
/// # Safety
/// `block` is a live block of `class` from a heap of geometry `G`.
#[inline]
unsafe fn chunk_behind<G: Geometry>(block: NonNull<u8>, class: ChunkClass) -> ChunkPtr {
    // SAFETY: chunks are aligned to their size, start with a `Chunk` and were exposed at their
    // creation. The chunk of a live block is not freed (H3).
    let header = unsafe { ephemera_prim::raw::header_of::<Chunk>(block, class.chunk_size::<G>()) };
    // SAFETY: the chunk of a live block is not freed, and the exposed pointer may access all of it
    // (C1).
    unsafe { ChunkPtr::new(header) }
}
