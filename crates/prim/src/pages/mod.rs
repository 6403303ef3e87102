//! Memory from the operating system: the backing allocator of heaps that serve a whole program.
//!
//! [`Pages`] implements the trait [`Allocator`]. It is meant for blocks of 32 KiB and more: a
//! smaller block takes 32 KiB of addresses. `Pages` does not call the global allocator (for an
//! exception, see the last paragraph), so the global allocator can be built on it.
//!
//! ```text
//!   size and alignment     block
//!   up to 1 MiB            a span: 32, 64, 128, 256, 512 or 1,024 KiB, aligned to its size
//!   beyond                 a mapping of its own, which grows by `mremap` if the system has it
//!
//!   superblock  | span | span | span | ...      one mapping of 8 to 64 spans of one size
//!   free       1      0      1               a bit for each span that nothing uses
//!   dirty      1      -      0               a bit for each span whose pages may hold old bytes
//! ```
//!
//! An allocation clears a bit of `free` with a compare-exchange, and a free sets the bit with a
//! fetch-or, so threads never wait for each other. After a fork, every word is usable in the child.
//! The child may lose memory that other threads were allocating, freeing or purging at the fork.
//!
//! # When memory leaves the cache
//!
//! Freed spans and mappings keep their pages, up to a bound: the larger of [`CACHE`] and an eighth
//! of the bytes in use. If the process allocates bytes again after they left the cache, the bound
//! rises by the number of these bytes, in total by up to [`CACHE_LEARNED`]. Each purge of a cached
//! span, and each unmapping of a cached mapping, lowers the rise by the length of the span or
//! mapping. A free that would exceed the bound purges its own span, or unmaps its own mapping. A
//! freed mapping is also unmapped if 16 others are cached. While the cache exceeds the bound, each
//! free also purges or unmaps up to two cached spans or mappings. A free that lowered the bound by
//! more than 64 KiB purges or unmaps up to one for each 32 KiB of this decrease. After every 64th
//! allocation or free, the process *looks* for unused memory. The look purges at most one cached
//! span, or unmaps at most one cached mapping, that no thread took during the last 16 looks.
//!
//! A superblock whose last used span is freed stays mapped if at least half of its spans are cached
//! and the cache is within its bound. The process checks this again after each purge of a span of
//! the superblock. Of the other superblocks without a used span, only the last one of each span
//! size stays mapped. [`purge`] returns all cached memory to the operating system at once.
//!
//! In addition, a thread that uses [`CachedPages`] keeps freed spans for itself: up to four of 64
//! KiB, two of 128 KiB and one of 256 KiB. The thread does not keep spans if [`set_cache`] allows
//! the process fewer bytes than these spans have in total. After every 64th allocation or free, the
//! process also looks at the spans of one thread. For each length that this thread has not used
//! since the last look at its spans, one span moves to the process's cache, or is purged if that
//! cache is full. Allocations and frees that a thread serves from its own spans do not count
//! towards these 64. The thread counts them separately for each length, and every 64th of one
//! length also causes a look.
//!
//! # Huge pages
//!
//! Where Linux gives huge pages to every program (the mode `always`), two rules limit the memory
//! that is resident around used spans. The first superblock of each span length has no huge pages,
//! so a small process stays small. The first purge in a superblock excludes huge pages for this
//! superblock until it is unmapped. Without this rule, the kernel may replace the pages around
//! purged ones by a huge page at any later time, and so make the purged bytes resident again.
//! [`set_huge_pages`] turns both rules off.
//!
//! `superblock` defines the words of a superblock, `directory` a group of 64 superblocks, and
//! `table` all superblocks of one span size. `map` finds the superblock of an address. `mapping`
//! serves larger blocks, `budget` bounds the cache, and `span_cache` keeps a thread's own spans.
//! `spans` uses all of these modules, and decides which memory leaves the cache. `os` makes the
//! system calls, `permanent` allocates memory that is never freed, `link` links values in such
//! memory, and [`notes`] keeps a pointer and a number for a block.
//!
//! On targets without these system calls or without 64-bit atomics, under Miri and under loom, the
//! system's heap serves all blocks. On these targets without the feature `std`, the global heap
//! serves them, so the global allocator cannot be built on `Pages`.

