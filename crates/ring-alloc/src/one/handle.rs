//! Defines [`OneRingAlloc`], the zero-sized handle.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::record::{clean, stats};
use super::thread::{self, ProcessRealm, WORLD};
use crate::heap;
use crate::stats::Stats;

/// An allocator with a ring of chunks for each thread. Any thread may free any block.
///
/// The handle has size zero, so it does not enlarge containers. On the fast path, a thread
/// allocates from its own chunks, and frees blocks in them, without an atomic read-modify-write. A
/// remote free usually takes one read-modify-write. The first remote free in a chunk since its
/// owner last booked remote frees takes at least two read-modify-writes and a fence, and may free
/// or purge chunks of idle threads. If the owner has exited, that free and the free of the chunk's
/// last live block may also free chunks that the owner left. Blocks may be freed after the
/// allocating thread has exited, and destructors of thread-locals may allocate and free.
///
/// Chunks and large blocks come from the operating system's [`pages`](crate::pages), not from the
/// program's global allocator ([details](crate#where-memory-comes-from)).
///
/// `OneRingAlloc` does not implement `GlobalAlloc`. This is deliberate: one long-lived block pins
/// its chunk, or a section of it, and a whole program has long-lived blocks everywhere. In a trial,
/// before chunks had sections, a service with a cache of 8 MB of strings held 2.4 GB, because each
/// cached string pinned a chunk. `PooledAllocator` of the crate `typed-pool` can be the global
/// allocator.
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
    /// Allocates a block of exactly `layout.size()` uninitialised bytes.
    ///
    /// For a layout of size zero, returns an aligned address without memory.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit would be exceeded or the operating system refuses.
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = heap::allocate(thread::This, layout)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Allocates a block like [`OneRingAlloc::allocate`], and sets all of its bytes to zero.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit would be exceeded or the operating system refuses.
    #[inline]
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = heap::allocate_zeroed(thread::This, layout)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Frees a block, on any thread.
    ///
    /// # Safety
    /// `block` is a live block of `OneRingAlloc`, and `layout` fits it.
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's block is live, and `layout` fits it.
        unsafe { heap::deallocate(thread::This, block, layout) };
    }

    /// Grows a block. The most recent block in a chunk that this thread allocates from grows in
    /// place if its class does not change, its address fits the new alignment, and there is room.
    /// A block that stays *large* (larger than 64 KiB, or aligned to more than 4 KiB) grows in its
    /// span or mapping, if possible. Any other block that gains bytes moves.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit would be exceeded or the operating system refuses. The
    /// old block is then unchanged.
    ///
    /// # Safety
    /// `block` is a live block of `OneRingAlloc`, `old` fits it, and `new.size()` is not smaller
    /// than `old.size()`.
    #[inline]
    pub unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's block is live, `old` fits it, and `new` is not smaller.
        let grown = unsafe { heap::grow(thread::This, block, old, new, false) }?;
        Ok(NonNull::slice_from_raw_parts(grown, new.size()))
    }

    /// Grows a block like [`OneRingAlloc::grow`], and sets all bytes from `old.size()` on to zero.
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit would be exceeded or the operating system refuses. The
    /// old block is then unchanged.
    ///
    /// # Safety
    /// `block` is a live block of `OneRingAlloc`, `old` fits it, and `new.size()` is not smaller
    /// than `old.size()`.
    #[inline]
    pub unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's block is live, `old` fits it, and `new` is not smaller.
        let grown = unsafe { heap::grow(thread::This, block, old, new, true) }?;
        Ok(NonNull::slice_from_raw_parts(grown, new.size()))
    }

    /// Shrinks a block. A block in a chunk stays in place, unless its class changes (for example at
    /// 2 KiB) or its address does not fit the new alignment. A block that is large before and after
    /// the call moves in three cases: its new size fits into a smaller span, its address does not
    /// fit the new alignment, or the system cannot shrink its mapping in place. A block that is
    /// large before the call alone moves to a chunk.
    ///
    /// # Errors
    /// Returns [`AllocError`] if there is no memory to move the block. The old block is then
    /// unchanged.
    ///
    /// # Safety
    /// `block` is a live block of `OneRingAlloc`, `old` fits it, and `new.size()` is not larger
    /// than `old.size()`.
    #[inline]
    pub unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's block is live, `old` fits it, and `new` is not larger.
        let shrunk = unsafe { heap::shrink(thread::This, block, old, new) }?;
        Ok(NonNull::slice_from_raw_parts(shrunk, new.size()))
    }

    /// Frees this thread's empty chunks to the cache of [`pages`](crate::pages), including chunks
    /// that other threads' frees emptied.
    ///
    /// Without a trim, a thread keeps its fronts and up to 4 empty chunks of each class for reuse,
    /// or up to 2 MiB of small chunks while it hands blocks over to other threads. It frees all
    /// empty chunks at its exit.
    #[inline]
    pub fn trim(&self) {
        if let Some(owner) = thread::bound() {
            heap::trim(owner);
        }
    }

    /// Trims this thread and the chunks of exited threads, and asks every other thread to trim when
    /// it next fills a chunk.
    ///
    /// A thread that no longer allocates keeps its fronts and up to 4 empty chunks of each class,
    /// or up to 2 MiB of small chunks after a hand-over, until its exit or its own
    /// [`trim`](OneRingAlloc::trim). While the thread is idle, other threads free the chunks that
    /// remote frees emptied, or return their pages.
    #[inline]
    pub fn trim_all(&self) {
        self.trim();
        clean(ProcessRealm);
    }

    /// Another name for [`trim`](OneRingAlloc::trim).
    #[inline]
    pub fn clean_local(&self) {
        self.trim();
    }

    /// Trims like [`trim_all`](OneRingAlloc::trim_all), except that this thread, too, trims only
    /// when it next fills a chunk.
    #[inline]
    pub fn clean_global(&self) {
        clean(ProcessRealm);
    }

    /// Sets the limit on the bytes that all threads together may hold in chunks and large
    /// blocks. `usize::MAX`, the initial value, means no limit.
    ///
    /// Before a request that would exceed the limit fails with [`AllocError`], the requesting
    /// thread frees its own empty chunks and the empty chunks of exited threads. Every other thread
    /// frees its own empty chunks when it next fills a chunk, so a later attempt may succeed. While
    /// another thread frees or purges chunks of the requesting thread (usually for 0.1 ms or less),
    /// the requesting thread cannot free those chunks. Its request may therefore fail although the
    /// blocks of those chunks are free. Lowering the limit does not free memory. A thread that
    /// handed over blocks without a limit may hold 2 MiB of empty chunks until another of its small
    /// chunks becomes empty, or until it has filled up to 64 more chunks.
    ///
    /// Most containers abort the process at a refusal, except in methods such as
    /// `Box::try_new_in` and `Vec::try_reserve`.
    ///
    /// A [`shrink`](OneRingAlloc::shrink) is never refused because of the limit: if it must move
    /// its block, the move may exceed the limit.
    #[inline]
    pub fn set_limit(&self, bytes: usize) {
        WORLD.account.set_limit(bytes);
    }

    /// Returns the statistics of all threads, by a walk over the chunks of all threads. The call
    /// may also free empty chunks of exited threads, which the result still counts.
    ///
    /// The result is exact while no thread runs an operation. Join the threads first:
    /// `std::thread::scope` may return before the destructors of their thread-locals have run.
    #[must_use]
    pub fn stats(&self) -> Stats {
        stats(ProcessRealm)
    }
}

ephemera_prim::impl_allocator! {
    // SAFETY: blocks are disjoint and valid until they are freed (H3), all values are the same
    // allocator, and no method unwinds.
    unsafe impl[] for OneRingAlloc
}
