//! The source that does nothing: a cursor that wraps around in a store exactly as large as what the workload holds, and no
//! end of a buffer. What a workload costs over it is the loop's own cost, the writing of the bytes included.

use crate::buffers::{Buffer, Demand, Growing, Readable, Source};
use crate::card::{Caps, Info, MemoryBy};
use crate::contenders::blocks::System;

/// Buffers start at multiples of this.
const STEP: usize = 16;

/// A store and its cursor.
#[derive(Debug)]
pub struct Nothing {
    base: *mut u8,
    /// From here on the cursor wraps around; a buffer may reach beyond.
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

/// Bytes of the store.
#[derive(Clone, Copy, Debug)]
pub struct WrappedSlot {
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
        // SAFETY: the bytes lie in the store, were written, and by the caller's duty in `take` nobody writes them now.
        each(unsafe { core::slice::from_raw_parts(self.at, self.len) });
    }
}

impl Buffer for WrappedSlot {
    type Frozen = Self;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        // SAFETY: no workload writes more than it took, which the store has behind the cursor.
        let end = unsafe { self.at.add(self.len) };
        // SAFETY: as above; by the caller's duty in `take` the bytes are this buffer's.
        unsafe { end.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.len += bytes.len();
    }

    #[inline(always)]
    fn freeze(self) -> Self {
        self
    }
}

impl Growing for WrappedSlot {
    type Done = Self;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> bool {
        Buffer::write(self, bytes);
        true
    }

    #[inline(always)]
    fn finish(self) -> Self {
        self
    }
}

// SAFETY: buffers follow one another in a store that holds what is alive at a time, so that those which end in the order in
// which they were taken do not overlap while they live; on one thread, nothing depends on whether they do.
unsafe impl Source for Nothing {
    const INFO: Info = Info {
        name: "nothing",
        version: "none",
        caps: Caps { shared_alloc: false, any_size: false, keeps_contents: false, ..Caps::GENERAL },
        memory: MemoryBy::HighWater,
        notes: "the loop's own cost: a wrapping cursor, no bookkeeping, no free",
    };
    type Backing = System;
    type Buf = WrappedSlot;
    type Growing<'s> = WrappedSlot;

    fn create(demand: &Demand) -> Self {
        let limit = demand.bytes + STEP * demand.buffers;
        // Written, so that the loop pays no page faults.
        let mut store = vec![1; limit + demand.largest + STEP];
        Self { base: store.as_mut_ptr(), limit, cursor: 0, largest: demand.largest, _store: store }
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<WrappedSlot> {
        Some(self.next(capacity))
    }

    #[inline(always)]
    unsafe fn raw_grow(&mut self, _first: usize) -> Option<WrappedSlot> {
        // It may grow to the largest.
        Some(self.next(self.largest))
    }
}
