//! Grows and shrinks blocks: in place, or by a move to another block.
//!
//! The functions for blocks without a small class are not inlined, because they would add register
//! pressure to the fast paths of small classes.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;
use ephemera_prim::poison::unpoison;
use ephemera_prim::traits::BlockResult;

use super::route::ThisFamily;
use super::slots::{MaybeBlock, block_of, shrink_in_place, whole_slot};
use crate::class;
use crate::geometry::STRIDE_MAX;
use crate::threads;

impl ThisFamily {
    /// Grows a block, in place if both layouts have the same class. If `zeroed` is set, the bytes
    /// from `old.size()` to `new.size()` are zero afterwards.
    ///
    /// # Errors
    /// Returns `AllocError` if the limit would be exceeded, or if the operating system refuses the
    /// request. The old block is then unchanged.
    ///
    /// # Safety
    /// `block` is a live block of this allocator, `old` fits it, and `new.size()` is at least
    /// `old.size()`.
    #[inline]
    pub unsafe fn grow(self, block: NonNull<u8>, old: Layout, new: Layout, zeroed: bool) -> BlockResult {
        let slot = match (class::of(old), class::of(new)) {
            (Some(class), Some(same)) if class == same => {
                // SAFETY: the caller passes a live block of layout `old`. Both layouts have this
                // class, and the new size is not smaller.
                unsafe { grow_in_place(block, class, (old, new)) }
            }
            (None, None) if old.size() != 0 => {
                // SAFETY: the caller passes a live block of layout `old`, and the new size is not
                // smaller. The old size is not zero, and neither layout has a small class.
                let grown = unsafe { self.grow_medium(block, (old, new), zeroed) }?;
                return Ok(block_of(grown, new));
            }
            // SAFETY: the caller passes a live block, and the old size is the smaller one.
            _ => unsafe { self.relocate(block, (old, new), old.size()) }?,
        };
        if zeroed {
            // SAFETY: the block now has the new size.
            unsafe { zero_tail(slot, (old, new)) };
        }
        Ok(block_of(slot, new))
    }

    /// Shrinks a block, in place if both layouts have the same class. The limit never refuses a
    /// shrink (`shrink_at_the_limit`).
    ///
    /// # Errors
    /// Returns `AllocError` if the operating system refuses the request. The old block is then
    /// unchanged.
    ///
    /// # Safety
    /// `block` is a live block of this allocator, `old` fits it, and `new.size()` is at most
    /// `old.size()`.
    #[inline]
    pub unsafe fn shrink(self, block: NonNull<u8>, old: Layout, new: Layout) -> BlockResult {
        let slot = match (class::of(old), class::of(new)) {
            (Some(class), Some(same)) if class == same => {
                // SAFETY: the caller passes a live block of layout `old`, which has this class. The
                // new size is not larger.
                unsafe { shrink_in_place(block, class, (old, new)) }
            }
            // SAFETY: the caller passes a live block of layout `old`, and the new size is not
            // larger.
            _ => unsafe { self.shrink_elsewhere(block, (old, new)) }?,
        };
        Ok(block_of(slot, new))
    }

    /// Grows or shrinks a block, and returns its new address. If that fails, returns null and
    /// leaves the block unchanged.
    ///
    /// # Safety
    /// The contract of `GlobalAlloc::realloc` holds for this allocator, with `old` as the layout.
    #[inline]
    pub unsafe fn reallocate(self, block: NonNull<u8>, old: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the new size, rounded up to the alignment, does not
        // exceed `isize::MAX`. The alignment is the alignment of `old`.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, old.align()) };
        or_null(if new_size >= old.size() {
            // SAFETY: the caller passes a live block of layout `old`. The new size is not smaller.
            unsafe { self.grow(block, old, new, false) }
        } else {
            // SAFETY: the caller passes a live block of layout `old`. The new size is smaller.
            unsafe { self.shrink(block, old, new) }
        })
    }

