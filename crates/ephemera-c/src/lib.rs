//! Implements `malloc`, `free` and the other functions of their family, in a library that programs
//! on 64-bit Linux can preload.
//!
//! ```text
//! LD_PRELOAD=target/release/libephemera_c.so git log
//! ```
//!
//! The library serves blocks from `Heap`, an allocator like
//! [`PooledAllocator`](typed_pool::PooledAllocator). `free` does not get a size. The module `sized`
//! reads the size from the header of the block's unit or from the page in front of the block, or
//! derives it from the length of the block's span. Blocks of the `reserve` have one size.
//!
//! If the library detects that a pointer passed to it is not a live block, it ends the process with
//! a message. With debug assertions, it keeps a table of live blocks and detects every such
//! pointer. Without debug assertions, it detects most pointers that cannot be the address of a
//! block.
#![cfg(all(target_os = "linux", target_pointer_width = "64", not(any(miri, ephemera_loom))))]

mod heap;
mod live;
mod page_header;
mod reserve;
mod sized;

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use live::MIN_ALIGN;
use page_header::PAGE;

/// Stores the error number of a failure in `errno`.
fn set_errno(error: c_int) {
    // SAFETY: the function has no preconditions. It returns the address of this thread's `errno`.
    let word = unsafe { libc::__errno_location() };
    // SAFETY: the address is valid, and the `errno` there belongs to this thread.
    unsafe { word.write(error) };
}

/// A pointer to `at_load`. It is in the section with pointers to the functions that the dynamic
/// linker calls when it loads the library. A preloaded library is loaded before the program starts.
#[used]
// SAFETY: the section holds pointers to functions of this type.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    // If the call fails, threads end as in a Rust program.
    // SAFETY: the library is never unloaded, because `build.rs` links it with `-z nodelete`.
    let _ = unsafe { ephemera_prim::local::end_threads_by_key() };
}

/// Returns the block's address. If there is no block, sets `errno` to `ENOMEM` and returns null.
fn or_null(block: Option<NonNull<u8>>) -> *mut c_void {
    block.map_or_else(
        || {
            set_errno(libc::ENOMEM);
            ptr::null_mut()
        },
        |block| block.as_ptr().cast(),
    )
}

/// Allocates `size` bytes (ISO C).
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    match sized::allocate_quickly(size) {
        Some(block) => block.as_ptr().cast(),
        None => malloc_slowly(size),
    }
}

/// Serves [`malloc`] on its slow path. Like every `extern "C"` function, this one cannot unwind, so
/// [`malloc`] ends with a jump to it and does not need a stack frame.
#[cold]
#[inline(never)]
extern "C" fn malloc_slowly(size: usize) -> *mut c_void {
    or_null(sized::allocate(size, MIN_ALIGN, false))
}

/// Allocates an array of `count` elements of `size` bytes, filled with zeros (ISO C).
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    // A product that overflows becomes `usize::MAX`, which exceeds every class.
    let bytes = count.saturating_mul(size);
    match sized::allocate_quickly(bytes) {
        Some(block) => {
            // SAFETY: the block is fresh and has this number of bytes.
            unsafe { block.write_bytes(0, bytes) };
            block.as_ptr().cast()
        }
        None => calloc_slowly(count, size),
    }
}

/// Serves [`calloc`] on its slow path. This is an `extern "C"` function for the same reason as
/// [`malloc_slowly`].
#[cold]
#[inline(never)]
extern "C" fn calloc_slowly(count: usize, size: usize) -> *mut c_void {
    or_null(count.checked_mul(size).and_then(|bytes| sized::allocate(bytes, MIN_ALIGN, true)))
}

/// Frees a block, or does nothing for null (ISO C).
///
/// # Safety
/// `block` is null or a live block of this library, and nothing uses it after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the caller passes null or a live block, which nothing uses after this call.
    if !unsafe { sized::free_quickly(block.cast()) } {
        // SAFETY: the call above did not free the block, so the pointer is still null or a live
        // block. Nothing uses the block after this call.
        unsafe { free_slowly(block) };
    }
}

