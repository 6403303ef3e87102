//! The spans that a thread keeps for its next large blocks, and the functions that allocate, free
//! and grow blocks with these spans.
//!
//! The spans are on the thread's own record, even while the thread is in a scope. The functions use
//! them only for threads outside of scopes, and only for blocks that do not count for a scope. In
//! all other cases, they call the functions of `large`.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::account::Account;
use ephemera_prim::large;
use ephemera_prim::pages::{CachedPages, Pages, notes};

use super::cell::NOTHING;
use super::large::{allocate_large, allocate_or_make_room, deallocate_large, grow_large};
use super::state::Family;
use super::table::Heaps;
use super::visit::visit;

/// Returns the process's pages with this thread's own cache of spans. Returns `None` if the thread
/// has no table or is in a scope.
///
/// # Safety
/// `heaps` is the value of this thread's cell of the family.
#[inline]
unsafe fn pages_outside_scopes(heaps: Heaps<'static>) -> Option<CachedPages> {
    if ptr::eq(heaps.as_ptr(), NOTHING) {
        return None;
    }
    let data = heaps.first().record().data();
    if data.ledger().is_some() {
        return None;
    }
    // SAFETY: T2: the thread holds the table's record, which belongs to no scope, so it is the
    // thread's own record. The value does not leave the calling function.
    Some(unsafe { CachedPages::new(Some(&data.spans)) })
}

/// Grows a large block in its span, if the span has room, the limit allows the growth, the thread
/// is in no scope, and the block counts for none. Returns whether the block grew. If it did not,
/// the block is unchanged.
///
/// # Safety
/// `block` is a live block of layout `old`, from the process's pages and on the family's account.
/// `old` is not of size zero, and `new.size()` is at least `old.size()`. `heaps` is the value of
/// this thread's cell of the family.
#[inline]
unsafe fn grow_in_span(
    heaps: Heaps<'static>,
    family: &'static Family,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
) -> bool {
    // SAFETY: the caller passes the heaps that this thread's cell names.
    let outside = unsafe { pages_outside_scopes(heaps) }.is_some();
    // SAFETY: the caller passes a live block of pages. Its size is not zero.
    if !outside || unsafe { notes::has(block, old) } {
        return false;
    }
    // SAFETY: the caller passes a live block of pages. Its size is not zero.
    if !unsafe { CachedPages::has_room(block, new) } {
        return false;
    }
    let more = new.size() - old.size();
    if !family.account().reserve(more) {
        return false;
    }
    heaps.books().large(0, more, true);
    let (last, now) = (old.size() - 1, new.size() - 1);
    // Only a growth beyond a power of two uses up the block's room. The highest set bits of `last`
    // and `now` then differ.
    if last ^ now > last & now {
        // SAFETY: the caller passes the heaps that this thread's cell names.
        unsafe { note_growth(heaps, (old, new)) };
    }
    true
}

/// Notes that a block grew beyond a power of two in its span. Finds the thread's pages again,
/// because the caller would need registers to keep them.
///
/// # Safety
/// `heaps` is the value of this thread's cell of the family.
#[cold]
#[inline(never)]
unsafe fn note_growth(heaps: Heaps<'static>, (old, new): (Layout, Layout)) {
    // SAFETY: the caller passes the heaps that this thread's cell names.
    if let Some(pages) = unsafe { pages_outside_scopes(heaps) } {
        pages.note_growth(old, new);
    }
}

/// Allocates a block that no unit serves, from the thread's own spans if possible. Calls
/// [`allocate_large`] if the thread has no table or is in a scope. `grows` says whether the block
/// replaces a smaller one, as in [`CachedPages::take`].
///
/// # Safety
/// `heaps` is the value of this thread's cell of the family.
#[cold]
#[inline(never)]
pub(crate) unsafe fn allocate_block(
    heaps: Heaps<'static>,
    family: &'static Family,
    layout: Layout,
    grows: bool,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the caller passes the heaps that this thread's cell names.
    let Some(pages) = (unsafe { pages_outside_scopes(heaps) }) else {
        return allocate_large(family, layout, false);
    };
    // SAFETY: T2: the thread holds the record of the table that its cell names.
    unsafe { visit(heaps) };
    let Some(block) = pages.take(layout, grows) else {
        return allocate_or_make_room(family, &Pages, heaps.books(), layout, false);
    };
    if family.account().reserve(layout.size()) {
        heaps.books().large(1, layout.size(), true);
        return Ok(block);
    }
    // SAFETY: `take` returned the block for this layout, and nothing uses it.
    unsafe { pages.deallocate(block, layout) };
    allocate_large(family, layout, false)
}

/// Frees a block that no unit serves, like [`deallocate_large`].
///
/// # Safety
/// `block` is a live block of this layout. Unless its size is zero, it came from the process's
/// pages and is on the family's account. `heaps` is the value of this thread's cell of the family.
#[cold]
#[inline(never)]
pub(crate) unsafe fn deallocate_block(
    heaps: Heaps<'static>,
    family: &'static Family,
    block: NonNull<u8>,
    layout: Layout,
) {
    // SAFETY: the caller passes the heaps that this thread's cell names.
    let pages = unsafe { pages_outside_scopes(heaps) };
    // SAFETY: the size is not zero, so the caller passes a live block of the process's pages.
    let Some(pages) = pages.filter(|_| layout.size() == 0 || !unsafe { notes::has(block, layout) }) else {
        // SAFETY: this function's contract includes that of `deallocate_large`.
        return unsafe { deallocate_large(family, block, layout) };
    };
    // SAFETY: the caller passes a live block of this layout, and gives it up.
    if unsafe { pages.keep(block, layout) } {
        heaps.books().large(1, layout.size(), false);
        return family.account().release(layout.size());
    }
    // SAFETY: the caller passes a live block of this layout, which is on the family's account.
    unsafe { large::deallocate(&Pages, &heaps.books(), block, layout) };
}

/// Grows a block that no unit serves, like [`grow_large`].
///
/// # Safety
/// The contract of [`grow_large`] holds. `heaps` is the value of this thread's cell of the family.
#[cold]
#[inline(never)]
pub(crate) unsafe fn grow_block(
    heaps: Heaps<'static>,
    family: &'static Family,
    block: NonNull<u8>,
    layouts: (Layout, Layout),
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the caller passes a live block of the old layout, which came from pages and is on the
    // family's account. Neither size is zero, and the new size is not smaller. The caller passes
    // the heaps that this thread's cell names.
    if !zeroed && unsafe { grow_in_span(heaps, family, block, layouts) } {
        return Ok(block);
    }
    // SAFETY: this function has the same contract.
    unsafe { grow_large(family, block, layouts, zeroed) }
}
