//! The functions with which the allocators acquire, free and address the memory of their units.
//!
//! Units, page groups and stores come from a backing allocator through [`acquire`], and [`release`]
//! frees them. Before an allocator finds memory by masking an address, it must pass a pointer to
//! the memory through [`expose`]. [`with_exposed`] turns the address into a pointer again.
//! `clippy.toml` refuses the standard library's global allocation functions and exposed provenance
//! functions everywhere else in the workspace.
//!
//! Units are aligned to their size, so clearing the low bits of a block's address gives the address
//! of the unit's header ([`base_addr`]). That address alone does not permit an access: the user's
//! pointer may have provenance over only the block, for example if it came out of a `Box`. If the
//! calling thread allocates from this unit, it uses its own pointer to the unit. Otherwise it uses
//! the exposed provenance ([`header_of`]).
//!
//! No function here creates a reference to a header, because another thread may free the unit after
//! the operation. Callers access fields through raw pointers, and an atomic through a reference
//! that covers only the atomic. [`words!`](crate::words) declares methods for such accesses.
//!
//! # Invariants
//!
//! * **R1**: For a block from [`acquire`] with a layout of `size` bytes, `address + size +
//!   TOP_GUARD` does not overflow. An alignment and a size that together are at most [`TOP_GUARD`]
//!   may therefore be added to an address in the block (or just past it) without an overflow check.
//! * **R2**: A whole block is unpoisoned before it is freed (M1 of [`poison`](crate::poison)).

use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator, Layout};

use crate::poison::unpoison;

/// The size of the region at the top of the address space in which no block may end (R1): 4 MiB.
///
/// This is four times the largest chunk size that a geometry of `ring-alloc` may have (1 MiB). No
/// operating system hands out memory that high to 64-bit programs. In 32-bit programs the guard
/// costs at most one thousandth of the address space.
pub const TOP_GUARD: usize = 4 << 20;

/// Allocates a block of `layout` from `backing`: `layout.size()` bytes, aligned, uninitialised. The
/// backing allocator may return a larger block; the excess stays unused.
///
/// # Errors
///
/// Returns [`AllocError`] if `backing` refuses, or if its block ends less than [`TOP_GUARD`] below
/// `usize::MAX` (R1). In the second case the function frees the block.
#[inline]
pub fn acquire<A: Allocator + ?Sized>(backing: &A, layout: Layout) -> Result<NonNull<u8>, AllocError> {
    let block = backing.allocate(layout)?.cast::<u8>();
    let end = block.addr().get().saturating_add(layout.size());
    if end > usize::MAX - TOP_GUARD {
        // SAFETY: `backing` has just allocated the block for this layout.
        unsafe { backing.deallocate(block, layout) };
        return Err(AllocError);
    }
    // INVARIANT: R1 holds for the block from here on.
    Ok(block)
}

/// Declares methods of a pointer type that return the words of a header. A method `-> &W` returns a
/// reference that covers only the word. A method `-> W` returns the value of a word that never
/// changes after the header is created.
///
/// The pointer type has a method `as_ptr`. The type's invariant ensures that `as_ptr` returns a
/// pointer to an initialised header that is not freed while the pointer type's value is used. A
/// comment in each use of the macro names that invariant.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    () => {};
    ($(#[$meta:meta])* $vis:vis fn $name:ident() -> &$word:ty = $($field:ident).+; $($rest:tt)*) => {
        $(#[$meta])*
        #[inline]
        $vis fn $name(&self) -> &$word {
            // SAFETY: the header is not freed while this pointer is used (the pointer type's
            // invariant), and the reference covers only this field.
            unsafe { &(*self.as_ptr()).$($field).+ }
        }
        $crate::words! { $($rest)* }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident() -> $word:ty = $($field:ident).+; $($rest:tt)*) => {
        $(#[$meta])*
        #[inline]
        $vis fn $name(self) -> $word {
            // SAFETY: the header is not freed while this pointer is used (the pointer type's
            // invariant), and the field never changes.
            unsafe { (*self.as_ptr()).$($field).+ }
        }
        $crate::words! { $($rest)* }
    };
}

/// Unpoisons the whole block (R2), then frees it to `backing`.
///
/// Under loom the block is leaked instead. A model that touches a freed header must find the
/// header's [`Witness`](crate::witness::Witness) and not another block at that address.
///
/// # Safety
///
/// * [`acquire`] returned `block` for `layout` from `backing` or an equivalent allocator, and the
///   block has not been released since.
/// * Nothing uses the block any more: every access by another thread happens before this call.
#[inline]
pub unsafe fn release<A: Allocator + ?Sized>(backing: &A, block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller gives up the whole block, which has `layout.size()` bytes.
    unsafe { unpoison(block, layout.size()) };
    if cfg!(ephemera_loom) {
        return;
    }
    // SAFETY: the caller guarantees that `block` is a live block of `backing` for `layout`.
    unsafe { backing.deallocate(block, layout) };
}

/// Returns the address of `ptr`, and exposes its provenance: [`with_exposed`] may create pointers
/// with the access rights of `ptr`.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the only module that may expose provenance")]
pub fn expose<T: ?Sized>(ptr: *const T) -> usize {
    ptr.cast::<()>().expose_provenance()
}

/// Creates a pointer to `addr`, whose provenance was exposed earlier by [`expose`].
///
/// # Safety
///
/// `addr` lies in a block that was acquired and not released. A pointer that may access the same
/// bytes as the result was passed to [`expose`], and that call happens before this one.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the only module that may use exposed provenance")]
pub unsafe fn with_exposed<T>(addr: usize) -> *mut T {
    ptr::with_exposed_provenance_mut(addr)
}

/// Returns the address of the unit of `size` bytes (a power of two) that contains `block`.
#[inline]
pub fn base_addr(block: NonNull<u8>, size: usize) -> usize {
    debug_assert!(size.is_power_of_two(), "the size of a unit is a power of two");
    block.addr().get() & !(size - 1)
}

/// Returns a pointer to the header of the unit of `size` bytes that contains `block`.
///
/// # Safety
/// `block` lies in a unit of `size` bytes (a power of two) that is aligned to `size` and starts
/// with an `H`. The unit's pointer was passed to [`expose`] when the unit was created. The unit is
/// not freed while the result is used.
#[inline]
pub unsafe fn header_of<H>(block: NonNull<u8>, size: usize) -> NonNull<H> {
    let base = base_addr(block, size);
    // SAFETY: the caller's live unit starts at `base`, and its pointer was exposed.
    let header = unsafe { with_exposed::<H>(base) };
    // SAFETY: a unit is allocated memory, which does not start at address null.
    unsafe { NonNull::new_unchecked(header) }
}
