//! Allocates and frees blocks, and finds the size of a block from its address.
//!
//! | block | its size |
//! |---|---|
//! | has a class | the stride of its unit's slots |
//! | up to 1 MiB | the length of its span |
//! | larger | in a header, in the page in front of the block |
//! | of the reserve | a constant: all its blocks have one size |
//!
//! # Invariant
//!
//! * **C1** A block is allocated with exactly the layout that [`find`] returns for it, except that
//!   a slot may have a smaller size and a larger alignment. Every free therefore passes a layout of
//!   the block's class to the allocator.

use core::alloc::Layout;
use core::ptr::NonNull;

use ephemera_prim::raw::{base_addr, header_of};
use ephemera_prim::{local, pages};
use typed_pool::__private as pools;

use crate::heap::Heap;
use crate::live::{self, MIN_ALIGN};
use crate::page_header::{self, PAGE};
use crate::reserve;

/// The alignment in the layout of a whole span, in bytes. No class has this alignment.
const SPAN_ALIGN: usize = 8 << 10;

/// A block as the allocator sees it: its start and its layout.
#[derive(Clone, Copy)]
struct Found {
    start: NonNull<u8>,
    layout: Layout,
    /// The offset of the caller's block from `start`, in bytes.
    offset: usize,
}

/// Allocates a block. Returns `None` if there is no memory, or if no layout has this size.
///
/// This function is inlined into each function that calls it, so an alignment that is a constant
/// there is a constant here too.
#[inline(always)]
pub(crate) fn allocate(size: usize, align: usize, zeroed: bool) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(size.max(1), align.max(MIN_ALIGN)).ok()?;
    let block =
        if pools::class_of(layout).is_some() { ask(layout, zeroed) } else { allocate_large(layout, zeroed) };
    match block {
        Some(block) if live::enter(block, None) => Some(block),
        block => without_memory(block, layout),
    }
}

/// The size of the largest block with a class, in bytes.
const QUICK_MAX: usize = 32 << 10;

/// The class of each size that is a multiple of [`MIN_ALIGN`], from 0 to [`QUICK_MAX`].
const QUICK: [u8; QUICK_MAX / MIN_ALIGN + 1] = {
    let mut classes = [0; QUICK_MAX / MIN_ALIGN + 1];
    let mut at = 0;
    while at < classes.len() {
        let size = if at == 0 { MIN_ALIGN } else { at * MIN_ALIGN };
        let Ok(layout) = Layout::from_size_align(size, MIN_ALIGN) else { panic!("a layout") };
        let Some(class) = pools::class_of(layout) else { panic!("a class") };
        classes[at] = class as u8;
        at += 1;
    }
    classes
};

/// Allocates a slot on the fast path of the thread's heap. Returns `None` if no class serves this
/// size, if only the slow path can allocate a slot, or if there is no memory for the block's bit.
#[inline]
pub(crate) fn allocate_quickly(size: usize) -> Option<NonNull<u8>> {
    if size > QUICK_MAX {
        return None;
    }
    let class = QUICK[size.div_ceil(MIN_ALIGN)];
    // SAFETY: the cell belongs to this allocator's family, and `QUICK` holds the class of this size
    // with the alignment `MIN_ALIGN`.
    let block = unsafe { pools::take_from_front(Heap::__cell(), class as usize, size) }?;
    if live::enter(block, None) {
        return Some(block);
    }
    // SAFETY: the block is live, and nothing uses it.
    unsafe { release(block) };
    None
}

