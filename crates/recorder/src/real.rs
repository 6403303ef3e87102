//! Finds the next allocator, which the recorder calls, and serves allocations during the search
//! from a small static area.
//!
//! `dlsym` may allocate and so call this library's own `calloc`. Such calls get pieces of the
//! static area, which are never reused.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The size of the area, in bytes.
const AREA: usize = 64 << 10;

#[repr(align(4096))]
struct EarlyArea(UnsafeCell<[u8; AREA]>);

// SAFETY: an atomic cursor hands out each piece once, and nothing else accesses the bytes.
unsafe impl Sync for EarlyArea {}

static BYTES: EarlyArea = EarlyArea(UnsafeCell::new([0; AREA]));
static CURSOR: AtomicUsize = AtomicUsize::new(0);

/// Returns a zeroed piece of the area, or null if the area has no room or the alignment exceeds
/// 4,096.
pub(crate) fn early(align: usize, size: usize) -> *mut u8 {
    // The check below refuses an alignment that overflows here.
    let align = align.checked_next_power_of_two().unwrap_or(usize::MAX).max(16);
    let piece = |at: usize| {
        // The sixteen bytes before the piece store its size, for `realloc`.
        let begin = at.checked_add(16)?.checked_next_multiple_of(align)?;
        Some((begin, begin.checked_add(size)?)).filter(|&(_, end)| align <= 4096 && end <= AREA)
    };
    let mut at = CURSOR.load(Relaxed);
    let begin = loop {
        let Some((begin, end)) = piece(at) else { return core::ptr::null_mut() };
        match CURSOR.compare_exchange_weak(at, end, Relaxed, Relaxed) {
            Ok(_) => break begin,
            Err(now) => at = now,
        }
    };
    let base: *mut u8 = BYTES.0.get().cast();
    // SAFETY: the piece lies within the area.
    let block = unsafe { base.add(begin) };
    // SAFETY: the sixteen bytes before the piece belong to it.
    let length = unsafe { block.sub(16) };
    // SAFETY: the sixteen bytes before the piece belong to it, and they are aligned to 16.
    unsafe { length.cast::<usize>().write(size) };
    block
}

/// Returns whether a block is a piece of the area.
pub(crate) fn is_early(block: *mut c_void) -> bool {
    block.addr().wrapping_sub(BYTES.0.get().addr()) < AREA
}

/// Returns the size of a piece in bytes.
///
/// # Safety
///
/// The block must have come from [`early`].
pub(crate) unsafe fn early_size(block: *mut c_void) -> usize {
    // SAFETY: `early` wrote the size into the sixteen bytes before the block.
    let length = unsafe { block.byte_sub(16) };
    // SAFETY: `early` wrote the size there, aligned to 16.
    unsafe { length.cast::<usize>().read() }
}

/// The functions of the next allocator. Some C libraries lack the last four.
///
/// # Invariant
/// **I8** A function pointer is as large as a pointer. The symbol with the name of a field is the
/// next allocator's function of this name, which has the type of the field.
#[derive(Debug)]
pub(crate) struct Real {
    pub(crate) malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    pub(crate) calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    pub(crate) realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    pub(crate) free: unsafe extern "C" fn(*mut c_void),
    pub(crate) posix_memalign: unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int,
    pub(crate) aligned_alloc: Option<Aligned>,
    pub(crate) memalign: Option<Aligned>,
    pub(crate) valloc: Option<Paged>,
    pub(crate) pvalloc: Option<Paged>,
}

/// The type of a function that takes an alignment and a size.
pub(crate) type Aligned = unsafe extern "C" fn(usize, usize) -> *mut c_void;
/// The type of a function that takes a size.
pub(crate) type Paged = unsafe extern "C" fn(usize) -> *mut c_void;

struct FoundFunctions(UnsafeCell<Option<Real>>);

// SAFETY: only the thread that set `STATE` to `SEARCHING` writes the cell, before it publishes
// `READY`. Other threads read the cell only after that.
unsafe impl Sync for FoundFunctions {}

static FOUND: FoundFunctions = FoundFunctions(UnsafeCell::new(None));
static STATE: AtomicUsize = AtomicUsize::new(0);
const SEARCHING: usize = 1;
const READY: usize = 2;

/// Returns the next allocator. The first call searches for it, and calls during this search return
/// `None`.
#[inline]
pub(crate) fn real() -> Option<&'static Real> {
    // ORDERING: Acquire. Pairs with the Release in `search`: this thread sees the addresses.
    if STATE.load(Acquire) == READY {
        // SAFETY: the search has ended, so no thread writes the cell any more.
        return unsafe { &*FOUND.0.get() }.as_ref();
    }
    search()
}

#[cold]
#[inline(never)]
#[expect(clippy::disallowed_methods, reason = "a result of `dlsym` becomes a function only by a transmute")]
fn search() -> Option<&'static Real> {
    if STATE.compare_exchange(0, SEARCHING, Relaxed, Relaxed).is_err() {
        return None;
    }
    // The C standard and POSIX define these types, except for `memalign`, `valloc` and `pvalloc`,
    // whose types come from glibc.
    let real = Real {
        // SAFETY: I8: the symbol is a function of this type.
        malloc: unsafe { core::mem::transmute_copy(&next(c"malloc")) },
        // SAFETY: I8: the symbol is a function of this type.
        calloc: unsafe { core::mem::transmute_copy(&next(c"calloc")) },
        // SAFETY: I8: the symbol is a function of this type.
        realloc: unsafe { core::mem::transmute_copy(&next(c"realloc")) },
        // SAFETY: I8: the symbol is a function of this type.
        free: unsafe { core::mem::transmute_copy(&next(c"free")) },
        // SAFETY: I8: the symbol is a function of this type.
        posix_memalign: unsafe { core::mem::transmute_copy(&next(c"posix_memalign")) },
        // SAFETY: I8: the symbol is a function of this type, and a null pointer is `None`.
        aligned_alloc: unsafe { core::mem::transmute_copy(&find(c"aligned_alloc")) },
        // SAFETY: I8: the symbol is a function of this type, and a null pointer is `None`.
        memalign: unsafe { core::mem::transmute_copy(&find(c"memalign")) },
        // SAFETY: I8: the symbol is a function of this type, and a null pointer is `None`.
        valloc: unsafe { core::mem::transmute_copy(&find(c"valloc")) },
        // SAFETY: I8: the symbol is a function of this type, and a null pointer is `None`.
        pvalloc: unsafe { core::mem::transmute_copy(&find(c"pvalloc")) },
    };
    // SAFETY: only this thread changed the state, and other threads read the cell only after the
    // store below.
    unsafe { *FOUND.0.get() = Some(real) };
    // ORDERING: Release. Pairs with the Acquire in `real`. Publishes: the addresses.
    STATE.store(READY, Release);
    // SAFETY: the search has ended, so no thread writes the cell any more.
    unsafe { &*FOUND.0.get() }.as_ref()
}

/// Returns the symbol of this name in the libraries after this one, or null.
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Returns the symbol of this name, which every allocator has. Aborts if there is none.
fn next(name: &CStr) -> *mut c_void {
    let symbol = find(name);
    if symbol.is_null() {
        // A process without an allocator cannot continue, and this library cannot report the
        // error.
        // SAFETY: the function has no preconditions.
        unsafe { libc::abort() }
    }
    symbol
}