#[cfg(ephemera_pages)]
mod allocator;
mod bounds;
#[cfg(ephemera_pages)]
mod budget;
mod cached_pages;
#[cfg(ephemera_pages)]
mod directory;
#[cfg(not(ephemera_pages))]
mod fallback;
mod link;
#[cfg(ephemera_pages)]
mod map;
#[cfg(ephemera_pages)]
mod mapping;
#[cfg(all(not(ephemera_loom), target_has_atomic = "64", target_has_atomic = "ptr"))]
pub mod notes;
#[cfg(ephemera_pages)]
mod order;
#[cfg(ephemera_pages)]
mod os;
#[cfg(ephemera_pages)]
mod permanent;
#[cfg(ephemera_pages)]
mod span;
#[cfg(ephemera_pages)]
mod span_cache;
#[cfg(any(ephemera_pages, all(test, ephemera_loom)))]
pub(crate) mod span_place;
#[cfg(ephemera_pages)]
mod spans;
#[cfg(any(ephemera_pages, all(test, ephemera_loom)))]
#[cfg_attr(not(ephemera_pages), expect(dead_code, reason = "models use a few of the methods"))]
pub(crate) mod superblock;
#[cfg(ephemera_pages)]
mod table;

// In builds without system calls, `fallback` has the functions of these modules that this file
// calls.
#[cfg(not(ephemera_pages))]
use fallback::{self as budget, self as os, self as permanent, self as span_cache, self as spans};

pub use bounds::{CACHE, CACHE_LEARNED, SPAN_MIN};
pub use cached_pages::CachedPages;
#[cfg(not(ephemera_pages))]
pub use cached_pages::NoSpanCache as SpanCache;
#[cfg(all(ephemera_pages, target_os = "linux"))]
pub(crate) use os::fence_all_threads;
pub(crate) use os::now_ms;
#[cfg(ephemera_pages)]
pub use span_cache::SpanCache;

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::traits::{AllocError, Allocator};

/// A zero-sized allocator over pages of the operating system.
///
/// # Examples
///
/// ```
/// use core::alloc::Layout;
/// use ephemera_prim::pages::Pages;
/// use ephemera_prim::traits::Allocator;
///
/// let layout = Layout::from_size_align(64 << 10, 64 << 10)?;
/// let block = Pages.allocate_zeroed(layout).expect("memory");
/// // SAFETY: the block has just been allocated with this layout.
/// unsafe { Pages.deallocate(block.cast(), layout) };
/// # Ok::<(), core::alloc::LayoutError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pages;

// SAFETY: every method forwards to `CachedPages`. All values are the same allocator.
unsafe impl Allocator for Pages {
    crate::__forward_allocator!(|self| CachedPages::SHARED, Allocator);
}

/// Allocates a block of zeros that is never freed.
///
/// # Errors
/// Returns [`AllocError`] if there is no memory for the block.
pub fn permanent(layout: Layout) -> Result<NonNull<u8>, AllocError> {
    permanent::allocate(layout).ok_or(AllocError)
}

pub use link::{PermanentLink, permanent_value};
#[cfg(ephemera_pages)]
pub use order::SPAN_MAX;

/// Returns the length of the span that contains this address, if there is one. A span is aligned to
/// its length. If no thread owns that span, the answer may be out of date.
#[cfg(ephemera_pages)]
#[inline]
pub fn span_len(block: NonNull<u8>) -> Option<usize> {
    span::Span::order_at(block).map(order::Order::span)
}

