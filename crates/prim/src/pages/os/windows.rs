//! The system calls of Windows. A reservation can only be released as a whole, so no mapping is
//! trimmed or resized.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

const MEM_COMMIT: u32 = 0x1000;
const MEM_RESERVE: u32 = 0x2000;
const MEM_RELEASE: u32 = 0x8000;
const MEM_RESET: u32 = 0x8_0000;
const PAGE_READWRITE: u32 = 4;

/// The largest number of attempts to map at an aligned address. An attempt fails if another thread
/// maps there first.
const TRIES: usize = 8;

// SAFETY: these are the functions of the Windows API by these names, with its types: `SIZE_T` is
// `usize`, `DWORD` is `u32` and `BOOL` is `i32`.
#[link(name = "kernel32")]
unsafe extern "system" {
    fn VirtualAlloc(at: *mut c_void, len: usize, kind: u32, protection: u32) -> *mut c_void;
    fn VirtualFree(at: *mut c_void, len: usize, kind: u32) -> i32;
    fn GetTickCount64() -> u64;
}

pub(super) fn map(len: usize, align: usize) -> Option<NonNull<u8>> {
    let block = map_at(ptr::null_mut(), len)?;
    if block.addr().get() % align == 0 {
        return Some(block);
    }
    // SAFETY: the mapping is new, and nothing uses it.
    let _ = unsafe { unmap(block, len) };
    let longer = len.checked_add(align)?;
    (0..TRIES).find_map(|_| {
        // SAFETY: the call creates a reservation at an address that the system chooses.
        let room = unsafe { VirtualAlloc(ptr::null_mut(), longer, MEM_RESERVE, PAGE_READWRITE) };
        let room = NonNull::new(room)?;
        let aligned = room.addr().get().next_multiple_of(align);
        // SAFETY: the reservation is new, and nothing uses it.
        let _ = unsafe { unmap(room.cast(), longer) };
        map_at(ptr::without_provenance_mut(aligned), len)
    })
}

fn map_at(at: *mut c_void, len: usize) -> Option<NonNull<u8>> {
    // SAFETY: the call creates a reservation; the system refuses an address that is in use.
    let block = unsafe { VirtualAlloc(at, len, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
    NonNull::new(block.cast())
}

pub(super) unsafe fn unmap(block: NonNull<u8>, _len: usize) -> bool {
    // SAFETY: the caller gives up the whole mapping.
    unsafe { VirtualFree(block.as_ptr().cast(), 0, MEM_RELEASE) != 0 }
}

/// Whether bytes are zero after a purge. After `MEM_RESET`, the system may drop the pages at any
/// time or keep them, so their content is unknown.
pub(super) const PURGED_IS_ZERO: bool = false;

pub(super) unsafe fn purge(block: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller owns these accessible pages and does not need their content.
    unsafe { !VirtualAlloc(block.as_ptr().cast(), len, MEM_RESET, PAGE_READWRITE).is_null() }
}

pub(super) unsafe fn remap(_: NonNull<u8>, _: (usize, usize), _may_move: bool) -> Option<NonNull<u8>> {
    None
}

pub(super) fn advise_huge_pages(_block: NonNull<u8>, _len: usize, _wanted: bool) {}

/// Returns the size of a page in bytes, which is the same on all processors that Windows supports.
pub(super) fn page_size() -> usize {
    4 << 10
}

/// Returns the time of a monotonic clock in milliseconds. The time wraps, and may lag by a tick of
/// the system's clock.
pub(crate) fn now_ms() -> usize {
    // SAFETY: the call has no preconditions.
    unsafe { GetTickCount64() as usize }
}
