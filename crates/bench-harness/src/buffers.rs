//! Byte buffers: what a source of them must offer to be a contender, and how a workload calls it.
//!
//! A buffer is taken with a capacity, written, perhaps frozen and shared, and ends when it is dropped. Handles differ in size
//! and are not passed through [`black_box`] whole, as blocks and keys are: that would send a wide handle through memory
//! and a narrow one not. The address of the bytes is, once after the buffer came and once before it goes: from then on
//! the compiler must take it for known elsewhere, so that neither the pair nor what was written can be removed.

use core::hint::black_box;
use std::sync::Arc;

use crate::blocks::Contender;
use crate::card::Info;

/// What a workload will ask of a source, as its user would know it beforehand. Bounded sources are sized by it.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Bytes of the largest buffer.
    pub largest: usize,
    /// Buffers alive at a time, at most.
    pub buffers: usize,
    /// Bytes alive at a time, at most.
    pub bytes: usize,
}

impl Demand {
    /// So many buffers of up to `largest` bytes.
    #[must_use]
    pub const fn of(buffers: usize, largest: usize) -> Self {
        Self { largest, buffers, bytes: buffers * largest }
    }

    /// Bytes that a user gives to a bounded source: what may be alive, a cache line for each buffer, room for two more of
    /// the largest at the seam; rounded up to a power of two, and at least 64 KiB.
    #[must_use]
    pub const fn store(&self) -> usize {
        let least = 64 * 1024;
        let asked = (self.bytes + 64 * self.buffers + 2 * self.largest).next_power_of_two();
        if asked > least { asked } else { least }
    }
}

/// Bytes that can be read, in one piece or several.
pub trait Readable {
    /// Where the bytes begin, or the handle itself where that would cost more than a load.
    fn start(&self) -> *const u8;

    /// Shows all bytes to `each`, from the first to the last.
    fn read(&self, each: impl FnMut(&[u8]));
}

/// A buffer of a capacity fixed when it was taken.
pub trait Buffer: Readable + 'static {
    /// The same bytes, shared and no longer written.
    type Frozen: Readable + Clone + 'static;

    /// Appends bytes, for which there is room.
    fn write(&mut self, bytes: &[u8]);

    /// Ends writing.
    fn freeze(self) -> Self::Frozen;
}

/// A buffer that grows while it is written.
pub trait Growing {
    /// What it becomes.
    type Done: Buffer;

    /// Appends bytes; whether there was room for them. Where there was none, none is written.
    fn write(&mut self, bytes: &[u8]) -> bool;

    /// Ends growth.
    fn finish(self) -> Self::Done;
}