    /// Shrinks a block whose two layouts do not have the same class, after
    /// [`relocate`](Self::relocate) failed, usually because of the limit.
    ///
    /// The block stays in its slot if both layouts have a class and three conditions hold:
    ///
    /// * The units of both classes have the same alignment.
    /// * The block is aligned like a slot of the new class.
    /// * The slots of the new class are not longer than the slots of the old class.
    ///
    /// The last two conditions ensure that the block can later grow or shrink in place within the
    /// new class. The slot then still belongs to the old class, and a free of the block finds the
    /// slot's heap through the unit's header, like a remote free. In all other cases, the block
    /// moves, even if the new block exceeds the limit.
    ///
    /// # Errors
    /// Returns `AllocError` if the operating system refuses the request. The old block is then
    /// unchanged.
    ///
    /// # Safety
    /// The contract of [`shrink`](Self::shrink) holds.
    #[cold]
    #[inline(never)]
    unsafe fn shrink_at_the_limit(self, block: NonNull<u8>, (old, new): (Layout, Layout)) -> MaybeBlock {
        if let (Some(class), Some(other)) = (class::any(old), class::any(new)) {
            let fits = class::unit_size(class) == class::unit_size(other)
                && (class::stride(other) <= class::stride(class) || weakened!("longer_class_stays"));
            // A later growth or shrink within the new class may request any alignment up to the
            // alignment of the slots of this class.
            let is_narrow = weakened!("alignment_of_one_layout");
            let slot_align = if is_narrow { new.align() } else { class::layout(other).align() };
            if fits && block.addr().get() % slot_align == 0 {
                // SAFETY: the caller passes a live block of layout `old`, which has this class.
                return Ok(unsafe { shrink_in_place(block, class, (old, new)) });
            }
        }
        let moved = threads::allocate_beyond(self.family, new)?;
        // SAFETY: the old block is live, and the new one is another live block. The new size is the
        // smaller one, so both blocks have at least `new.size()` bytes.
        unsafe { self.move_to(moved, (block, old), new.size()) };
        Ok(moved)
    }

    /// Grows a block whose two layouts have no small class. If `zeroed` is set, the new bytes are
    /// zero. If the allocation fails, the block is unchanged.
    ///
    /// # Safety
    /// The contract of [`grow`](Self::grow) holds. Neither layout has a small class, and `old` is
    /// not of size zero.
    #[cold]
    #[inline(never)]
    unsafe fn grow_medium(
        self,
        block: NonNull<u8>,
        (old, new): (Layout, Layout),
        zeroed: bool,
    ) -> MaybeBlock {
        if old.size() > STRIDE_MAX {
            // SAFETY: the caller passes a live block that is too large for a class, so the block
            // came from pages and is on the family's account. The new layout is not smaller. The
            // heaps come from this thread's cell.
            return unsafe { threads::grow_block(self.cell.heaps(), self.family, block, (old, new), zeroed) };
        }
        let Some(class) = class::medium(old) else {
            if class::medium(new).is_none() {
                // SAFETY: the caller passes a live block without a class, which came from pages and
                // is on the family's account. The new layout is not smaller and has no class
                // either.
                return unsafe { threads::grow_large(self.family, block, (old, new), zeroed) };
            }
            // SAFETY: the caller passes a live block of layout `old`, and the new size is not
            // smaller.
            return unsafe { self.move_and_grow(block, (old, new), zeroed) };
        };
        if class::medium(new) != Some(class) {
            // SAFETY: the caller passes a live block of layout `old`, and the new size is not
            // smaller.
            return unsafe { self.move_and_grow(block, (old, new), zeroed) };
        }
        // SAFETY: the caller passes a live block of layout `old`. Both layouts have this class, and
        // the new size is not smaller.
        let slot = unsafe { grow_in_place(block, class, (old, new)) };
        if zeroed {
            // SAFETY: the block now has the new size.
            unsafe { zero_tail(slot, (old, new)) };
        }
        Ok(slot)
    }

    /// Moves a block to a larger one: to another class, from a class to pages, or from pages to a
    /// class. If `zeroed` is set, the new bytes are zero. If the allocation fails, the old block is
    /// unchanged.
    ///
    /// # Safety
    /// The contract of [`grow`](Self::grow) holds.
    #[inline(never)]
    unsafe fn move_and_grow(
        self,
        block: NonNull<u8>,
        (old, new): (Layout, Layout),
        zeroed: bool,
    ) -> MaybeBlock {
        let slot = if class::any(new).is_some() {
            self.allocate(new)?.cast()
        } else {
            // SAFETY: the thread's cell names these heaps, and the layout has no class.
            unsafe { threads::allocate_block(self.cell.heaps(), self.family, new, true) }?
        };
        // SAFETY: both blocks are live and have at least `old.size()` bytes.
        unsafe { self.move_to(slot, (block, old), old.size()) };
        if zeroed {
            // SAFETY: the block now has the new size.
            unsafe { zero_tail(slot, (old, new)) };
        }
        Ok(slot)
    }

