//! Implements the allocator trait with spans and mappings.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::order::Order;
use super::span::Span;
use super::{CachedPages, spans};
use crate::large::dangling;
use crate::traits::{AllocError, Allocator, BlockResult};

// SAFETY: a span (G1, G5) or mapping has one owner until it is freed. All values are the same
// allocator, and no method unwinds.
unsafe impl Allocator for CachedPages {
    /// Returns a dangling address for a block of size zero.
    #[inline]
    fn allocate(&self, layout: Layout) -> BlockResult {
        let block = match self.take(layout, false) {
            Some(block) => block,
            None => allocate_shared(layout)?,
        };
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Does not zero pages that are known to be zero. Prefers to zero a span of the thread's own
    /// cache, because that takes less time than the page faults of a fresh span.
    fn allocate_zeroed(&self, layout: Layout) -> BlockResult {
        if layout.size() == 0 {
            return self.allocate(layout);
        }
        let (block, zero) = match self.take(layout, false) {
            Some(block) => (block, false),
            None => spans::allocate(layout, true).ok_or(AllocError)?,
        };
        if !zero {
            // SAFETY: the block was just allocated for `layout`, so it has `layout.size()` bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller passes a live block of this layout and gives it up.
        if !unsafe { self.keep(block, layout) } {
            // SAFETY: the caller gives up a block of this layout, and `keep` left it live.
            unsafe { deallocate_shared(block, layout) };
        }
    }

    /// Grows the block inside its span, resizes its mapping (which may move), or copies the block.
    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> BlockResult {
        if old.size() != 0 && spans::has_room(block, new) {
            self.note_growth(old, new);
            return Ok(NonNull::slice_from_raw_parts(block, new.size()));
        }
        // SAFETY: the caller passes a live block of layout `old`; `new` is not smaller.
        Ok(unsafe { self.grow_in_place_or_move(block, old, new, false) }?.0)
    }

    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> BlockResult {
        let (grown, known) = if old.size() != 0 && spans::has_room(block, new) {
            self.note_growth(old, new);
            (NonNull::slice_from_raw_parts(block, new.size()), new.size())
        } else {
            // SAFETY: the caller passes a live block of layout `old`; `new` is not smaller.
            unsafe { self.grow_in_place_or_move(block, old, new, true) }?
        };
        let unknown = known.min(new.size()).saturating_sub(old.size());
        // SAFETY: the grown block has `new.size()` bytes, and the old size is not larger.
        let tail = unsafe { grown.cast::<u8>().add(old.size()) };
        // SAFETY: the `unknown` bytes from `tail` on are in the grown block.
        unsafe { tail.write_bytes(0, unknown) };
        Ok(grown)
    }

    /// Frees the block if `new` has size zero. Moves it to a smaller span, or from a mapping to a
    /// span, if `new` fits into that span and there is memory for the span. Otherwise shrinks the
    /// block in place, or moves it if that is impossible.
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> BlockResult {
        if old.size() == 0 || new.size() == 0 {
            // SAFETY: the caller gives up a live block of layout `old`.
            unsafe { self.deallocate(block, old) };
            return Ok(NonNull::slice_from_raw_parts(dangling(new), 0));
        }
        let better_moved = if spans::better_moved(block, new) { self.allocate(new).ok() } else { None };
        let moved = match better_moved {
            Some(moved) => moved,
            // SAFETY: the caller passes a live block of layout `old`. `new` is not larger and not
            // of size zero.
            None if unsafe { spans::shrink(block, old, new) } => {
                return Ok(NonNull::slice_from_raw_parts(block, new.size()));
            }
            None => self.allocate(new)?,
        };
        // SAFETY: both blocks are live and have at least `new.size()` bytes. The caller gives up
        // `block`.
        unsafe { self.move_to(moved.cast(), block, old, new.size()) };
        Ok(moved)
    }
}

/// Allocates a block and bypasses the thread's own cache.
#[inline(never)]
fn allocate_shared(layout: Layout) -> Result<NonNull<u8>, AllocError> {
    if layout.size() == 0 {
        return Ok(dangling(layout));
    }
    Ok(spans::allocate(layout, false).ok_or(AllocError)?.0)
}

/// Frees a block and bypasses the thread's own cache.
///
/// # Safety
/// `block` is a live block of this allocator with this layout, and nothing uses it any more.
#[inline(never)]
unsafe fn deallocate_shared(block: NonNull<u8>, layout: Layout) {
    if layout.size() != 0 {
        // SAFETY: the caller gives up a live block of this layout.
        unsafe { spans::free(block, layout) };
    }
}

impl CachedPages {
    /// Allocates a block from the thread's own cache. Returns `None` if there is no cache, if it
    /// does not contain a span for the block, or if the block has size zero.
    ///
    /// If `grows`, the block replaces a smaller one, so it is likely to grow again. If the cache
    /// contains a span of twice the necessary length, the block may then get that span, so that the
    /// next growth does not move the block.
    #[inline]
    #[must_use]
    pub fn take(&self, layout: Layout, grows: bool) -> Option<NonNull<u8>> {
        let cache = self.cache.filter(|_| layout.size() != 0)?;
        let order = Order::of(layout)?;
        // SAFETY: the cache belongs to the calling thread (`CachedPages::new`).
        let roomy = if grows { unsafe { cache.take_room(order) } } else { None };
        // SAFETY: the cache belongs to the calling thread (`CachedPages::new`).
        let (span, look) = roomy.or_else(|| unsafe { cache.take(order) })?;
        if look {
            spans::shed_one();
        }
        Some(span)
    }

    /// Frees a block into the thread's own cache. Returns `false`, and leaves the block live, if
    /// the cache does not take it.
    ///
    /// # Safety
    /// `block` is a live block of this allocator with this layout. If this returns `true`, nothing
    /// uses the block afterwards.
    #[inline]
    #[must_use]
    pub unsafe fn keep(&self, block: NonNull<u8>, layout: Layout) -> bool {
        let Some(cache) = self.cache.filter(|_| layout.size() != 0) else { return false };
        let Some(order) = Span::order_at(block) else { return false };
        if Order::of(layout).is_some_and(|needed| needed.index() < order.index()) {
            // SAFETY: the cache belongs to the calling thread (`CachedPages::new`).
            unsafe { cache.end_room() };
        }
        // SAFETY: the cache belongs to the calling thread (`CachedPages::new`). The block is the
        // start of its span, which the thread gives up.
        let Some(look) = (unsafe { cache.keep(order, block) }) else { return false };
        if look {
            spans::shed_one();
        }
        true
    }

    /// Returns whether a block can grow to a layout inside its span. Returns `false` for a block
    /// with its own mapping.
    ///
    /// # Safety
    /// `block` is a live block of this allocator, and not of size zero.
    #[inline]
    pub unsafe fn has_room(block: NonNull<u8>, new: Layout) -> bool {
        spans::has_room(block, new)
    }

    /// Notes that a block grew inside its span. If the new layout needs a longer span than the old
    /// one, the block has used its room.
    pub fn note_growth(&self, old: Layout, new: Layout) {
        let (Some(cache), Some(before), Some(now)) = (self.cache, Order::of(old), Order::of(new)) else {
            return;
        };
        if before.index() < now.index() {
            // SAFETY: the cache belongs to the calling thread (`CachedPages::new`).
            unsafe { cache.end_room() };
        }
    }

    /// Grows a block. Returns the block, and the offset from which on all bytes are zero if
    /// `zeroed`. Fails, and leaves the block live, if there is no memory.
    ///
    /// # Safety
    /// `block` is a live block of this allocator with layout `old`, and `new` is not smaller.
    #[cold]
    #[inline(never)]
    unsafe fn grow_in_place_or_move(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        zeroed: bool,
    ) -> Result<(NonNull<[u8]>, usize), AllocError> {
        if old.size() != 0 {
            // SAFETY: the caller passes a live block of layout `old`; `new` is not smaller.
            if let Some((grown, known)) = unsafe { spans::grow(block, old, new) } {
                return Ok((NonNull::slice_from_raw_parts(grown, new.size()), known));
            }
        }
        let roomy = if zeroed { None } else { self.take(new, true) };
        let moved = match roomy {
            Some(block) => NonNull::slice_from_raw_parts(block, new.size()),
            None if zeroed => self.allocate_zeroed(new)?,
            None => self.allocate(new)?,
        };
        // SAFETY: both blocks are live and have at least `old.size()` bytes. The caller gives up
        // `block`.
        unsafe { self.move_to(moved.cast(), block, old, old.size()) };
        Ok((moved, old.size()))
    }

    /// Copies `keep` bytes of `block` to `moved`, and frees `block`.
    ///
    /// # Safety
    /// `block` is a live block of this allocator with layout `old`, and nothing uses it afterwards.
    /// `moved` is another live block, and both have `keep` bytes.
    unsafe fn move_to(&self, moved: NonNull<u8>, block: NonNull<u8>, old: Layout, keep: usize) {
        // SAFETY: live blocks do not overlap, and both have `keep` bytes.
        unsafe { moved.copy_from_nonoverlapping(block, keep) };
        // SAFETY: the block is live and is not used again.
        unsafe { self.deallocate(block, old) };
    }
}
