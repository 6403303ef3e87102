//! The functions of the preloaded library, which replace the C library's functions.
//!
//! Each function records an allocation after the next allocator has returned, and a free before it
//! calls the next allocator. The free of a block therefore has a lower sequence number than the
//! next allocation at the same address (I4). During the search for the next allocator, allocations
//! get pieces of the early area (`real`) and are not recorded.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use crate::alloc::{align_log2, born, goes, resized};
use crate::format::{Origin, op};
use crate::process::clocks::CallTimer;
use crate::process::launch::launch;
use crate::real::{early, early_size, is_early, real};
use crate::{DEFAULT_LIMIT, os};

/// The pointer to [`begin`], which the loader calls before the program's own initialisers.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// Starts recording if the environment names a trace. Otherwise, or if the start fails, the
/// program runs without a recording.
extern "C" fn begin() {
    let variable = |name: &core::ffi::CStr| {
        // SAFETY: the name is NUL-terminated, and no thread changes the environment while the
        // loader runs.
        let value = unsafe { libc::getenv(name.as_ptr()) };
        // SAFETY: a value of the environment is NUL-terminated, and stays in place until the
        // program changes the environment.
        (!value.is_null()).then(|| unsafe { core::ffi::CStr::from_ptr(value) }.to_bytes())
    };
    let Some(path) = variable(c"EPHEMERA_TRACE") else { return };
    let limit = variable(c"EPHEMERA_TRACE_LIMIT")
        .and_then(|digits| core::str::from_utf8(digits).ok()?.parse().ok())
        .unwrap_or(DEFAULT_LIMIT);
    let errno = os::errno();
    // The missing trace tells the user that the start failed. This library cannot report the
    // failure in any other way.
    let _ = launch(path, limit, if is_bypassed() { Origin::Bypassed } else { Origin::Program });
    os::set_errno(errno);
}

/// Returns whether the program's calls to `malloc` bypass this library. They do if the executable
/// has its own `malloc`, because the loader searches the executable before all libraries.
fn is_bypassed() -> bool {
    // SAFETY: the name is NUL-terminated.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) };
    let own = (&raw const BEGIN).cast();
    !found.is_null() && object(found) != object(own)
}

/// Returns the load address of the executable or library that contains `address`, or null if there
/// is none.
fn object(address: *const c_void) -> *mut c_void {
    let mut info = libc::Dl_info {
        dli_fname: null_mut::<core::ffi::c_char>(),
        dli_fbase: null_mut(),
        dli_sname: null_mut::<core::ffi::c_char>(),
        dli_saddr: null_mut(),
    };
    // SAFETY: any address is allowed, and `info` is valid for writes. If nothing is found, the
    // structure keeps its contents.
    unsafe { libc::dladdr(address, &raw mut info) };
    info.dli_fbase
}

/// Sets the error number to `ENOMEM` and returns null.
fn refused() -> *mut c_void {
    os::set_errno(libc::ENOMEM);
    null_mut()
}

/// Records a call to `malloc` and passes it to the next allocator.
///
/// # Safety
///
/// Every size is allowed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    let Some(real) = real() else { return early(1, size).cast() };
    let mut watch = CallTimer::start();
    // SAFETY: the pointer is the next allocator's `malloc` (I8), which accepts any size.
    let block = unsafe { (real.malloc)(size) };
    watch.lap();
    born(op::ALLOC, 0, block.cast(), size);
    watch.end_recorder();
    block
}

/// Records a call to `calloc` and passes it to the next allocator.
///
/// # Safety
///
/// Every argument is allowed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(real) = real() else {
        return count.checked_mul(size).map_or_else(refused, |bytes| early(1, bytes).cast());
    };
    let mut watch = CallTimer::start();
    // SAFETY: the pointer is the next allocator's `calloc` (I8), which accepts any sizes.
    let block = unsafe { (real.calloc)(count, size) };
    watch.lap();
    // If the product overflows, `block` is null, and `born` does not record it.
    born(op::ZEROED, 0, block.cast(), count.wrapping_mul(size));
    watch.end_recorder();
    block
}

/// Copies a block of the early area into a new block of `size` bytes. Returns the new block, or
/// null if there is no memory.
///
/// # Safety
///
/// `block` must have come from [`early`].
#[cold]
unsafe fn move_early(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: any size is valid.
    let moved = unsafe { malloc(size) };
    if !moved.is_null() {
        // SAFETY: the caller passes a block that came from `early`.
        let old = unsafe { early_size(block) };
        // SAFETY: both blocks have at least this length, and a new block overlaps no other block.
        unsafe { moved.copy_from_nonoverlapping(block, old.min(size)) };
    }
    moved
}

