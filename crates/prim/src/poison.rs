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
    // SAFETY: the bytes are valid for writes and belong to the caller alone.
    unsafe { marks::poison(block, bytes) }
}

/// Marks `bytes` bytes from `block` on as usable and uninitialised.
///
/// # Safety
///
/// The bytes must be valid for writes through `block` and belong to the caller alone. Their content
/// is lost (M2).
#[inline]
pub unsafe fn unpoison(block: NonNull<u8>, bytes: usize) {
    // SAFETY: the bytes are valid for writes and belong to the caller alone.
    unsafe { marks::unpoison(block, bytes) }
}

/// Does nothing, because no tool is selected.
#[cfg(not(any(miri, ephemera_poison = "asan")))]
mod marks {
    use core::ptr::NonNull;

    #[inline]
    pub(super) unsafe fn poison(_block: NonNull<u8>, _bytes: usize) {}

    #[inline]
    pub(super) unsafe fn unpoison(_block: NonNull<u8>, _bytes: usize) {}
}

/// Makes the bytes uninitialised, both when a block is freed and when it is handed out. Miri tracks
/// initialisation byte by byte.
#[cfg(miri)]
mod marks {
    use core::mem::MaybeUninit;
    use core::ptr::NonNull;

    /// Uninitialised bytes to copy over a block. The interpreter executes one copy as one step.
    static NOTHING: [MaybeUninit<u8>; 4096] = [MaybeUninit::uninit(); 4096];

    pub(super) unsafe fn poison(block: NonNull<u8>, bytes: usize) {
        let source = NOTHING.as_ptr();
        let mut done = 0;
        while done < bytes {
            let piece = (bytes - done).min(NOTHING.len());
            // SAFETY: `done < bytes`, and the caller guarantees `bytes` valid bytes from `block`
            // on.
            let target = unsafe { block.as_ptr().add(done) };
            // SAFETY: `NOTHING` has `piece` bytes. `target` has at least as many writable ones,
            // which the caller owns, so they do not overlap the static.
            unsafe { source.copy_to_nonoverlapping(target.cast(), piece) };
            done += piece;
        }
    }

    pub(super) unsafe fn unpoison(block: NonNull<u8>, bytes: usize) {
        // SAFETY: the bytes are valid for writes and belong to the caller alone.
        unsafe { poison(block, bytes) }
    }
}

/// Calls AddressSanitizer's interface for user-defined poisoning.
#[cfg(all(not(miri), ephemera_poison = "asan"))]
mod marks {
    use core::ffi::c_void;
    use core::ptr::NonNull;

    unsafe extern "C" {
        fn __asan_poison_memory_region(start: *const c_void, bytes: usize);
        fn __asan_unpoison_memory_region(start: *const c_void, bytes: usize);
    }

    #[inline]
    pub(super) unsafe fn poison(block: NonNull<u8>, bytes: usize) {
        // SAFETY: the runtime requires mapped memory. The caller owns these bytes, so they are
        // mapped, and no other code accesses them.
        unsafe { __asan_poison_memory_region(block.as_ptr().cast(), bytes) }
    }

    #[inline]
    pub(super) unsafe fn unpoison(block: NonNull<u8>, bytes: usize) {
        // SAFETY: the runtime requires mapped memory. The caller owns these bytes, so they are
        // mapped, and no other code accesses them.
        unsafe { __asan_unpoison_memory_region(block.as_ptr().cast(), bytes) }
    }
}