/// Serves [`free`] on its slow path. This is an `extern "C"` function for the same reason as
/// [`malloc_slowly`].
///
/// # Safety
/// `block` is null or a live block of this library, and nothing uses it after this call.
#[cold]
#[inline(never)]
unsafe extern "C" fn free_slowly(block: *mut c_void) {
    if let Some(block) = NonNull::new(block.cast()) {
        // SAFETY: the caller passes a live block, which nothing uses after this call.
        unsafe { sized::free(block) };
    }
}

/// Resizes a block to `size` bytes, and may move it (ISO C). If `block` is null, allocates a block.
/// Otherwise, if `size` is 0, frees the block and returns null. If there is no memory for a larger
/// block, sets `errno` to `ENOMEM`, returns null, and leaves the block as it is.
///
/// # Safety
/// `block` is null or a live block of this library. If this call frees or moves the block, nothing
/// uses the old block afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    let Some(block) = NonNull::new(block.cast()) else { return malloc(size) };
    if size == 0 {
        // SAFETY: the caller passes a live block, which nothing uses after this call.
        unsafe { sized::free(block) };
        return ptr::null_mut();
    }
    // SAFETY: the caller passes a live block, and does not use it after a call that moves it.
    or_null(unsafe { sized::reallocate(block, size) })
}

/// Resizes an array to `count` elements of `size` bytes like [`realloc`] (BSD). If the product
/// overflows, sets `errno` to `ENOMEM`, returns null, and leaves the block as it is.
///
/// # Safety
/// `block` is null or a live block of this library. If this call frees or moves the block, nothing
/// uses the old block afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller passes null or a live block, and does not use it after a call that
        // frees or moves it.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => or_null(None),
    }
}

/// Allocates `size` bytes, aligned to `align` (ISO C).
///
/// Like glibc since 2.38, the function fails with `EINVAL` if `align` is not a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if align.is_power_of_two() { or_null(sized::allocate(size, align, false)) } else { invalid() }
}

/// Allocates `size` bytes, aligned to `align` rounded up to a power of two. Fails with `EINVAL` if
/// there is no such power.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => or_null(sized::allocate(size, align, false)),
        None => invalid(),
    }
}

/// Sets `errno` to `EINVAL` and returns null, for an alignment that no block can have.
fn invalid() -> *mut c_void {
    set_errno(libc::EINVAL);
    ptr::null_mut()
}

/// Returns the size of a page of the operating system in bytes, or [`PAGE`] if the system does not
/// report a valid size.
fn page() -> usize {
    // SAFETY: the call has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(PAGE)
}

/// Allocates an aligned block and stores its address in `place` (POSIX). Returns 0, or an error
/// number if nothing was stored.
///
/// # Safety
/// `place` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align % size_of::<*mut c_void>() != 0 {
        return libc::EINVAL;
    }
    let Some(block) = sized::allocate(size, align, false) else { return libc::ENOMEM };
    // SAFETY: the caller passes a pointer that is valid for a write.
    unsafe { place.write(block.as_ptr().cast()) };
    0
}

/// Allocates `size` bytes, aligned to a page.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    memalign(page(), size)
}

/// Allocates whole pages: `size` is rounded up to a multiple of the page size, and to at least one
/// page.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = page();
    match size.checked_next_multiple_of(page) {
        Some(bytes) => memalign(page, bytes.max(page)),
        None => or_null(None),
    }
}

/// Returns the number of bytes of a block that the program may use, or 0 for null.
///
/// # Safety
/// `block` is null or a live block of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: the caller passes null or a live block.
    NonNull::new(block.cast()).map_or(0, |block| unsafe { sized::usable(block) })
}

/// Trims the heaps of all threads, and returns the statistics of the library's blocks. For tests.
#[doc(hidden)]
#[must_use]
pub fn stats_after_trim() -> typed_pool::Stats {
    heap::Heap.trim_all();
    heap::Heap.stats()
}