/// A source of buffers, as the workloads see it.
///
/// # Safety
///
/// A buffer's bytes are its own from [`take`](Self::take) or [`raw_grow`](Self::raw_grow) until it and what it was frozen to are
/// dropped, provided callers keep the duty of these functions.
pub unsafe trait Source: Sized + 'static {
    /// Its card.
    const INFO: Info;

    /// Whether the workload shall verify what it wrote: on in the check run alone, off in the timed one.
    const CHECKED: bool = false;

    /// The general allocator below it, which littering fills with holes.
    type Backing: Contender;

    /// Its buffers; dropped on any thread where [`Caps::any_thread_free`](crate::card::Caps::any_thread_free) is on.
    type Buf: Buffer;

    /// Its buffers while they grow.
    type Growing<'s>: Growing<Done = Self::Buf>;

    /// Makes a source for a workload.
    fn create(demand: &Demand) -> Self;

    /// Takes a buffer; none where a bounded source refuses.
    ///
    /// # Safety
    ///
    /// With it, no more buffers and bytes are alive than [`create`](Self::create) was told, and buffers end in the order
    /// in which they were taken, or on the thread that took them. The source that does nothing knows by this alone
    /// which of its bytes are free.
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<Self::Buf>;

    /// Takes a buffer that grows, from a first capacity; none where a bounded source refuses.
    ///
    /// # Safety
    ///
    /// As for [`raw_take`](Self::raw_take), with the capacity that it grows to.
    unsafe fn raw_grow(&mut self, first: usize) -> Option<Self::Growing<'_>>;

    /// Buffers so far that the source refused, and that workloads took from the heap in its stead.
    fn refused(&self) -> u64 {
        0
    }

    /// What a workload calls to take a buffer: hidden from the optimiser. Where it gets none, it goes to the heap, on a path
    /// of its own, as a user's program would.
    ///
    /// # Safety
    ///
    /// As for [`raw_take`](Self::raw_take).
    #[inline(always)]
    unsafe fn take(&mut self, capacity: usize) -> Option<Self::Buf> {
        // SAFETY: the caller's duty is the callee's.
        let buffer = unsafe { self.raw_take(capacity) }?;
        black_box(buffer.start());
        Some(buffer)
    }

    /// What a workload calls to take a buffer that it keeps, filled with pieces.
    ///
    /// # Safety
    ///
    /// As for [`raw_take`](Self::raw_take), with the length of the pieces.
    #[inline(always)]
    unsafe fn filled<const PIECES: usize>(&mut self, pieces: [&[u8]; PIECES]) -> OrHeap<Self::Buf> {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        // SAFETY: the caller's duty is the callee's.
        let Some(mut buffer) = (unsafe { self.take(length) }) else { return OrHeap::gone_to(&pieces) };
        for piece in pieces {
            buffer.write(piece);
        }
        OrHeap::Own(buffer)
    }

    /// What a workload calls to take a buffer that it keeps, which grows by writes of `chunk` bytes.
    ///
    /// # Safety
    ///
    /// As for [`raw_take`](Self::raw_take), with the length of the bytes.
    #[inline(always)]
    unsafe fn grown(&mut self, bytes: &[u8], chunk: usize) -> OrHeap<Self::Buf> {
        // SAFETY: the caller's duty is the callee's.
        let Some(mut growing) = (unsafe { self.raw_grow(chunk) }) else { return OrHeap::gone_to(&[bytes]) };
        for chunk in bytes.chunks(chunk) {
            if !growing.write(chunk) {
                drop(growing.finish());
                return OrHeap::gone_to(&[bytes]);
            }
        }
        OrHeap::Own(growing.finish())
    }
}

/// A buffer that a workload keeps: the source's own, or the heap's where the source refused.
#[derive(Debug)]
pub enum OrHeap<B> {
    /// The source's own.
    Own(B),
    /// The heap's.
    Heap(Vec<u8>),
}

impl<B> OrHeap<B> {
    #[cold]
    #[inline(never)]
    fn gone_to(pieces: &[&[u8]]) -> Self {
        Self::Heap(pieces.concat())
    }
}

impl<B: Readable> Readable for OrHeap<B> {
    #[inline(always)]
    fn start(&self) -> *const u8 {
        match self {
            Self::Own(buffer) => buffer.start(),
            Self::Heap(buffer) => buffer.as_ptr(),
        }
    }

    #[inline(always)]
    fn read(&self, mut each: impl FnMut(&[u8])) {
        match self {
            Self::Own(buffer) => buffer.read(each),
            Self::Heap(buffer) => each(buffer),
        }
    }
}

impl Readable for Vec<u8> {
    fn start(&self) -> *const u8 {
        self.as_ptr()
    }

    fn read(&self, mut each: impl FnMut(&[u8])) {
        each(self);
    }
}

impl Readable for Arc<Vec<u8>> {
    fn start(&self) -> *const u8 {
        self.as_ptr()
    }

    fn read(&self, mut each: impl FnMut(&[u8])) {
        each(self);
    }
}

/// The heap's own buffers: where a workload goes when a source refuses.
impl Buffer for Vec<u8> {
    type Frozen = Arc<Self>;

    fn write(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn freeze(self) -> Arc<Self> {
        Arc::new(self)
    }
}

/// What a workload calls to drop a buffer, frozen or not: hidden from the optimiser.
#[inline(always)]
pub fn give<B: Readable>(buffer: B) {
    black_box(buffer.start());
    drop(buffer);
}
