//! Defines [`RingAlloc`], a ring of chunks for one thread.

mod builder;
mod inner;
mod source;
#[cfg(all(test, feature = "alloc", not(ephemera_loom)))]
mod sparse_tests;

pub use builder::Builder;

use core::alloc::Layout;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};
#[cfg(feature = "alloc")]
use allocator_api2::alloc::{Global, handle_alloc_error};

use crate::geometry::{Geometry, Standard};
use crate::heap;
use crate::stats::Stats;
use inner::Inner;

macro_rules! ring_alloc {
    ($($default:tt)*) => {
        /// A ring of chunks for one thread.
        ///
        /// The chunks and large blocks of the ring come from the operating system's pages, or from
        /// the backing allocator `A` that was passed at the creation of the ring
        /// ([details](crate#where-memory-comes-from)).
        ///
        /// A `RingAlloc` is a pointer-sized handle to shared state. Its clones allocate from and
        /// free to the same ring. The drop of the last handle frees the ring. Blocks that are still
        /// live stay valid, because their memory and the backing allocator are leaked. A debug
        /// build with `std` reports the leak on standard error.
        ///
        /// `G` is the [`Geometry`] of the chunks.
        ///
        /// The methods of `A` must not unwind. If `deallocate` unwinds nevertheless, memory is
        /// leaked, and live blocks stay valid.
        ///
        /// # Examples
        ///
        /// ```
        /// # #[cfg(feature = "std")] {
        /// use allocator_api2::vec::Vec;
        /// use ring_alloc::RingAlloc;
        ///
        /// let ring = RingAlloc::new();
        /// let mut words = Vec::new_in(ring.clone());
        /// words.extend(["short", "lived"]);
        /// assert_eq!(ring.stats().blocks_live(), 1);
        /// drop(words);
        /// assert_eq!(ring.stats().blocks_live(), 0);
        /// # }
        /// ```
        ///
        /// A ring cannot be sent to or shared with another thread:
        ///
        /// ```compile_fail,E0277
        /// fn send<T: Send>(_: T) {}
        /// send(ring_alloc::RingAlloc::new());
        /// ```
        ///
        /// ```compile_fail,E0277
        /// fn share<T: Sync>(_: T) {}
        /// share(ring_alloc::RingAlloc::new());
        /// ```
        pub struct RingAlloc<A: Allocator $($default)*, G: Geometry = Standard> {
            inner: NonNull<Inner<A, G>>,
            marker: PhantomData<Inner<A, G>>,
        }
    };
}

#[cfg(feature = "alloc")]
ring_alloc!(= Global);
#[cfg(not(feature = "alloc"))]
ring_alloc!();

impl<A: Allocator, G: Geometry> RingAlloc<A, G> {
    fn from_inner(inner: NonNull<Inner<A, G>>) -> Self {
        Self { inner, marker: PhantomData }
    }

    #[inline]
    fn inner(&self) -> &Inner<A, G> {
        // SAFETY: the state lives as long as a handle (I1), and only shared references to it exist.
        unsafe { self.inner.as_ref() }
    }

