//! Allocates, resizes and frees large blocks, which have no size class, and counts them for scopes.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::account::Limit;
use ephemera_prim::large;

use super::binding::{bind, with_heaps};
use super::books::Books;
use super::charge::Charge;
use super::last_resort::make_room_for_thread;
use super::state::Family;
use super::table::Heaps;
use super::this_thread::{books, own_pages};
use super::visit::{refill_beyond, visit};
use crate::class;

/// Frees the empty units of this table if `bytes` more would exceed the limit of the table's scope,
/// and the scope has not used up its trims (`Ledger::may_trim_for`).
///
/// # Safety
/// The calling thread holds the table's record.
unsafe fn trim_at_limit(heaps: Heaps<'static>, bytes: usize) {
    if heaps.first().ledger().is_some_and(|ledger| ledger.may_trim_for(bytes)) {
        // SAFETY: the caller holds the record.
        unsafe { heaps.trim() };
    }
}

/// Allocates the new block of a shrink after the ordinary allocation failed, usually because of the
/// limit. The new block may exceed the limit.
#[cold]
#[inline(never)]
pub(crate) fn allocate_beyond(family: &'static Family, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    if let Some(heap) = class::any(layout) {
        // SAFETY: the thread holds the record, and the family has a heap for each class.
        return with_heaps(family, heap, |heaps| unsafe { refill_beyond(heaps, heap, layout.size()) });
    }
    let block = large::allocate(&own_pages(), &books(family), layout, Limit::Lifted, false)?;
    // SAFETY: the block is new and came from pages. Each path that frees it takes its charge first.
    unsafe { Charge::of_table((family.cell)().table()).count_block(block, layout) };
    Ok(block)
}

/// Allocates a block that no unit serves. If that fails, frees empty units and tries again. On a
/// thread with a table, each call counts as a slow-path visit. Otherwise, a thread that allocates
/// only large blocks would never book the remote frees of its small blocks. On a thread without a
/// table, first tries to make one, unless the size is zero.
#[cold]
#[inline(never)]
pub(crate) fn allocate_large(
    family: &'static Family,
    layout: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let table = || (family.cell)().table();
    let heaps = table().or_else(|| {
        // Without a table, a thread that allocates only large blocks would always count them on the
        // shared account.
        if layout.size() != 0 {
            bind(family);
        }
        table()
    });
    if let Some(heaps) = heaps {
        // SAFETY: T2: the table in the thread's cell is on a record that the thread holds.
        unsafe { visit(heaps) };
        // SAFETY: T2: the table in the thread's cell is on a record that the thread holds.
        unsafe { trim_at_limit(heaps, layout.size()) };
    }
    let books = heaps.map_or_else(|| books(family), Heaps::books);
    let block = allocate_or_make_room(family, &own_pages(), books, layout, zeroed)?;
    // SAFETY: the block is new and came from pages. Each path that frees it takes its charge first.
    unsafe { Charge::of_table(heaps).count_block(block, layout) };
    Ok(block)
}

/// Allocates pages for a block. If that fails, makes room and tries once more.
#[inline]
pub(super) fn allocate_or_make_room(
    family: &'static Family,
    pages: &impl Allocator,
    books: Books<'static>,
    layout: Layout,
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let ask = || large::allocate(pages, &books, layout, Limit::Applies, zeroed);
    ask().or_else(|AllocError| {
        make_room_for_thread(family);
        ask()
    })
}

/// Frees a block that no unit serves. This function is not inlined, because it would add register
/// pressure to the fast path of other layouts.
///
/// # Safety
/// `block` is a live block of this layout. Unless its size is zero, it came from the operating
/// system's pages and is on the family's account.
#[cold]
#[inline(never)]
pub(crate) unsafe fn deallocate_large(family: &'static Family, block: NonNull<u8>, layout: Layout) {
    if layout.size() == 0 {
        return;
    }
    // SAFETY: the caller owns the block, which came from pages and is not of size zero.
    let charge = unsafe { Charge::take(block, layout) };
    // SAFETY: the block is live, came from pages and is on the family's account. `Charge::take`
    // removed its note (G6).
    unsafe { large::deallocate(&own_pages(), &books(family), block, layout) };
    charge.count_free(layout.size());
}

/// Grows a block that no unit serves. If that fails, frees empty units and tries again. If both
/// tries fail, the block is unchanged.
///
/// # Safety
/// The contract of `Allocator::grow` holds. The block came from the operating system's pages and is
/// on the family's account. Neither layout has units, and neither has size zero.
#[cold]
#[inline(never)]
pub(crate) unsafe fn grow_large(
    family: &'static Family,
    block: NonNull<u8>,
    layouts: (Layout, Layout),
    zeroed: bool,
) -> Result<NonNull<u8>, AllocError> {
    let (old, new) = layouts;
    let heaps = (family.cell)().table();
    if let Some(heaps) = heaps {
        // SAFETY: T2: the table in the thread's cell is on a record that the thread holds.
        unsafe { trim_at_limit(heaps, new.size() - old.size()) };
    }
    let (pages, books) = (own_pages(), books(family));
    // Take the note of the old address first, because after the block has moved, another thread may
    // have a block at that address.
    // SAFETY: the caller owns the block, which came from pages and is not of size zero.
    let before = unsafe { Charge::take(block, old) };
    // SAFETY: this function's contract includes that of `large::grow`, and `Charge::take` removed
    // the note (G6). If the call fails, the block is unchanged.
    let grow = || unsafe { large::grow(&pages, &books, block, layouts, zeroed) };
    let grown = grow().or_else(|AllocError| {
        make_room_for_thread(family);
        grow()
    });
    let now = Charge::of_table(heaps);
    match grown {
        Ok(grown) if before == now => {
            now.count_growth(new.size() - old.size());
            // SAFETY: the block is live with layout `new` and came from pages. Each path that frees
            // it takes its charge first.
            unsafe { now.put_back(grown, new) };
        }
        Ok(grown) => {
            before.count_free(old.size());
            // SAFETY: the block is live with layout `new` and came from pages. Each path that frees
            // it takes its charge first.
            unsafe { now.count_block(grown, new) };
        }
        // SAFETY: the block is unchanged, and each path that frees it takes its charge first.
        Err(AllocError) => unsafe { before.put_back(block, old) },
    }
    grown
}

/// Shrinks a block that no unit serves. If that fails, the block is unchanged.
///
/// # Safety
/// The contract of `Allocator::shrink` holds. The block came from the operating system's pages and
/// is on the family's account. Neither layout has units, and neither has size zero.
#[cold]
#[inline(never)]
pub(crate) unsafe fn shrink_large(
    family: &'static Family,
    block: NonNull<u8>,
    (old, new): (Layout, Layout),
) -> Result<NonNull<u8>, AllocError> {
    // Take the note of the old address first, because after the block has moved, another thread may
    // have a block at that address.
    // SAFETY: the caller owns the block, which came from pages and is not of size zero.
    let charge = unsafe { Charge::take(block, old) };
    // SAFETY: this function's contract includes that of `large::shrink`, and `Charge::take` removed
    // the note (G6).
    let shrunk = unsafe { large::shrink(&own_pages(), &books(family), block, (old, new)) };
    match shrunk {
        Ok(shrunk) => {
            charge.count_shrink(old.size() - new.size());
            // SAFETY: the block is live with layout `new` and came from pages. Each path that frees
            // it takes its charge first.
            unsafe { charge.put_back(shrunk, new) };
        }
        // SAFETY: the block is unchanged, and each path that frees it takes its charge first.
        Err(AllocError) => unsafe { charge.put_back(block, old) },
    }
    shrunk
}
