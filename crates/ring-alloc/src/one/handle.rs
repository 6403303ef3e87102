//! The zero-sized handle.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::shard::{clean, stats};
use super::thread::{self, Process, WORLD};
use crate::heap;
use crate::stats::Stats;

/// Ring of chunks for all threads: each has its own, and blocks may be freed on any.
///
/// Has no size: containers carry nothing for it. A thread allocates from chunks that only it writes to, and neither allocates nor
/// frees with an atomic read-modify-write there. A remote free takes one; the first of a chunk since its owner looked takes
/// two and a fence, and may lease the record of an ended thread. Blocks may be freed after their thread ended, and allocated
/// and freed in destructors of thread-locals.
///
/// Over the global heap. It cannot itself be the `#[global_allocator]`: it would take its chunks from itself.
///
/// # Examples
///
/// ```
/// use allocator_api2::boxed::Box;
/// use ring_alloc::OneRingAlloc;
///
/// let answer = Box::new_in(42, OneRingAlloc);
/// let thread = std::thread::spawn(move || *answer + 1);
/// assert_eq!(thread.join().unwrap(), 43);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OneRingAlloc;

impl OneRingAlloc {
    /// A block of this layout: exactly `layout.size()` bytes, not initialised.
    ///
    /// Layouts of size zero give an aligned address that is no memory, and touch nothing.
    ///
    /// # Errors
    /// [`AllocError`] when the limit would be exceeded, or when the global heap refuses.
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = heap::allocate(thread::This, layout)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// As [`OneRingAlloc::allocate`], with all bytes zero.
    ///
    /// # Errors
    /// As [`OneRingAlloc::allocate`].
    #[inline]
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = heap::allocate_zeroed(thread::This, layout)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Gives back a block, on any thread.
    ///
    /// # Safety
    /// `block` is a live block of `OneRingAlloc`, and `layout` fits it.
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { heap::deallocate(thread::This, block, layout) };
    }

    /// Grows a block. The top block of the chunk that this thread fills stays where it is if there is room; blocks
    /// larger than 64 KiB are grown by the global heap; others move.
    ///
    /// # Errors
    /// As [`OneRingAlloc::allocate`]; the old block is then as it was.
    ///
    /// # Safety
    /// `block` is a live block of `OneRingAlloc`, `old` fits it, and `new.size()` is not smaller than `old.size()`.
    #[inline]
    pub unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's.
        let grown = unsafe { heap::grow(thread::This, block, old, new) }?;
        Ok(NonNull::slice_from_raw_parts(grown, new.size()))
    }

    /// As [`OneRingAlloc::grow`], with all bytes from `old.size()` on zero.
    ///
    /// # Errors
    /// As [`OneRingAlloc::grow`].
    ///
    /// # Safety
    /// As [`OneRingAlloc::grow`].
    #[inline]
    pub unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's.
        let grown = unsafe { heap::grow_zeroed(thread::This, block, old, new) }?;
        Ok(NonNull::slice_from_raw_parts(grown, new.size()))
    }

    /// Shrinks a block: in place, unless its class changes (at 2 KiB and 64 KiB) or its address does not fit the new alignment.
    ///
    /// # Errors
    /// As [`OneRingAlloc::allocate`], where the block has to move; the old block is then as it was.
    ///
    /// # Safety
    /// `block` is a live block of `OneRingAlloc`, `old` fits it, and `new.size()` is not larger than `old.size()`.
    #[inline]
    pub unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's.
        let shrunk = unsafe { heap::shrink(thread::This, block, old, new) }?;
        Ok(NonNull::slice_from_raw_parts(shrunk, new.size()))
    }

    /// Gives this thread's chunks without a live block back to the global heap, after booking what other threads freed.
    ///
    /// Without it, a thread keeps a few empty chunks of each class for its next need (4) and gives back the others as
    /// they run empty, and all of them when it ends.
    #[inline]
    pub fn clean_local(&self) {
        if let Some(owner) = thread::bound() {
            heap::trim(owner);
        }
    }

    /// Frees the empty chunks of every record that no thread has leased, and asks all threads to free theirs when they next
    /// run out of a chunk.
    ///
    /// A thread that does not allocate any more is not reached: what it keeps goes at its end or at its own
    /// [`clean_local`](OneRingAlloc::clean_local).
    #[inline]
    pub fn clean_global(&self) {
        clean(Process);
    }

    /// Sets the most bytes that all threads together may hold from the global heap, chunks and large blocks, from
    /// now on; `usize::MAX` for no limit, which is how a program starts.
    ///
    /// Requests beyond it fail with [`AllocError`], after this thread and the records of ended ones freed their empty chunks. Every
    /// other thread frees its own when it next runs out of a chunk, so a refused request may succeed later. What is held
    /// already stays.
    ///
    /// A [`shrink`](OneRingAlloc::shrink) that has to move its block is not refused: it may take a chunk beyond the limit.
    #[inline]
    pub fn set_limit(&self, bytes: usize) {
        WORLD.account.set_limit(bytes);
    }

    /// What all threads hold and what of it is alive. Walks along all chunks of all threads.
    ///
    /// Exact at rest: join the threads first (a scope's end does not wait for the destructors of their thread-locals).
    #[must_use]
    pub fn stats(&self) -> Stats {
        stats(Process)
    }
}

ephemera_prim::impl_allocator! {
    // SAFETY: blocks are disjoint and stay valid until they are freed (H3), all values are the same allocator, and no method unwinds.
    unsafe impl[] for OneRingAlloc
}
