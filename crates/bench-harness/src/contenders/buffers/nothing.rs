//! The source that does nothing: a cursor that wraps around in a store as large as the workload's
//! demand. Dropping a buffer is a no-op. A workload over this source costs as much as the
//! workload's own loop, including its writes to buffers.

use crate::buffers::{Buffer, Demand, Readable, Source};
use crate::card::{Caps, Info};
use crate::contenders::blocks::System;

/// The unit in which the cursor moves, in bytes.
const STEP: usize = 16;

/// The source that does nothing: a store and a cursor.
pub(crate) struct Nothing {
    base: *mut u8,
    /// The offset in bytes at which the cursor wraps around. A buffer may begin before this offset
    /// and end after it.
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
        // SAFETY: the bytes are within the store and were written. Nothing writes them during this
        // call: by the contract of `raw_take`, buffers that overlap stay on one thread.
        each(unsafe { core::slice::from_raw_parts(self.at, self.len) });
    }
}

impl Buffer for WrappedSlot {
    type Frozen = Self;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        // SAFETY: no workload writes more bytes than it requested, and the store has at least that
        // many bytes after the start of the buffer.
        let end = unsafe { self.at.add(self.len) };
        // SAFETY: by the contract of `raw_take`, no other thread uses these bytes of the store.
        // Workloads write bytes from outside of the store.
        unsafe { end.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.len += bytes.len();
    }

    #[inline(always)]
    fn freeze(self) -> Self {
        self
    }
}

// SAFETY: the cursor moves through the store in order, and the store has room for all buffers that
// are live at the same time. Buffers that are dropped in the order in which they were taken
// therefore do not overlap. The other buffers stay on one thread, and `keeps_contents` is off, so
// no workload depends on their contents.
unsafe impl Source for Nothing {
    const INFO: Info = Info::new(
        "nothing",
        "none",
        Caps { any_size: false, keeps_contents: false, ..Caps::MAKES_HERE },
        "the loop's own cost: a wrapping cursor, no bookkeeping, no free",
    );
    type Backing = System;
    type Buf = WrappedSlot;

    fn create(demand: &Demand) -> Self {
        let limit = demand.bytes + STEP * demand.buffers;
        // Writes the whole store, so that the timed loop does not cause page faults.
        let mut store = vec![1; limit + demand.largest + STEP];
        Self { base: store.as_mut_ptr(), limit, cursor: 0, largest: demand.largest, _store: store }
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<WrappedSlot> {
        Some(self.next(capacity))
    }

    #[inline(always)]
    unsafe fn raw_grown(
        &mut self,
        _first: usize,
        pieces: impl Iterator<Item: AsRef<[u8]>>,
    ) -> Option<WrappedSlot> {
        // The buffer may grow to the largest size, so the cursor skips that many bytes.
        let mut buffer = self.next(self.largest);
        pieces.for_each(|piece| buffer.write(piece.as_ref()));
        Some(buffer)
    }
}
