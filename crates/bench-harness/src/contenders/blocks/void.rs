//! The allocator that does nothing: its `alloc` moves a cursor that wraps around in a buffer, and
//! its `dealloc` is empty.
//!
//! A workload over this allocator costs as much as the workload's own loop, which the "net" columns
//! subtract. Blocks overlap after the cursor has wrapped around, so a workload that depends on the
//! contents of its blocks does not run over this allocator.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::null_mut;

use crate::blocks::{Contender, RawAlloc};
use crate::card::{Caps, Info};

/// The size of the largest block, in bytes. The buffer has this much room after the position of the
/// last block start.
const SLACK: usize = 64 * 1024;
/// The default size of the range of block starts, in bytes. The range fits well within a
/// first-level cache.
const WRAP: usize = 16 * 1024;
/// The alignment of block starts, in bytes.
const STEP: usize = 16;

/// A cache line of zeros.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct VoidLine(#[expect(dead_code, reason = "its size and alignment are what matters")] [u8; 64]);

/// The allocator that does nothing: a buffer and a cursor.
pub(crate) struct Void {
    base: *mut u8,
    mask: usize,
    cursor: Cell<usize>,
    _buffer: Vec<VoidLine>,
}

impl Void {
    fn with_wrap(wrap: usize) -> Self {
        let mut buffer = vec![VoidLine([0; 64]); (wrap + SLACK) / 64];
        // The wrap is a power of two that is not smaller than the step, so one mask both wraps and
        // aligns the cursor.
        let mask = (wrap - 1) & !(STEP - 1);
        Self { base: buffer.as_mut_ptr().cast(), mask, cursor: Cell::new(0), _buffer: buffer }
    }

    #[inline(always)]
    fn next(&self, layout: Layout) -> *mut u8 {
        let at = self.cursor.get();
        self.cursor.set(at.wrapping_add(layout.size() + (STEP - 1)) & self.mask);
        self.base.wrapping_add(at)
    }

    #[cold]
    fn refuse() -> *mut u8 {
        null_mut()
    }
}

// SAFETY: every block is within the buffer, aligned to `STEP` and at most `SLACK` bytes long.
// Blocks may overlap, because the card turns `keeps_contents` off. `raw_dealloc` does not access
// memory, so any thread may call it.
unsafe impl RawAlloc for &Void {
    #[inline(always)]
    unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > SLACK || layout.align() > STEP {
            return Void::refuse();
        }
        self.next(layout)
    }

    unsafe fn raw_alloc_zeroed(&self, _layout: Layout) -> *mut u8 {
        Void::refuse()
    }

    #[inline(always)]
    unsafe fn raw_dealloc(&self, _ptr: *mut u8, _layout: Layout) {}

    unsafe fn raw_resize<const GROW: bool>(&self, _ptr: *mut u8, _old: Layout, _new: Layout) -> *mut u8 {
        Void::refuse()
    }
}

impl Contender for Void {
    const INFO: Info = Info::new(
        "nothing",
        "none",
        Caps { any_size: false, shared_alloc: false, keeps_contents: false, ..Caps::GENERAL },
        "the loop's own cost: a wrapping cursor, no bookkeeping, no free",
    );
    type Metered = Self;
    type Backing = Self;
    type Ref<'a> = &'a Self;

    fn create() -> Self {
        Self::with_wrap(WRAP)
    }

    fn by_ref(&self) -> &Self {
        self
    }

    fn expect_live(&mut self, bytes: usize) {
        *self = Self::with_wrap((2 * bytes).next_power_of_two().max(WRAP));
    }
}
