//! `bytesbuf`: buffers of one or more spans from a pool of blocks, frozen into views.

use bytesbuf::mem::GlobalPool;
use bytesbuf::{BytesBuf, BytesView};

use crate::buffers::{Buffer, Demand, Growing, Readable, Source};
use crate::card::{Caps, Info};
use crate::contenders::blocks::System;

pub(crate) struct BytesBufPool(GlobalPool);

impl Readable for BytesBuf {
    /// Returns the address of the handle. To get the address of the bytes, this function would have
    /// to create a view, which changes reference counts.
    #[inline(always)]
    fn start(&self) -> *const u8 {
        (&raw const *self).cast()
    }

    #[inline(always)]
    fn read(&self, each: impl FnMut(&[u8])) {
        self.peek().read(each);
    }
}

impl Readable for BytesView {
    #[inline(always)]
    fn start(&self) -> *const u8 {
        self.first_slice().as_ptr()
    }

    #[inline(always)]
    fn read(&self, mut each: impl FnMut(&[u8])) {
        for (bytes, _) in self.slices() {
            each(bytes);
        }
    }
}

impl Buffer for BytesBuf {
    type Frozen = BytesView;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        self.put_slice(bytes);
    }

    #[inline(always)]
    fn freeze(mut self) -> BytesView {
        self.consume_all()
    }
}

/// A buffer that grows, and the pool that provides its memory.
pub(crate) struct BytesBufWriting<'s> {
    buffer: BytesBuf,
    pool: &'s GlobalPool,
}

impl Growing for BytesBufWriting<'_> {
    type Done = BytesBuf;

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> bool {
        // Does nothing if the buffer has room for these bytes.
        self.buffer.reserve(bytes.len(), self.pool);
        self.buffer.put_slice(bytes);
        true
    }

    #[inline(always)]
    fn finish(self) -> BytesBuf {
        self.buffer
    }
}

// SAFETY: the crate's safe interface hands out only buffers that do not overlap.
unsafe impl Source for BytesBufPool {
    const INFO: Info = Info::new(
        "bytesbuf",
        env!("EPHEMERA_VERSION_BYTESBUF"),
        Caps::MAKES_HERE,
        "spans, not one slice; read through a view",
    );
    type Backing = System;
    type Buf = BytesBuf;
    type Growing<'s> = BytesBufWriting<'s>;

    fn create(_demand: &Demand) -> Self {
        Self(GlobalPool::new())
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<BytesBuf> {
        Some(self.0.reserve(capacity))
    }

    #[inline(always)]
    unsafe fn raw_grow(&mut self, first: usize) -> Option<BytesBufWriting<'_>> {
        Some(BytesBufWriting { buffer: self.0.reserve(first), pool: &self.0 })
    }
}
