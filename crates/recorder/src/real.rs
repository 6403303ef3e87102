//! The allocator that the recorder stands in front of, and the little memory that it takes to find it.
//!
//! `dlsym` may allocate, which ends in our own `calloc`: such calls get pieces of a static area, which are never reused.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Bytes of the area.
const AREA: usize = 64 << 10;

#[repr(align(4096))]
struct Area(UnsafeCell<[u8; AREA]>);

// SAFETY: pieces are handed out once each, by an atomic cursor, and nothing else touches the bytes.
unsafe impl Sync for Area {}

static BYTES: Area = Area(UnsafeCell::new([0; AREA]));
static CURSOR: AtomicUsize = AtomicUsize::new(0);

/// A zeroed piece of the area, or null: it is too small for that.
pub(crate) fn early(align: usize, size: usize) -> *mut u8 {
    // An alignment that no power of two reaches is refused below.
    let align = align.checked_next_power_of_two().unwrap_or(usize::MAX).max(16);
    let piece = |at: usize| {
        // The size stands in front, for `realloc`.
        let begin = at.checked_add(16)?.checked_next_multiple_of(align)?;
        Some((begin, begin.checked_add(size)?)).filter(|&(_, end)| align <= 4096 && end <= AREA)
    };
    let Ok(at) = CURSOR.fetch_update(Relaxed, Relaxed, |at| piece(at).map(|(_, end)| end)) else {
        return core::ptr::null_mut();
    };
    let Some((begin, _)) = piece(at) else { return core::ptr::null_mut() };
    let base: *mut u8 = BYTES.0.get().cast();
    // SAFETY: the piece lies within the area.
    let block = unsafe { base.add(begin) };
    // SAFETY: the sixteen bytes before it belong to it.
    let length = unsafe { block.sub(16) };
    // SAFETY: as above, and they are aligned to 16.
    unsafe { length.cast::<usize>().write(size) };
    block
}

/// Whether a block is a piece of the area.
pub(crate) fn is_early(block: *mut c_void) -> bool {
    block.addr().wrapping_sub(BYTES.0.get().addr()) < AREA
}

/// The size of a piece.
///
/// # Safety
///
/// The block came from [`early`].
pub(crate) unsafe fn early_size(block: *mut c_void) -> usize {
    // SAFETY: `early` wrote the size there.
    let length = unsafe { block.byte_sub(16) };
    // SAFETY: as above, aligned to 16.
    unsafe { length.cast::<usize>().read() }
}

/// The next functions of the family. The last four are not in every C library.
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

/// Takes an alignment and a size.
pub(crate) type Aligned = unsafe extern "C" fn(usize, usize) -> *mut c_void;
/// Takes a size.
pub(crate) type Paged = unsafe extern "C" fn(usize) -> *mut c_void;

struct Found(UnsafeCell<Option<Real>>);

// SAFETY: written once, by who moved `STATE` on, before it says that all are found; read afterwards.
unsafe impl Sync for Found {}

static FOUND: Found = Found(UnsafeCell::new(None));
static STATE: AtomicUsize = AtomicUsize::new(0);
const SEARCHING: usize = 1;
const READY: usize = 2;

/// The allocator behind us; `None` while it is looked for.
#[inline]
pub(crate) fn real() -> Option<&'static Real> {
    // ORDERING: Acquire. Pairs with the Release in `search`. Publishes: the addresses.
    if STATE.load(Acquire) == READY {
        // SAFETY: nobody writes any more.
        return unsafe { &*FOUND.0.get() }.as_ref();
    }
    search()
}

#[cold]
#[inline(never)]
#[expect(clippy::disallowed_methods, reason = "what `dlsym` returns becomes a function in no other way")]
fn search() -> Option<&'static Real> {
    if STATE.compare_exchange(0, SEARCHING, Relaxed, Relaxed).is_err() {
        return None;
    }
    // The types are those of the C standard and of POSIX for these names.
    let real = Real {
        // SAFETY: a function pointer is as large as a pointer, and the symbol is the C library's function of this type.
        malloc: unsafe { core::mem::transmute_copy(&next(c"malloc")) },
        // SAFETY: as above.
        calloc: unsafe { core::mem::transmute_copy(&next(c"calloc")) },
        // SAFETY: as above.
        realloc: unsafe { core::mem::transmute_copy(&next(c"realloc")) },
        // SAFETY: as above.
        free: unsafe { core::mem::transmute_copy(&next(c"free")) },
        // SAFETY: as above.
        posix_memalign: unsafe { core::mem::transmute_copy(&next(c"posix_memalign")) },
        // SAFETY: as above, and a null pointer is `None`.
        aligned_alloc: unsafe { core::mem::transmute_copy(&find(c"aligned_alloc")) },
        // SAFETY: as above.
        memalign: unsafe { core::mem::transmute_copy(&find(c"memalign")) },
        // SAFETY: as above.
        valloc: unsafe { core::mem::transmute_copy(&find(c"valloc")) },
        // SAFETY: as above.
        pvalloc: unsafe { core::mem::transmute_copy(&find(c"pvalloc")) },
    };
    // SAFETY: this thread alone moved the state on, and nobody reads yet.
    unsafe { *FOUND.0.get() = Some(real) };
    // ORDERING: Release. Pairs with the Acquire in `real`. Publishes: the addresses.
    STATE.store(READY, Release);
    // SAFETY: nobody writes any more.
    unsafe { &*FOUND.0.get() }.as_ref()
}

/// Returns the symbol of that name in the libraries after this one, or null.
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// As [`find`], for a symbol that every allocator has.
fn next(name: &CStr) -> *mut c_void {
    let symbol = find(name);
    if symbol.is_null() {
        // A process without an allocator cannot go on, and cannot be told why otherwise.
        // SAFETY: the call does not return.
        unsafe { libc::abort() }
    }
    symbol
}
