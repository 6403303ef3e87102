//! The source that does nothing: a cursor that wraps around in a store, exactly as large as the
//! demand of the workload, and buffers without an end. A workload over it costs as much as its
//! loop, including the writes.

use crate::buffers::{Buffer, Demand, Readable, Source, growing};
use crate::card::{Caps, Info};
use crate::contenders::blocks::System;

/// The alignment of buffer starts.
const STEP: usize = 16;

/// A store and its cursor.
pub(crate) struct Nothing {
    base: *mut u8,
    /// The cursor wraps around from here. A buffer may reach further.
    limit: usize,
    cursor: usize,
    largest: usize,
    _store: Vec<u8>,
}

impl Nothing {
    #[inline(always)]
    fn next(&mut self, capacity: usize) -> WrappedSlot {
        let at = self.cursor;
        let behind = at + ((capacity + (STEP - 1)) & !(STEP - 1));
        self.cursor = if behind < self.limit { behind } else { 0 };
        WrappedSlot { at: self.base.wrapping_add(at), len: 0 }
    }
}

/// A buffer in the store.
#[derive(Clone)]
pub(crate) struct WrappedSlot {
    at: *mut u8,
    len: usize,
}

impl Readable for WrappedSlot {
    #[inline(always)]
    fn start(&self) -> *const u8 {
        self.at
    }

    #[inline(always)]
    fn read(&self, mut each: impl FnMut(&[u8])) {
        // SAFETY: the bytes are in the store and were written. By the contract of `take`, nothing
        // writes them now.
        each(unsafe { core::slice::from_raw_parts(self.at, self.len) });
    }
}

impl Buffer for WrappedSlot {
    type Frozen = Self;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        // SAFETY: no workload writes more than it took, and the store has that much after the
        // cursor.
        let end = unsafe { self.at.add(self.len) };
        // SAFETY: by the contract of `take`, the bytes in the store are exclusive to this buffer.
        unsafe { end.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.len += bytes.len();
    }

    #[inline(always)]
    fn freeze(self) -> Self {
        self
    }
}

growing! { [] WrappedSlot }

// SAFETY: the store holds everything that is live at a time. So buffers that end in the order in
// which they were taken do not overlap. On one thread nothing depends on that.
unsafe impl Source for Nothing {
    const INFO: Info = Info::new(
        "nothing",
        "none",
        Caps { any_size: false, keeps_contents: false, ..Caps::MAKES_HERE },
        "the loop's own cost: a wrapping cursor, no bookkeeping, no free",
    );
    type Backing = System;
    type Buf = WrappedSlot;
    type Growing<'s> = WrappedSlot;

    fn create(demand: &Demand) -> Self {
        let limit = demand.bytes + STEP * demand.buffers;
        // The store is written here, so that the loop has no page faults.
        let mut store = vec![1; limit + demand.largest + STEP];
        Self { base: store.as_mut_ptr(), limit, cursor: 0, largest: demand.largest, _store: store }
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<WrappedSlot> {
        Some(self.next(capacity))
    }

    #[inline(always)]
    unsafe fn raw_grow(&mut self, _first: usize) -> Option<WrappedSlot> {
        // The buffer may grow to the largest size.
        Some(self.next(self.largest))
    }
}
