//! Marks memory that the program must not touch, for tools that report such accesses.
//!
//! A freed block is still mapped, and still part of a live allocation of the backing allocator, so
//! a tool does not notice that the program still uses the block. Allocators therefore call
//! [`poison`] on each block that the program frees and [`unpoison`] on each block that they hand
//! out. Both compile to nothing, except for two tools:
//!
//! * AddressSanitizer (`RUSTFLAGS='-Zsanitizer=address --cfg ephemera_poison="asan"'`) reports each
//!   access to a poisoned byte as `use-after-poison`.
//! * Miri takes the bytes to be uninitialised, and reports a read of them.
//!
//! # Invariants
//!
//! * **M1**: Poisoned bytes belong to the allocator. The allocator unpoisons them before it reads
//!   or writes them, hands them out or frees them ([`raw::release`](crate::raw::release) unpoisons
//!   a whole block).
//! * **M2**: Neither function keeps the content of the bytes. Allocators therefore write intrusive
//!   links after the call, into bytes that the call did not cover.
//!
//! AddressSanitizer keeps one mark for eight bytes. In a block that does not start and end at
//! multiples of eight, up to seven bytes on either side may stay unmarked.

use core::ptr::NonNull;

/// Marks `bytes` bytes from `block` on as inaccessible until [`unpoison`].
///
/// # Safety
///
/// The bytes must be valid for writes through `block` and belong to the caller alone. Their content
/// is lost (M2).
#[inline]
pub unsafe fn poison(block: NonNull<u8>, bytes: usize) {
    #[cfg(miri)]
    // SAFETY: the bytes are valid for writes and belong to the caller alone.
    unsafe {
        make_uninit(block, bytes);
    }
    #[cfg(all(not(miri), ephemera_poison = "asan"))]
    // SAFETY: the runtime requires mapped memory. The caller owns these bytes, so they are mapped,
    // and no other code accesses them.
    unsafe {
        __asan_poison_memory_region(block.as_ptr().cast(), bytes);
    }
    #[cfg(not(any(miri, ephemera_poison = "asan")))]
    let _ = (block, bytes);
}

/// Marks `bytes` bytes from `block` on as usable and uninitialised.
///
/// # Safety
///
/// The bytes must be valid for writes through `block` and belong to the caller alone. Their content
/// is lost (M2).
#[inline]
pub unsafe fn unpoison(block: NonNull<u8>, bytes: usize) {
    #[cfg(miri)]
    // SAFETY: the bytes are valid for writes and belong to the caller alone.
    unsafe {
        make_uninit(block, bytes);
    }
    #[cfg(all(not(miri), ephemera_poison = "asan"))]
    // SAFETY: the runtime requires mapped memory. The caller owns these bytes, so they are mapped,
    // and no other code accesses them.
    unsafe {
        __asan_unpoison_memory_region(block.as_ptr().cast(), bytes);
    }
    #[cfg(not(any(miri, ephemera_poison = "asan")))]
    let _ = (block, bytes);
}

/// Makes bytes uninitialised, which Miri tracks byte by byte.
///
/// # Safety
///
/// The bytes must be valid for writes through `block` and belong to the caller alone.
#[cfg(miri)]
unsafe fn make_uninit(block: NonNull<u8>, bytes: usize) {
    use core::mem::MaybeUninit;

    /// Uninitialised bytes to copy over a block. The interpreter executes one copy as one step.
    static NOTHING: [MaybeUninit<u8>; 4096] = [MaybeUninit::uninit(); 4096];

    for done in (0..bytes).step_by(NOTHING.len()) {
        // SAFETY: `done < bytes`, and the caller guarantees `bytes` valid bytes from `block` on.
        let target = unsafe { block.as_ptr().add(done) };
        let piece = (bytes - done).min(NOTHING.len());
        // SAFETY: `NOTHING` has `piece` bytes. `target` has at least as many writable ones, which
        // the caller owns, so they do not overlap the static.
        unsafe { NOTHING.as_ptr().copy_to_nonoverlapping(target.cast(), piece) };
    }
}

// The interface of AddressSanitizer for poisoning by programs.
#[cfg(all(not(miri), ephemera_poison = "asan"))]
unsafe extern "C" {
    fn __asan_poison_memory_region(start: *const core::ffi::c_void, bytes: usize);
    fn __asan_unpoison_memory_region(start: *const core::ffi::c_void, bytes: usize);
}
