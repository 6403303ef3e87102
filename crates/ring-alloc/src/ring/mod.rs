//! `RingAlloc`: the ring for one thread.

mod builder;
mod inner;

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
        /// Ring of chunks for one thread, over a backing allocator `A`.
        ///
        /// A handle to shared state, one pointer wide: clones allocate from and free to the same ring. The ring
        /// is freed with its last handle. Blocks that are alive then stay valid for ever: they
        /// and the backing allocator are left alone, and a debug build with `std` says so on standard error.
        ///
        /// `G` is the geometry of its chunks, see [`Geometry`].
        ///
        /// The methods of `A` must not unwind. If its `deallocate` does, memory is leaked; live blocks stay valid.
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
        /// It does not leave its thread:
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

#[cfg(feature = "alloc")]
impl RingAlloc<Global> {
    /// A ring over the global heap. It holds about 200 bytes until its first allocation.
    ///
    /// Calls [`handle_alloc_error`] when there is no memory for that; see [`RingAlloc::try_new_in`].
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::new_in(Global)
    }
}

impl<A: Allocator> RingAlloc<A> {
    /// A ring over `backing`, which also has the ring's own state.
    ///
    /// # Panics
    /// When there is no memory for that: by way of `handle_alloc_error`, where there is one. [`RingAlloc::try_new_in`] does not.
    #[must_use]
    #[inline]
    pub fn new_in(backing: A) -> Self {
        Builder::new().build_in(backing)
    }

    /// A ring over `backing`, which also has the ring's own state.
    ///
    /// # Errors
    /// [`AllocError`] when `backing` has no memory for the ring's own state.
    #[inline]
    pub fn try_new_in(backing: A) -> Result<Self, AllocError> {
        Builder::new().try_build_in(backing)
    }
}

#[cfg(feature = "alloc")]
impl RingAlloc<Global> {
    /// Settings for a ring: a limit on bytes held, empty chunks to keep, a geometry.
    ///
    /// # Examples
    ///
    /// ```
    /// use core::alloc::Layout;
    /// use ring_alloc::RingAlloc;
    ///
    /// let ring = RingAlloc::builder().limit(1 << 20).build();
    /// assert!(ring.allocate(Layout::new::<[u8; 2 << 20]>()).is_err());
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl<A: Allocator, G: Geometry> RingAlloc<A, G> {
    fn from_inner(inner: NonNull<Inner<A, G>>) -> Self {
        Self { inner, marker: PhantomData }
    }

    #[inline]
    fn inner(&self) -> &Inner<A, G> {
        // SAFETY: I1: the state lives as long as a handle, and is only ever borrowed shared.
        unsafe { self.inner.as_ref() }
    }

    /// A block of this layout: exactly `layout.size()` bytes, not initialised.
    ///
    /// Layouts of size zero give an aligned address that is no memory, and touch nothing.
    ///
    /// # Errors
    /// [`AllocError`] when the limit of the ring would be exceeded, or when the backing allocator refuses.
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = heap::allocate(self.inner(), layout)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// As [`RingAlloc::allocate`], with all bytes zero.
    ///
    /// # Errors
    /// As [`RingAlloc::allocate`].
    #[inline]
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = heap::allocate_zeroed(self.inner(), layout)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Gives back a block.
    ///
    /// # Safety
    /// `block` is a live block of this ring (of this handle or of one that it shares its state with), and `layout` fits it.
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { heap::deallocate(self.inner(), block, layout) };
    }

    /// Grows a block. The top block of a chunk stays where it is if the chunk has room; blocks larger than
    /// 64 KiB are grown by the backing allocator; others move.
    ///
    /// # Errors
    /// As [`RingAlloc::allocate`]; the old block is then as it was.
    ///
    /// # Safety
    /// `block` is a live block of this ring, `old` fits it, and `new.size()` is not smaller than `old.size()`.
    #[inline]
    pub unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's.
        let grown = unsafe { heap::grow(self.inner(), block, old, new) }?;
        Ok(NonNull::slice_from_raw_parts(grown, new.size()))
    }

    /// As [`RingAlloc::grow`], with all bytes from `old.size()` on zero.
    ///
    /// # Errors
    /// As [`RingAlloc::grow`].
    ///
    /// # Safety
    /// As [`RingAlloc::grow`].
    #[inline]
    pub unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's.
        let grown = unsafe { heap::grow_zeroed(self.inner(), block, old, new) }?;
        Ok(NonNull::slice_from_raw_parts(grown, new.size()))
    }

    /// Shrinks a block: in place, unless its class changes (at 2 KiB and 64 KiB) or its address does not fit the new alignment.
    ///
    /// # Errors
    /// As [`RingAlloc::allocate`], where the block has to move; the old block is then as it was.
    ///
    /// # Safety
    /// `block` is a live block of this ring, `old` fits it, and `new.size()` is not larger than `old.size()`.
    #[inline]
    pub unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's.
        let shrunk = unsafe { heap::shrink(self.inner(), block, old, new) }?;
        Ok(NonNull::slice_from_raw_parts(shrunk, new.size()))
    }

    /// Gives every chunk without a live block back to the backing allocator.
    ///
    /// Without it, a ring keeps a few empty chunks of each class for the next need (4, see [`Builder::retain`])
    /// and gives back the others as they run empty.
    #[inline]
    pub fn flush(&self) {
        heap::trim(self.inner());
    }

    /// What this ring holds and what of it is alive. Walks along all chunks.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner().stats()
    }
}

ephemera_prim::impl_allocator! {
    // SAFETY: blocks are disjoint and stay valid until they are freed (H3), clones share one heap, and no method unwinds.
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
            // SAFETY: that was the last handle.
            unsafe { Inner::destroy(self.inner) };
        }
    }
}

#[cfg(feature = "alloc")]
impl Default for RingAlloc<Global> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

/// Handles are equal when they share one ring.
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

/// There is no memory for the state of a new ring, and the caller did not ask for a `Result`.
#[cold]
fn no_memory<A: Allocator, G: Geometry>() -> ! {
    let layout = Layout::new::<Inner<A, G>>();
    #[cfg(feature = "alloc")]
    handle_alloc_error(layout);
    // The handler is `alloc`'s.
    #[cfg(not(feature = "alloc"))]
    panic!("no memory for the {} bytes of a ring's own state", layout.size());
}
