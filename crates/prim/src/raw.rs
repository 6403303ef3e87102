//! The one door between the allocators and the memory they cut up.
//!
//! Chunks, pages and regions come from a backing allocator through [`acquire`] and go back through
//! [`release`]. Addresses that are looked up by masking leave through [`expose`] and come back through
//! [`with_exposed`]. Nothing else in the workspace calls the global allocation functions or the exposed
//! provenance functions of the standard library; `clippy.toml` refuses them.
//!
//! # Invariants
//!
//! * **R1**: for a block from [`acquire`] with a layout of `size` bytes, `address + size + TOP_GUARD` does
//!   not overflow. So a sum of an address in the block (or just past it), an alignment and a size needs no
//!   checks as long as alignment and size together are at most [`TOP_GUARD`].
//! * **R2**: a block is unpoisoned as a whole before it goes back (P1 of [`poison`](crate::poison)).

use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator, Layout};

use crate::poison::unpoison;

/// Bytes below the end of the address space in which no block may end (R1): 4 MiB.
///
/// Four times the largest chunk that any allocator here may have (1 MiB, in a geometry of `ring-alloc`). No operating system hands out memory
/// up there to 64-bit programs; for 32-bit ones it costs at most one thousandth of the addresses.
pub const TOP_GUARD: usize = 4 << 20;

/// Takes a block of `layout` from `backing`: `layout.size()` bytes, aligned, not initialised. What `backing`
/// may have added beyond that stays unused.
///
/// # Errors
///
/// [`AllocError`] if `backing` refuses, or if its block ends less than [`TOP_GUARD`] below `usize::MAX`
/// (R1); `backing` then has the block back already.
#[inline]
pub fn acquire<A: Allocator + ?Sized>(backing: &A, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    let block = backing.allocate(layout)?.cast::<u8>();
    if ends_in_guard(block.addr().get(), layout.size()) {
        // SAFETY: `backing` has just handed out the block for this very layout.
        unsafe { backing.deallocate(block, layout) };
        return Err(AllocError);
    }
    // INVARIANT: R1 holds for the block from here.
    Ok(block)
}

/// Gives a block back to `backing`, after marking all of it as usable for the sanitizers (R2).
///
/// Under loom the block is kept for ever instead: a model that touches a freed header must find the header's
/// [`Witness`](crate::witness::Witness), and not the next block at that address.
///
/// # Safety
///
/// * `block` was returned by [`acquire`] for `layout` from `backing` or an equivalent allocator, and was not
///   released since.
/// * Nobody uses the block any more: every access by another thread happens before this call.
#[inline]
pub unsafe fn release<A: Allocator + ?Sized>(backing: &A, block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller gives up the whole block, `layout.size()` bytes that `backing` handed out.
    unsafe { unpoison(block, layout.size()) };
    if cfg!(ephemera_loom) {
        return;
    }
    // SAFETY: the caller vouches that `backing` handed out `block` for `layout` and that it is in use.
    unsafe { backing.deallocate(block, layout) };
}

/// Whether a block of `size` bytes at `addr` breaks R1.
const fn ends_in_guard(addr: usize, size: usize) -> bool {
    match addr.checked_add(size) {
        Some(end) => end > usize::MAX - TOP_GUARD,
        None => true,
    }
}

/// Returns the address of `ptr` and lets pointers made from an address by [`with_exposed`] use what `ptr`
/// may use.
#[inline]
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn expose<T: ?Sized>(ptr: *const T) -> usize {
    ptr.cast::<()>().expose_provenance()
}

/// Makes a pointer from an address, by virtue of an earlier [`expose`].
///
/// # Safety
///
/// `addr` lies in a block that is still acquired, and a pointer that may access the bytes in question was
/// given to [`expose`] before, as seen from this thread.
#[inline]
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub unsafe fn with_exposed<T>(addr: usize) -> *mut T {
    ptr::with_exposed_provenance_mut(addr)
}