/// Records a call to `realloc` and passes it to the next allocator.
///
/// # Safety
///
/// `block` must be null, or a live block that an allocation function of this library returned.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        // SAFETY: any size is valid.
        return unsafe { malloc(size) };
    }
    if is_early(block) {
        // SAFETY: the caller passes a live block. It lies in the early area, so it came from
        // `early`.
        return unsafe { move_early(block, size) };
    }
    let Some(real) = real() else { return refused() };
    if size == 0 {
        // For size 0, `realloc` frees the block. Some allocators then return null, others a new
        // block.
        goes(op::FREE, block.cast());
        // SAFETY: the pointer is the next allocator's `realloc` (I8). The live block is not early,
        // so it came from that allocator.
        let left = unsafe { (real.realloc)(block, 0) };
        born(op::ALLOC, 0, left.cast(), 0);
        return left;
    }
    goes(op::RESIZE, block.cast());
    let mut watch = CallTimer::start();
    // SAFETY: the pointer is the next allocator's `realloc` (I8). The live block is not early, so
    // it came from that allocator.
    let moved = unsafe { (real.realloc)(block, size) };
    watch.lap();
    resized(block.cast(), moved.cast(), size);
    watch.end_recorder();
    moved
}

/// Computes the size in bytes and calls [`realloc`]. Refuses if the size overflows.
///
/// # Safety
///
/// `block` must be null, or a live block that an allocation function of this library returned.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller passes null or a live block of this family, and any size is valid.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => refused(),
    }
}

/// Records a call to `free` and passes it to the next allocator. Ignores a null pointer and a block
/// of the early area.
///
/// # Safety
///
/// `block` must be null, or a live block of this family of functions that is not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() || is_early(block) {
        return;
    }
    if let Some(real) = real() {
        let mut watch = CallTimer::start();
        goes(op::FREE, block.cast());
        watch.lap();
        // SAFETY: the pointer is the next allocator's `free` (I8). The live block is not early, so
        // it came from that allocator, and the caller does not use it again.
        unsafe { (real.free)(block) };
        watch.end_allocator();
    }
}

/// Ignores the size and calls [`free`] (C23).
///
/// # Safety
///
/// `block` must be null, or a live block of this family of functions that is not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn free_sized(block: *mut c_void, _size: usize) {
    // SAFETY: the caller passes null, or a live block of this family that is not used again.
    unsafe { free(block) }
}

/// Ignores the alignment and the size, and calls [`free`] (C23).
///
/// # Safety
///
/// `block` must be null, or a live block of this family of functions that is not used again.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: the caller passes null, or a live block of this family that is not used again.
    unsafe { free(block) }
}

/// Records a call to `posix_memalign` and passes it to the next allocator.
///
/// # Safety
///
/// `place` must be valid for writing a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
    let Some(real) = real() else {
        let block = early(align, size).cast();
        // SAFETY: the caller passes a pointer that is valid for writes.
        unsafe { *place = block };
        return if block.is_null() { libc::ENOMEM } else { 0 };
    };
    // SAFETY: the pointer is the next allocator's `posix_memalign` (I8), which accepts any
    // alignment and size. The caller passes a `place` that is valid for writes.
    let status = unsafe { (real.posix_memalign)(place, align, size) };
    if status == 0 {
        // SAFETY: the caller passes a valid pointer, and the call above has set its target.
        let block = unsafe { *place };
        born(op::ALLOC, align_log2(align), block.cast(), size);
    }
    status
}

/// Records a block that a function of the next allocator returned for this alignment. Returns that
/// block. `block` is `None` if the next allocator lacks the function. The result is then null, with
/// the error number `ENOMEM`.
///
/// The next allocator decides how to treat an alignment that is not a power of two. Some
/// allocators round it up, others refuse it.
fn aligned(align: usize, size: usize, block: Option<*mut c_void>) -> *mut c_void {
    let Some(block) = block else { return refused() };
    born(op::ALLOC, align_log2(align.checked_next_power_of_two().unwrap_or(1)), block.cast(), size);
    block
}

/// Records a call to `memalign` and passes it to the next allocator.
///
/// # Safety
///
/// Every argument is allowed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    let Some(real) = real() else { return early(align, size).cast() };
    // SAFETY: `next` is the next allocator's `memalign` (I8), which accepts any arguments.
    aligned(align, size, real.memalign.map(|next| unsafe { next(align, size) }))
}

/// Records a call to `aligned_alloc` and passes it to the next allocator.
///
/// # Safety
///
/// Every argument is allowed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    let Some(real) = real() else { return early(align, size).cast() };
    // SAFETY: `next` is the next allocator's `aligned_alloc` (I8), which accepts any arguments.
    aligned(align, size, real.aligned_alloc.map(|next| unsafe { next(align, size) }))
}

/// Returns the size of a page of the operating system, in bytes.
fn page() -> usize {
    // SAFETY: the call takes no pointer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Records a call to `valloc` and passes it to the next allocator.
///
/// # Safety
///
/// Every size is allowed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    let Some(real) = real() else { return early(page(), size).cast() };
    // SAFETY: `next` is the next allocator's `valloc` (I8), which accepts any size.
    aligned(page(), size, real.valloc.map(|next| unsafe { next(size) }))
}

/// Records a call to `pvalloc` and passes it to the next allocator, which rounds the size up to
/// whole pages.
///
/// # Safety
///
/// Every size is allowed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let Some(real) = real() else { return early(page(), size).cast() };
    // SAFETY: `next` is the next allocator's `pvalloc` (I8), which accepts any size.
    let block = real.pvalloc.map(|next| unsafe { next(size) });
    // If the size overflows here, the next allocator has refused it, and `block` is null.
    aligned(page(), size.checked_next_multiple_of(page()).unwrap_or(size), block)
}