/// Frees the block and returns `true` if it is a slot of a unit that this thread owns and the free
/// needs no slow path. Otherwise returns `false` without freeing anything. The caller must then
/// call [`free`], unless the pointer is null.
///
/// # Safety
/// `block` is null or a live block, and nothing uses it after a call that returns `true`.
#[inline]
pub(crate) unsafe fn free_quickly(block: *mut u8) -> bool {
    let Some(block) = NonNull::new(block).filter(|block| live::is_live(*block)) else { return false };
    // SAFETY: the caller passes a live block.
    let Some(unit) = (unsafe { unit_of(block) }) else { return false };
    // SAFETY: `unit_of` returned the unit that contains the caller's block, which is a live slot.
    if unsafe { pools::stride_of_slot(block, unit) }.is_none() {
        return false;
    }
    // SAFETY: the block is a live slot of this unit (C1), and has room for a link. The caller does
    // not use it after a call that returns `true`.
    let is_free = unsafe { pools::give_to_own_unit(Heap::__cell(), unit, block) };
    // The slot is already free. Only this thread can allocate it again, so `leave` cannot clear
    // the bit of a later block.
    is_free && live::leave(block)
}

/// Handles a request that failed for lack of memory. If `unnoted` is a block, there was memory for
/// the block but not for its bit in the table of live blocks, so this function frees the block.
/// Returns a block of the reserve if one is free and the request comes from the C library while it
/// registers the thread's exit guard. Otherwise returns `None`.
#[cold]
fn without_memory(unnoted: Option<NonNull<u8>>, layout: Layout) -> Option<NonNull<u8>> {
    if let Some(block) = unnoted {
        // SAFETY: the block is live, and nothing uses it.
        unsafe { release(block) };
    }
    let is_needed = local::is_registering() && layout.size() <= reserve::SIZE && layout.align() <= MIN_ALIGN;
    if is_needed { reserve::take() } else { None }
}

#[inline]
fn ask(layout: Layout, zeroed: bool) -> Option<NonNull<u8>> {
    let block = if zeroed { Heap.allocate_zeroed(layout) } else { Heap.allocate(layout) };
    Some(block.ok()?.cast())
}

/// Allocates a block without a class: a whole span, or a mapping with a header.
#[cold]
fn allocate_large(layout: Layout, zeroed: bool) -> Option<NonNull<u8>> {
    let need = layout.size().max(layout.align());
    if need <= pages::SPAN_MAX {
        return ask(span_layout(need)?, zeroed);
    }
    // The offset is also the alignment of the mapping. It is no larger than necessary, because a
    // mapping with an alignment above a page cannot move when it grows.
    let offset = layout.align().max(PAGE);
    let whole = Layout::from_size_align(layout.size().checked_add(offset)?, offset).ok()?;
    let start = ask(whole, zeroed)?;
    // SAFETY: the offset is less than the size of the mapping.
    let block = unsafe { start.add(offset) };
    // SAFETY: the block is aligned to a page, and the page in front of it belongs to the mapping.
    unsafe { page_header::write(block, whole, offset) };
    Some(block)
}

/// Returns the layout of the whole span for this number of bytes.
fn span_layout(need: usize) -> Option<Layout> {
    Layout::from_size_align(need.next_power_of_two().max(pages::SPAN_MIN), SPAN_ALIGN).ok()
}

/// Returns the unit that contains a block, if the block is a slot.
///
/// # Safety
/// `block` is a live block.
#[inline]
unsafe fn unit_of(block: NonNull<u8>) -> Option<NonNull<u8>> {
    let len = pages::span_len(block)?;
    if base_addr(block, len) == block.addr().get() {
        return None;
    }
    // SAFETY: a live block that does not start its span is a slot (C1). Its unit was exposed, fills
    // the span, and is not freed before the slot.
    Some(unsafe { header_of::<u8>(block, len) })
}

/// Returns the layout of a block if it is a slot. Ends the process if a unit contains the address
/// and no slot starts there.
///
/// # Safety
/// `block` is a live block.
#[inline]
unsafe fn slot_layout(block: NonNull<u8>) -> Option<Layout> {
    // SAFETY: the caller passes a live block.
    let unit = unsafe { unit_of(block) }?;
    // SAFETY: `unit_of` returned the unit that contains the caller's block, which is a live slot.
    let Some(stride) = (unsafe { pools::stride_of_slot(block, unit) }) else { not_a_block() };
    // SAFETY: the alignment is a power of two, and a stride is far below the maximum size of a
    // layout.
    Some(unsafe { Layout::from_size_align_unchecked(stride, MIN_ALIGN) })
}