/// Returns the pages of all freed blocks to the operating system, except the pages that the system
/// refuses to take. Where a page has more than 32 KiB, some spans are smaller than a page. Such a
/// span is returned only with its whole superblock, if no span of the superblock is used.
pub fn purge() {
    spans::purge();
}

/// Returns cached pages of the process to the operating system: about `bytes` bytes, or all that
/// the call finds if there are fewer. A program that will not soon need its freed memory again can
/// call this. Otherwise, unused pages leave the cache only as further allocations and frees happen.
pub fn shed(bytes: usize) {
    spans::shed_bytes(bytes);
}

/// Returns the last whole pages of a live block, which start at `start` or later, to the operating
/// system. `len` is the number of bytes from `start` to the end of the block's layout. The content
/// of these pages is unknown afterwards, even if the system refuses.
///
/// # Safety
/// The `len` bytes from `start` on are in a live block of [`Pages`]. No code needs the bytes from
/// `start` to the end of the block, and no thread accesses them during the call.
pub unsafe fn purge_tail(start: NonNull<u8>, len: usize) {
    // SAFETY: the bytes are in a live block, and the caller does not need their content.
    unsafe { spans::purge_tail(start, len) };
}

/// Sets the minimum of the bound on the bytes of freed blocks that stay resident, initially
/// [`CACHE`]. The call itself does not purge pages; later frees obey the new bound. If the process
/// allocates purged bytes again, the bound rises by up to four times `bytes`, or by up to
/// [`CACHE_LEARNED`] if `bytes` is [`CACHE`]. If `bytes` is less than 768 KiB, threads stop adding
/// freed spans to their own caches.
pub fn set_cache(bytes: usize) {
    budget::set_least(bytes);
}

/// Sets whether new superblocks and mappings ask for huge pages, where the operating system offers
/// them on request. The initial value is `false`. Huge pages save time in large heaps and cost
/// memory in small ones. While the value is `true`, purges do not exclude huge pages, so the system
/// may make purged memory resident again.
pub fn set_huge_pages(wanted: bool) {
    os::set_huge_pages(wanted);
}

/// The bytes that the process has obtained through this module. All are zero where the system's or
/// the global heap serves the blocks.
///
/// # Examples
///
/// ```
/// use ephemera_prim::pages;
///
/// pages::purge();
/// let usage = pages::usage();
/// assert_eq!(usage.bytes_cached, 0, "this program has freed no page since the purge");
/// assert!(usage.bytes_live <= usage.bytes_mapped);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageUsage {
    /// Bytes of blocks in use, rounded up to spans and mappings.
    pub bytes_live: usize,
    /// Bytes of freed blocks whose pages may be resident, including the spans that threads keep.
    pub bytes_cached: usize,
    /// Bytes of all mappings, resident or not. The map of addresses does not count.
    pub bytes_mapped: usize,
}

/// Returns the bytes that the process has obtained through this module.
pub fn usage() -> PageUsage {
    let (used, cached, mapped) = budget::now();
    // `used` includes the spans in the threads' own caches.
    let kept = span_cache::bytes();
    PageUsage { bytes_live: used.saturating_sub(kept), bytes_cached: cached + kept, bytes_mapped: mapped }
}

/// Makes a later system call of this module fail, for tests: with 1 the next call, with 2 the one
/// after it, with 0 none, and with `usize::MAX` all. Returns what remains of the previous number.
/// Each system call except advice about huge pages reduces the number by one, unless it is
/// `usize::MAX`. The result 0 means that the chosen call has failed, or that no call was chosen.
#[doc(hidden)]
pub fn refuse_call(number: usize) -> usize {
    os::refuse_call(number)
}

/// Makes this module treat pages as larger than they are, for tests. `bytes` is a power of two, and
/// at most 64 KiB.
#[doc(hidden)]
pub fn pretend_page_size(bytes: usize) {
    os::pretend_page_size(bytes);
}
