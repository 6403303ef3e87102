//! Counts buffers: when they are taken, and when they and all that shares them are gone.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::{ALLOCS, Counted, FREES, born, died};
use crate::buffers::{Buffer, Demand, Growing, Readable, Source};
use crate::card::Info;

/// A buffer's entry in the books: its end is the buffer's.
#[derive(Debug)]
struct BufferLife(usize);

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

/// A counted buffer.
#[derive(Clone, Debug)]
pub struct CountedBuffer<B, L = OwnLife> {
    inner: B,
    life: L,
}

/// A life of one owner.
#[derive(Debug)]
pub struct OwnLife(BufferLife);

/// A life of several.
#[derive(Clone, Debug)]
pub struct Several(#[expect(dead_code, reason = "held for its end")] Arc<BufferLife>);

impl<B: Readable, L> Readable for CountedBuffer<B, L> {
    fn start(&self) -> *const u8 {
        self.inner.start()
    }

    fn read(&self, each: impl FnMut(&[u8])) {
        self.inner.read(each);
    }
}

impl<B: Buffer> Buffer for CountedBuffer<B> {
    type Frozen = CountedBuffer<B::Frozen, Several>;

    fn write(&mut self, bytes: &[u8]) {
        self.inner.write(bytes);
    }

    fn freeze(self) -> Self::Frozen {
        CountedBuffer { inner: self.inner.freeze(), life: Several(Arc::new(self.life.0)) }
    }
}

impl<G: Growing> Growing for CountedBuffer<G> {
    type Done = CountedBuffer<G::Done>;

    fn write(&mut self, bytes: &[u8]) -> bool {
        let life = &mut self.life.0;
        life.0 += bytes.len();
        born(bytes.len());
        self.inner.write(bytes)
    }

    fn finish(self) -> Self::Done {
        CountedBuffer { inner: self.inner.finish(), life: self.life }
    }
}

// SAFETY: every call is forwarded to the contender's own source, which keeps the contract.
unsafe impl<S: Source> Source for Counted<S> {
    const INFO: Info = S::INFO;
    const CHECKED: bool = true;
    type Backing = S::Backing;
    type Buf = CountedBuffer<S::Buf>;
    type Growing<'s> = CountedBuffer<S::Growing<'s>>;

    fn create(demand: &Demand) -> Self {
        Self(S::create(demand))
    }

    unsafe fn raw_take(&mut self, capacity: usize) -> Option<Self::Buf> {
        // Counted where it is refused, too: then it has no life here, but the heap's.
        let life = OwnLife(BufferLife::begin(capacity));
        // SAFETY: the caller's duty is the callee's.
        Some(CountedBuffer { inner: unsafe { self.0.raw_take(capacity) }?, life })
    }

    unsafe fn raw_grow(&mut self, first: usize) -> Option<Self::Growing<'_>> {
        // What it grows to is counted as it is written.
        let life = OwnLife(BufferLife::begin(0));
        // SAFETY: the caller's duty is the callee's.
        Some(CountedBuffer { inner: unsafe { self.0.raw_grow(first) }?, life })
    }

    fn refused(&self) -> u64 {
        self.0.refused()
    }
}
