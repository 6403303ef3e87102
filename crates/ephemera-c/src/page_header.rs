//! The header of a block whose size or alignment exceeds 1 MiB, in the page in front of the block.

use core::alloc::Layout;
use core::ptr::NonNull;

/// The distance of a header from its block, in bytes: the size of the smallest page.
pub(crate) const PAGE: usize = 4 << 10;

/// The first word of a header, which distinguishes a header from other bytes.
const MAGIC: usize = 0x45_70_48_6D;

#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    magic: usize,
    /// The address of the block that this header belongs to. `read` ignores a copy of the header in
    /// front of another block.
    block: usize,
    /// The size of the whole mapping, in bytes.
    size: usize,
    /// The alignment of the whole mapping, in bytes. Size and alignment are plain numbers,
    /// because `read` also reads bytes that are not a header.
    align: usize,
    /// The offset of the block in the mapping, in bytes.
    offset: usize,
}

/// Returns the address of the header of a block.
///
/// # Safety
/// The page in front of `block` is part of a mapping.
unsafe fn place(block: NonNull<u8>) -> NonNull<Header> {
    // SAFETY: the page in front of the block is part of a mapping.
    unsafe { block.sub(PAGE) }.cast()
}

/// Writes the header of a block, which lies at this offset in a mapping of this layout.
///
/// # Safety
/// `block` is aligned to [`PAGE`], and the page in front of it belongs to the caller.
pub(crate) unsafe fn write(block: NonNull<u8>, layout: Layout, offset: usize) {
    let (size, align) = (layout.size(), layout.align());
    let header = Header { magic: MAGIC, block: block.addr().get(), size, align, offset };
    // SAFETY: the page in front of the block belongs to the caller.
    let place = unsafe { place(block) };
    // SAFETY: the page belongs to the caller, is aligned for a header, and has room for it.
    unsafe { place.write(header) };
}

/// Returns the layout of a block's mapping, and the block's offset in the mapping. Returns `None`
/// if the block has no header.
///
/// # Safety
/// The page in front of `block` is part of a mapping.
pub(crate) unsafe fn read(block: NonNull<u8>) -> Option<(Layout, usize)> {
    if block.addr().get() % PAGE != 0 {
        return None;
    }
    // SAFETY: the page in front of the block is part of a mapping.
    let place = unsafe { place(block) };
    // SAFETY: the page is mapped, is aligned for a header, and has room for it.
    let header = unsafe { place.read() };
    if header.magic != MAGIC || header.block != block.addr().get() {
        return None;
    }
    Some((Layout::from_size_align(header.size, header.align).ok()?, header.offset))
}

/// Clears the header of a block that is about to be freed or moved. Otherwise, a later free of
/// this address would mistake the stale header for the header of a live block.
///
/// # Safety
/// The block has a header, and belongs to the caller.
pub(crate) unsafe fn clear(block: NonNull<u8>) {
    // SAFETY: the page in front of the block belongs to its mapping.
    let place = unsafe { place(block) };
    // SAFETY: the page has the header, which starts with a word, and belongs to the caller.
    unsafe { place.cast::<usize>().write(0) };
}
