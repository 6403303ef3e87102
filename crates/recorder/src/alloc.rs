//! A global allocator that records its calls, for Rust programs that run without the preloaded
//! library.

use core::alloc::{GlobalAlloc, Layout};

use crate::format::{self, op};
use crate::process::clocks::CallTimer;
use crate::process::record;
use crate::stream::Call;

/// Returns the base-2 logarithm of `align`, at most 31, as an event stores it.
#[inline]
pub(crate) fn align_log2(align: usize) -> u8 {
    (align.trailing_zeros() as u8).min(31)
}

/// Records the allocation of a block. Records nothing if `ptr` is null.
#[inline]
pub(crate) fn born(op: u8, align_log2: u8, ptr: *mut u8, size: usize) {
    if !ptr.is_null() {
        let lead = format::lead(op, align_log2);
        record(&Call { lead, address: ptr.addr() as u64, size: Some(size as u64) });
    }
}

/// Records that a block is about to be freed or passed to `realloc`, depending on `op`.
#[inline]
pub(crate) fn goes(op: u8, ptr: *mut u8) {
    record(&Call { lead: format::lead(op, 0), address: ptr.addr() as u64, size: None });
}

/// Records the end of a `realloc` of `old`: the new address and the requested size, at least 1, or
/// `old` and size 0 if `new` is null.
#[inline]
pub(crate) fn resized(old: *mut u8, new: *mut u8, size: usize) {
    let (address, size) = if new.is_null() { (old, 0) } else { (new, size.max(1)) };
    let lead = format::lead(op::RESIZED, 0);
    record(&Call { lead, address: address.addr() as u64, size: Some(size as u64) });
}

/// An allocator that passes every call to `A`, and records the calls from [`start`](crate::start)
/// on.
///
/// The trace does not contain blocks allocated before the start. Readers count frees of such
/// blocks as unknown.
///
/// # Examples
///
/// ```
/// use std::alloc::System;
///
/// use ephemera_recorder::TraceAlloc;
///
/// #[global_allocator]
/// static HEAP: TraceAlloc<System> = TraceAlloc::new(System);
///
/// let path = std::env::temp_dir().join(format!("ephemera-doc-{}", std::process::id()));
/// let path = std::ffi::CString::new(path.to_string_lossy().into_owned())?;
/// ephemera_recorder::start(&path, 1 << 20)?;
/// drop(vec![1, 2, 3]);
///
/// let file = format!("{}.{}", path.to_string_lossy(), std::process::id());
/// let trace = ephemera_recorder::Trace::open(file.as_ref())?;
/// assert!(trace.events().count() >= 2);
/// # std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceAlloc<A>(A);

impl<A> TraceAlloc<A> {
    /// Wraps an allocator. The wrapper does not record before [`start`](crate::start) is called.
    #[must_use]
    pub const fn new(alloc: A) -> Self {
        Self(alloc)
    }
}

// SAFETY: every call is forwarded to the inner allocator, which upholds the same contract.
// Recording neither allocates nor unwinds (I5).
unsafe impl<A: GlobalAlloc> GlobalAlloc for TraceAlloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut watch = CallTimer::start();
        // SAFETY: the caller upholds the callee's contract.
        let block = unsafe { self.0.alloc(layout) };
        watch.lap();
        born(op::ALLOC, align_log2(layout.align()), block, layout.size());
        watch.end_recorder();
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let mut watch = CallTimer::start();
        // SAFETY: the caller upholds the callee's contract.
        let block = unsafe { self.0.alloc_zeroed(layout) };
        watch.lap();
        born(op::ZEROED, align_log2(layout.align()), block, layout.size());
        watch.end_recorder();
        block
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let mut watch = CallTimer::start();
        goes(op::FREE, ptr);
        watch.lap();
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.0.dealloc(ptr, layout) };
        watch.end_allocator();
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        goes(op::RESIZE, ptr);
        let mut watch = CallTimer::start();
        // SAFETY: the caller upholds the callee's contract.
        let block = unsafe { self.0.realloc(ptr, layout, new_size) };
        watch.lap();
        resized(ptr, block, new_size);
        watch.end_recorder();
        block
    }
}
