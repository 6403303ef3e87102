//! The heap: what one owner allocates from.
//!
//! ```text
//!   front[class] --> chunk being filled
//!   empties[class] --> drained chunk --> drained chunk          (`retain`; two more beside a walker)
//!   chunks[class] <-> every chunk of the class, wherever else it is or is not
//! ```
//!
//! A chunk that is neither a front nor empty is on no list but that of all chunks: it waits for its last
//! block, and nothing looks at it until then. `fast` has what every allocation and free goes through,
//! `slow` how fronts are found and chunks come and go, `resize` growing and shrinking, `large` what goes
//! to the backing allocator.
//!
//! The crate's design has the invariants H1 to H7.

mod fast;
mod large;
mod list;
mod resize;
mod slow;

pub(crate) use fast::{allocate, deallocate};
pub(crate) use resize::{allocate_zeroed, grow, grow_zeroed, shrink};
#[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
pub(crate) use slow::{abandon, book_foreign, give_up_empties};
pub(crate) use slow::{dissolve, refill, trim};

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::unit_list::UnitList;
use ephemera_prim::word::{OwnerPtr, OwnerUsize};

use crate::account::{Account, Limit};
use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::{CLASSES, Class, Geometry};

/// The heap's own words. They hold no memory by themselves: whoever has the heap gives chunks back first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Heap {
    fronts: [OwnerPtr<Chunk>; CLASSES],
    empties: [OwnerPtr<Chunk>; CLASSES],
    empties_len: [OwnerUsize; CLASSES],
    chunks: [UnitList<Chunk>; CLASSES],
}

impl Heap {
    ephemera_prim::const_unless_loom! {
        /// A heap without chunks. It must be entered before it is used.
        pub(crate) fn new() -> Self {
            Self {
                fronts: [OwnerPtr::null(), OwnerPtr::null()],
                empties: [OwnerPtr::null(), OwnerPtr::null()],
                empties_len: [OwnerUsize::new(0), OwnerUsize::new(0)],
                chunks: [UnitList::new(), UnitList::new()],
            }
        }
    }

    #[cfg(not(ephemera_loom))]
    ephemera_prim::const_unless_loom! {
        /// A heap whose fronts are full: for threads that own nothing (H6).
        pub(crate) fn nowhere() -> Self {
            Self { fronts: [OwnerPtr::new(full_chunk()), OwnerPtr::new(full_chunk())], ..Self::new() }
        }
    }

    /// Makes the heap ready for use (H2).
    pub(crate) fn enter(&self) {
        for front in &self.fronts {
            if front.get().is_null() {
                front.set(full_chunk());
            }
        }
    }

    #[inline]
    pub(crate) fn front(&self, class: Class) -> ChunkPtr {
        let front = self.fronts[class.index()].get();
        // SAFETY: H2.
        let front = unsafe { NonNull::new_unchecked(front) };
        // SAFETY: C1: a front is not freed before it stops being the front.
        unsafe { ChunkPtr::new(front) }
    }

    fn set_front(&self, class: Class, chunk: *mut Chunk) {
        self.fronts[class.index()].set(chunk);
    }
}

/// The chunk that stands for none.
#[cfg(not(ephemera_loom))]
#[inline]
pub(crate) const fn full_chunk() -> *mut Chunk {
    static FULL: Chunk = Chunk::full();
    (&raw const FULL).cast_mut()
}

/// The chunk that stands for none.
#[cfg(ephemera_loom)]
fn full_chunk() -> *mut Chunk {
    loom::lazy_static! {
        static ref FULL: Chunk = Chunk::full();
    }
    (&raw const *FULL).cast_mut()
}

/// What a heap stands in: whose it is and where its chunks come from.
///
/// # Safety
/// `heap` returns a heap which the calling thread owns (H1), or which nobody does and nobody writes (H6), and which was entered; its chunks
/// all came from `backing`. One that nobody owns may become another where `refill` or `backing` is called, as a thread gets its record
/// there; one that is owned stays until the call returns. `front` is the front that `heap` has, whenever code of this crate reads it, and `front_changed` restores that (H7).
/// `owns` is true exactly of chunks of that heap. `backing` stays valid and equivalent throughout.
pub(crate) unsafe trait Env: Copy {
    type Geometry: Geometry;
    type Backing: Allocator;
    type Account: Account;

    fn heap(&self) -> &Heap;
    /// The front of `heap`, by the shortest way to it (H7).
    #[inline]
    fn front(&self, class: Class) -> ChunkPtr {
        self.heap().front(class)
    }
    /// `heap` has another front: what `front` goes by must follow (H7).
    fn front_changed(&self) {}
    /// A block, when the front of `heap` has no room for it.
    fn refill(self, layout: Layout, class: Class, limit: Limit) -> Result<NonNull<u8>, AllocError>;
    fn backing(&self) -> &Self::Backing;
    fn account(&self) -> &Self::Account;
    /// The identity that chunks of this heap carry.
    fn identity(&self) -> *const ();
    /// Whether this heap's owner may write the words of `chunk`.
    fn owns(&self, chunk: ChunkPtr) -> bool;
    /// Empty chunks of each class to keep.
    fn retain(&self) -> usize;
    /// Books what other threads gave back.
    fn settle(&self);
    /// Whether somebody asked all owners to trim since this was called last.
    fn trim_asked(&self) -> bool;
    /// Frees what other heaps hold in vain, before a request is refused.
    fn last_resort(&self);
    /// Gives back a count of a chunk that another owner has.
    ///
    /// # Safety
    /// `given` stands for something of `chunk` that the caller had and gives up, and `chunk` is not owned.
    unsafe fn give_back(self, chunk: ChunkPtr, given: crate::live::Live);
}

/// The chunk that a block of this class lies in, and whether it is the front of `env`'s heap.
///
/// # Safety
/// `block` is a live block of `class` from a heap of `env`'s geometry.
#[inline]
unsafe fn chunk_of<E: Env>(env: E, block: NonNull<u8>, class: Class) -> (ChunkPtr, bool) {
    let front = env.front(class);
    if ephemera_prim::header::base_addr(block, class.chunk_size::<E::Geometry>()) == front.addr() {
        return (front, true);
    }
    // SAFETY: the caller's block, of this class and geometry.
    (unsafe { chunk_behind::<E::Geometry>(block, class) }, false)
}

/// The chunk that a block of this class lies in.
///
/// # Safety
/// `block` is a live block of `class` from a heap of geometry `G`.
#[inline]
unsafe fn chunk_behind<G: Geometry>(block: NonNull<u8>, class: Class) -> ChunkPtr {
    // SAFETY: chunks are aligned to their size, start with a `Chunk` and were exposed when they were made; the
    // chunk of a live block is not freed (H3).
    let header = unsafe { ephemera_prim::header::header_of::<Chunk>(block, class.chunk_size::<G>()) };
    // SAFETY: C1, as above; the exposed pointer was that to the whole chunk.
    unsafe { ChunkPtr::new(header) }
}

/// A pointer that is no block: for layouts of size zero. Aligned as the layout wants.
#[inline]
fn dangling(layout: Layout) -> NonNull<u8> {
    // SAFETY: an alignment is not zero.
    unsafe { NonNull::new_unchecked(core::ptr::without_provenance_mut(layout.align())) }
}
