//! `bytesbuf`: buffers of one or more spans from a pool of blocks, frozen into views.

use bytesbuf::mem::GlobalPool;
use bytesbuf::{BytesBuf, BytesView};

use crate::buffers::{Buffer, Demand, Readable, Source};
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

    fn create(_demand: &Demand) -> Self {
        Self(GlobalPool::new())
    }

    #[inline(always)]
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<BytesBuf> {
        Some(self.0.reserve(capacity))
    }

    #[inline(always)]
    unsafe fn raw_grown(
        &mut self,
        first: usize,
        pieces: impl Iterator<Item: AsRef<[u8]>>,
    ) -> Option<BytesBuf> {
        let mut buffer = self.0.reserve(first);
        for piece in pieces {
            // Does nothing if the buffer has room for this piece.
            buffer.reserve(piece.as_ref().len(), &self.0);
            buffer.put_slice(piece.as_ref());
        }
        Some(buffer)
    }
}
