//! Counts buffers: an allocation when a buffer is taken, and a free when its last handle is
//! dropped.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::{ALLOCS, Counted, FREES, born, died};
use crate::buffers::{Buffer, Demand, Readable, Source};
use crate::card::Info;

/// The size of one counted buffer, in bytes. `begin` counts an allocation, and `drop` counts a
/// free.
pub(crate) struct BufferLife(usize);

impl BufferLife {
    fn begin(bytes: usize) -> Self {
        ALLOCS.fetch_add(1, Relaxed);
        born(bytes);
        Self(bytes)
    }
}

impl Drop for BufferLife {
    fn drop(&mut self) {
        FREES.fetch_add(1, Relaxed);
        died(self.0);
    }
}

/// A counted buffer. The handles of a frozen buffer share one [`BufferLife`].
#[derive(Clone)]
pub(crate) struct CountedBuffer<B, L = BufferLife> {
    inner: B,
    life: L,
}

impl<B: Readable, L> Readable for CountedBuffer<B, L> {
    fn start(&self) -> *const u8 {
        self.inner.start()
    }

    fn read(&self, each: impl FnMut(&[u8])) {
        self.inner.read(each);
    }
}

impl<B: Buffer> Buffer for CountedBuffer<B> {
    type Frozen = CountedBuffer<B::Frozen, Arc<BufferLife>>;

    fn write(&mut self, bytes: &[u8]) {
        self.inner.write(bytes);
    }

    fn freeze(self) -> Self::Frozen {
        CountedBuffer { inner: self.inner.freeze(), life: Arc::new(self.life) }
    }
}

// SAFETY: every call is forwarded to the contender's own source, which upholds the contract.
unsafe impl<S: Source> Source for Counted<S> {
    const INFO: Info = S::INFO;
    const CHECKED: bool = true;
    type Backing = S::Backing;
    type Buf = CountedBuffer<S::Buf>;

    fn create(demand: &Demand) -> Self {
        Self(S::create(demand))
    }

    unsafe fn raw_take(&mut self, capacity: usize) -> Option<Self::Buf> {
        // A refused request counts as an allocation and, at once, as a free. The buffer that the
        // heap serves instead is not counted.
        let life = BufferLife::begin(capacity);
        // SAFETY: the caller upholds the callee's contract.
        Some(CountedBuffer { inner: unsafe { self.0.raw_take(capacity) }?, life })
    }

    unsafe fn raw_grown(
        &mut self,
        first: usize,
        pieces: impl Iterator<Item: AsRef<[u8]>>,
    ) -> Option<Self::Buf> {
        let mut life = BufferLife::begin(0);
        // Counts the bytes as the buffer grows.
        let counted = pieces.inspect(|piece| {
            life.0 += piece.as_ref().len();
            born(piece.as_ref().len());
        });
        // SAFETY: the caller upholds the callee's contract.
        Some(CountedBuffer { inner: unsafe { self.0.raw_grown(first, counted) }?, life })
    }
}