/// Returns the start, the layout and the offset of a block. Ends the process if it detects that
/// `block` is not a live block.
///
/// # Safety
/// `block` is a live block.
unsafe fn find(block: NonNull<u8>) -> Found {
    // SAFETY: the caller passes a live block.
    if let Some(layout) = unsafe { slot_layout(block) } {
        return Found { start: block, layout, offset: 0 };
    }
    if let Some(layout) = pages::span_len(block).and_then(span_layout) {
        return Found { start: block, layout, offset: 0 };
    }
    if reserve::has(block) {
        if !reserve::is_live(block) {
            not_a_block();
        }
        return Found { start: block, layout: reserve::LAYOUT, offset: 0 };
    }
    // SAFETY: a live block that is neither in a span nor in the reserve has a header in the page in
    // front of it.
    let Some((layout, offset)) = (unsafe { page_header::read(block) }) else { not_a_block() };
    // SAFETY: the block lies at this offset in its mapping.
    Found { start: unsafe { block.sub(offset) }, layout, offset }
}

/// Reports a pointer that is not a live block, and ends the process.
#[cold]
fn not_a_block() -> ! {
    const MESSAGE: &str =
        "ephemera-c: a freed or resized pointer is not a block of this allocator, or was already freed\n";
    // SAFETY: the call reads only this constant text. A failed write is ignored, because the
    // process ends next.
    let _ = unsafe { libc::write(2, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
    // SAFETY: the function has no preconditions.
    unsafe { libc::abort() }
}

/// With debug assertions, ends the process if no live block starts at this address.
#[inline]
fn check(block: NonNull<u8>) {
    if !live::is_live(block) && !reserve::is_live(block) {
        not_a_block();
    }
}

/// Frees a block.
///
/// # Safety
/// `block` is a live block, and nothing uses it after this call.
#[inline]
pub(crate) unsafe fn free(block: NonNull<u8>) {
    if !live::leave(block) && !reserve::is_live(block) {
        not_a_block();
    }
    // SAFETY: the caller passes a live block, which nothing uses after this call.
    unsafe { release(block) };
}

/// Frees a block that the table of live blocks does not contain any more, or never did.
///
/// # Safety
/// `block` is a live block, and nothing uses it after this call.
#[inline]
unsafe fn release(block: NonNull<u8>) {
    // SAFETY: the caller passes a live block.
    match unsafe { slot_layout(block) } {
        // SAFETY: the block is live and has this layout (C1).
        Some(layout) => unsafe { Heap.deallocate(block, layout) },
        // SAFETY: the caller passes a live block, which nothing uses after this call.
        None => unsafe { release_other(block) },
    }
}

/// Frees a block that is not a slot, for [`release`].
///
/// # Safety
/// `block` is a live block, and nothing uses it after this call.
#[cold]
unsafe fn release_other(block: NonNull<u8>) {
    // SAFETY: the caller passes a live block.
    let found = unsafe { find(block) };
    if found.offset != 0 {
        // SAFETY: the caller passes a live block. It has a header, because its offset is not zero.
        unsafe { page_header::clear(block) };
    }
    if found.layout.align() == reserve::LAYOUT.align() {
        if !reserve::give(block) {
            not_a_block();
        }
        return;
    }
    // SAFETY: the block is live and has this layout (C1).
    unsafe { Heap.deallocate(found.start, found.layout) };
}

/// Returns the number of bytes of a block that the program may use.
///
/// # Safety
/// `block` is a live block.
pub(crate) unsafe fn usable(block: NonNull<u8>) -> usize {
    check(block);
    // SAFETY: the caller passes a live block.
    let found = unsafe { find(block) };
    found.layout.size() - found.offset
}

/// Resizes a block. A block without a header stays in place if the new size fits and is at least
/// half of the usable size. A mapping of page alignment that stays above 1 MiB is resized and may
/// move. Any other block is copied. A block that shrinks stays as it is if there is no memory for
/// the change.
///
/// Returns `None`, and leaves the block as it is, if there is no memory for a larger block.
///
/// # Safety
/// `block` is a live block. If the result is another block, the caller does not use `block` again.
pub(crate) unsafe fn reallocate(block: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
    check(block);
    // SAFETY: the caller passes a live block.
    let found = unsafe { find(block) };
    let usable = found.layout.size() - found.offset;
    if size <= usable && size >= usable / 2 && found.offset == 0 {
        return Some(block);
    }
    let moved = if found.offset == PAGE && size > pages::SPAN_MAX {
        // SAFETY: the caller passes a live block, which has a header, one page after the start of
        // its mapping, and does not use the block again if it moves.
        unsafe { remap(found, size) }
    } else {
        // SAFETY: the caller passes a live block with this number of bytes, and does not use the
        // block again if it moves.
        unsafe { copy(block, usable, size) }
    };
    moved.or_else(|| (size <= usable).then_some(block))
}

/// Resizes a block that starts one page into its mapping, by resizing the mapping. Returns the
/// block, which may have moved. Returns `None`, and leaves the block as it is, if there is no
/// memory.
///
/// # Safety
/// `found` describes a live block that has a header, and `size` exceeds the largest span. If the
/// call succeeds, the caller does not use the old block again.
unsafe fn remap(found: Found, size: usize) -> Option<NonNull<u8>> {
    let whole = Layout::from_size_align(size.checked_add(found.offset)?, found.layout.align()).ok()?;
    // Allocate the tables first: if there were no memory for them later, the mapping could not move
    // back.
    let spare = live::Spare::new()?;
    // SAFETY: the offset is less than the size of the mapping.
    let old = unsafe { found.start.add(found.offset) };
    // Clear the bit before the mapping moves, because another block may start at the old address
    // after the move.
    if !live::leave(old) {
        not_a_block();
    }
    // If the block moves by a copy, its old mapping stays in the cache, and must not have a
    // header.
    // SAFETY: the caller passes a live block with a header.
    unsafe { page_header::clear(old) };
    let moved = if whole.size() >= found.layout.size() {
        // SAFETY: the mapping is live and has this layout (C1); the new one is not smaller.
        unsafe { Heap.grow(found.start, found.layout, whole) }
    } else {
        // SAFETY: the mapping is live and has this layout (C1); the new one is not larger.
        unsafe { Heap.shrink(found.start, found.layout, whole) }
    };
    let Ok(moved) = moved else {
        // SAFETY: the block did not move. It is aligned to a page, and the page in front of it
        // still belongs to its mapping.
        unsafe { page_header::write(old, found.layout, found.offset) };
        // The call succeeds, because the table for the old address exists.
        let _ = live::enter(old, None);
        return None;
    };
    // SAFETY: the offset is less than the size of the mapping.
    let block = unsafe { moved.cast::<u8>().add(found.offset) };
    // SAFETY: the block is aligned to a page, and the page in front of it belongs to the mapping.
    unsafe { page_header::write(block, whole, found.offset) };
    // The call succeeds, because the spare tables suffice.
    let _ = live::enter(block, Some(&spare));
    Some(block)
}

/// Copies a block of `usable` bytes into a new block of `size` bytes, and frees the old block.
/// Returns `None`, and leaves the block as it is, if there is no memory.
///
/// # Safety
/// `block` is a live block and has `usable` bytes. If the call succeeds, the caller does not use
/// `block` again.
unsafe fn copy(block: NonNull<u8>, usable: usize, size: usize) -> Option<NonNull<u8>> {
    let moved = allocate(size, MIN_ALIGN, false)?;
    // SAFETY: both blocks are live, do not overlap, and have this number of bytes.
    unsafe { moved.copy_from_nonoverlapping(block, size.min(usable)) };
    // SAFETY: the caller's block is live and is not used again.
    unsafe { free(block) };
    Some(moved)
}