    /// Shrinks a block whose two layouts do not have the same small class. If the allocation fails,
    /// the block is unchanged.
    ///
    /// # Safety
    /// The contract of [`shrink`](Self::shrink) holds.
    #[cold]
    #[inline(never)]
    unsafe fn shrink_elsewhere(self, block: NonNull<u8>, (old, new): (Layout, Layout)) -> MaybeBlock {
        match (class::any(old), class::any(new)) {
            // SAFETY: the caller passes a live block without a class. Neither size is zero, so the
            // block came from pages and is on the family's account. The new layout is not larger
            // and has no class either.
            (None, None) if new.size() != 0 => unsafe {
                threads::shrink_large(self.family, block, (old, new))
            },
            (Some(class), Some(same)) if class == same => {
                // SAFETY: the caller passes a live block of layout `old`, which has this class. The
                // new size is not larger.
                Ok(unsafe { shrink_in_place(block, class, (old, new)) })
            }
            // SAFETY: the caller passes a live block, and the new size is the smaller one.
            _ => unsafe { self.relocate(block, (old, new), new.size()) }.or_else(|AllocError| {
                // SAFETY: the caller passes a live block of layout `old`, which did not move, and
                // the new size is not larger.
                unsafe { self.shrink_at_the_limit(block, (old, new)) }
            }),
        }
    }

    /// Allocates a block, copies the first `keep` bytes of the old block to it, and frees the old
    /// block. If the allocation fails, the old block is unchanged.
    ///
    /// # Safety
    /// `block` is a live block of this allocator, and `old` fits it. `keep` is at most `old.size()`
    /// and at most `new.size()`.
    #[inline(never)]
    unsafe fn relocate(self, block: NonNull<u8>, (old, new): (Layout, Layout), keep: usize) -> MaybeBlock {
        let moved = self.allocate(new)?.cast();
        // SAFETY: both blocks are live and have at least `keep` bytes.
        unsafe { self.move_to(moved, (block, old), keep) };
        Ok(moved)
    }

    /// Copies the first `keep` bytes of `block` to the new block `moved`, and frees `block`.
    ///
    /// # Safety
    /// `block` is a live block of this allocator, and `old` fits it. `moved` is another live block.
    /// Both have at least `keep` bytes. Nothing uses `block` after this call.
    #[inline(always)]
    unsafe fn move_to(self, moved: NonNull<u8>, (block, old): (NonNull<u8>, Layout), keep: usize) {
        // SAFETY: both blocks have `keep` bytes, and live blocks do not overlap.
        unsafe { moved.copy_from_nonoverlapping(block, keep) };
        // SAFETY: `block` is a live block of this allocator, `old` fits it, and nothing uses it
        // again.
        unsafe { self.deallocate(block, old) };
    }
}

/// Returns the address of a block, or null for an error.
#[inline]
#[must_use]
pub fn or_null(block: BlockResult) -> *mut u8 {
    match block {
        Ok(block) => block.as_ptr().cast(),
        Err(AllocError) => ptr::null_mut(),
    }
}

/// Grows a block within its slot: unpoisons the bytes up to its new size. Returns a pointer to the
/// block with access to its whole slot.
///
/// # Safety
/// `block` is a live block of layout `old`. Both layouts have this class, and `new.size()` is at
/// least `old.size()`.
#[inline(always)]
unsafe fn grow_in_place(block: NonNull<u8>, class: usize, (old, new): (Layout, Layout)) -> NonNull<u8> {
    // SAFETY: the block is live, and its layout has this class.
    let slot = unsafe { whole_slot(block, class) };
    // SAFETY: the old block ends within its slot.
    let tail = unsafe { slot.add(old.size()) };
    // SAFETY: the slot has room for every layout of the class (`shrink_at_the_limit`), and no value
    // uses these bytes yet.
    unsafe { unpoison(tail, new.size() - old.size()) };
    slot
}

/// Sets the bytes from `old.size()` to `new.size()` to zero.
///
/// # Safety
/// `block` is a live block of layout `new`, which is not smaller than `old`.
#[inline(always)]
unsafe fn zero_tail(block: NonNull<u8>, (old, new): (Layout, Layout)) {
    // SAFETY: the block has at least `old.size()` bytes.
    let tail = unsafe { block.add(old.size()) };
    // SAFETY: the block ends at `new.size()`.
    unsafe { tail.write_bytes(0, new.size() - old.size()) };
}