    /// Allocates a block of exactly `layout.size()` uninitialised bytes.
    ///
    /// For a layout of size zero, returns an aligned address without memory.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit of the ring would be exceeded or the backing allocator
    /// refuses.
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = heap::allocate(self.inner(), layout)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Allocates a block like [`RingAlloc::allocate`], and sets all of its bytes to zero.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit of the ring would be exceeded or the backing allocator
    /// refuses.
    #[inline]
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = heap::allocate_zeroed(self.inner(), layout)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `block` is a live block of this ring (allocated by any of its handles), and `layout` fits
    /// it.
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's block is live, and `layout` fits it.
        unsafe { heap::deallocate(self.inner(), block, layout) };
    }

    /// Grows a block. The most recent block in a chunk that the ring allocates from grows in place
    /// if its class does not change, its address fits the new alignment, and there is room. The
    /// backing allocator grows a block that stays *large*: with [`Standard`], larger than 64 KiB,
    /// or aligned to more than 4 KiB. Any other block that gains bytes moves.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit of the ring would be exceeded or the backing allocator
    /// refuses. The old block is then unchanged.
    ///
    /// # Safety
    /// `block` is a live block of this ring, `old` fits it, and `new.size()` is not smaller than
    /// `old.size()`.
    #[inline]
    pub unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's block is live, `old` fits it, and `new` is not smaller.
        let grown = unsafe { heap::grow(self.inner(), block, old, new, false) }?;
        Ok(NonNull::slice_from_raw_parts(grown, new.size()))
    }

    /// Grows a block like [`RingAlloc::grow`], and sets all bytes from `old.size()` on to zero.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit of the ring would be exceeded or the backing allocator
    /// refuses. The old block is then unchanged.
    ///
    /// # Safety
    /// `block` is a live block of this ring, `old` fits it, and `new.size()` is not smaller than
    /// `old.size()`.
    #[inline]
    pub unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's block is live, `old` fits it, and `new` is not smaller.
        let grown = unsafe { heap::grow(self.inner(), block, old, new, true) }?;
        Ok(NonNull::slice_from_raw_parts(grown, new.size()))
    }

    /// Shrinks a block. A block in a chunk stays in place, unless its class changes (with
    /// [`Standard`], for example at 2 KiB) or its address does not fit the new alignment. The
    /// backing allocator shrinks a block that is large before and after the call. A block that is
    /// large before the call alone moves to a chunk.
    ///
    /// # Errors
    /// Returns [`AllocError`] if there is no memory to move the block, or if the backing allocator
    /// refuses to shrink a large block. The old block is then unchanged.
    ///
    /// # Safety
    /// `block` is a live block of this ring, `old` fits it, and `new.size()` is not larger than
    /// `old.size()`.
    #[inline]
    pub unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's block is live, `old` fits it, and `new` is not larger.
        let shrunk = unsafe { heap::shrink(self.inner(), block, old, new) }?;
        Ok(NonNull::slice_from_raw_parts(shrunk, new.size()))
    }

    /// Frees every empty chunk.
    ///
    /// Without a trim, a ring keeps its fronts and, by default, up to 4 empty chunks of each class
    /// for reuse (see [`Builder::retain`]).
    ///
    /// There is no `trim_all`, because a ring belongs to one thread and does not share memory with
    /// other rings.
    #[inline]
    pub fn trim(&self) {
        heap::trim(self.inner());
    }

    /// Another name for [`trim`](RingAlloc::trim).
    #[inline]
    pub fn flush(&self) {
        self.trim();
    }

    /// Returns the statistics of this ring, by a walk over all of its chunks.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner().stats()
    }
}

ephemera_prim::impl_allocator! {
    // SAFETY: blocks are disjoint and valid until they are freed (H3), clones share one heap, and
    // no method unwinds.
    unsafe impl[A: Allocator, G: Geometry] for RingAlloc<A, G>
}

impl<A: Allocator, G: Geometry> Clone for RingAlloc<A, G> {
    #[inline]
    fn clone(&self) -> Self {
        self.inner().add_handle();
        Self::from_inner(self.inner)
    }
}

impl<A: Allocator, G: Geometry> Drop for RingAlloc<A, G> {
    #[inline]
    fn drop(&mut self) {
        if self.inner().drop_handle() {
            // SAFETY: no handle is left (I1).
            unsafe { Inner::destroy(self.inner) };
        }
    }
}

impl<A: Allocator + Default> Default for RingAlloc<A> {
    /// Creates a ring over the default value of the backing allocator, like [`RingAlloc::new_in`].
    ///
    /// If `A` is [`Global`](allocator_api2::alloc::Global), the ring takes all of its memory from
    /// the global heap, unlike a ring that [`RingAlloc::new`] creates.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if there is no memory for the ring's state. Without the feature
    /// `alloc`, panics instead.
    #[inline]
    fn default() -> Self {
        Self::new_in(A::default())
    }
}

/// Two handles are equal if they share one ring.
impl<A: Allocator, G: Geometry> PartialEq for RingAlloc<A, G> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl<A: Allocator, G: Geometry> Eq for RingAlloc<A, G> {}

impl<A: Allocator, G: Geometry> Hash for RingAlloc<A, G> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        ptr::hash(self.inner.as_ptr(), state);
    }
}

impl<A: Allocator, G: Geometry> fmt::Debug for RingAlloc<A, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingAlloc").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Calls `handle_alloc_error`, because there is no memory for the state of a new ring. Without the
/// feature `alloc`, panics instead.
#[cold]
fn no_memory<A: Allocator, G: Geometry>() -> ! {
    let layout = Layout::new::<Inner<A, G>>();
    #[cfg(feature = "alloc")]
    handle_alloc_error(layout);
    // Only the crate `alloc` has `handle_alloc_error`.
    #[cfg(not(feature = "alloc"))]
    panic!("no memory for the {} bytes of a ring's state", layout.size());
}
