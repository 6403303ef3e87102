//! Byte buffers: the interface of contenders, and the calls of workloads.
//!
//! A workload takes a buffer with a capacity, writes it, may freeze and share it, and drops it.
//! Handles differ in size, so [`black_box`] does not take them whole: a wide handle would travel
//! through memory and a narrow one would not. It takes the address of the bytes instead, once after
//! the buffer is taken and once before it is dropped. So the compiler must assume that others know
//! the address, and can remove neither the pair nor the written bytes.

use core::hint::black_box;
use std::sync::Arc;

use crate::blocks::Contender;
use crate::card::Info;

/// The demand of a workload, as a user would know it in advance. It decides the size of a bounded
/// source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// The bytes of the largest buffer.
    pub(crate) largest: usize,
    /// The largest number of live buffers at a time.
    pub(crate) buffers: usize,
    /// The largest number of live bytes at a time.
    pub(crate) bytes: usize,
}

impl Demand {
    /// Creates the demand for `buffers` buffers of up to `largest` bytes.
    pub(crate) const fn of(buffers: usize, largest: usize) -> Self {
        Self { largest, buffers, bytes: buffers * largest }
    }

    /// Returns the bytes that a user gives to a bounded source: the live bytes, a cache line for
    /// each buffer, and room for two more of the largest at the seam. They are rounded up to a
    /// power of two of at least 64 KiB.
    pub(crate) const fn store(&self) -> usize {
        let least = 64 * 1024;
        let asked = (self.bytes + 64 * self.buffers + 2 * self.largest).next_power_of_two();
        if asked > least { asked } else { least }
    }
}

/// Bytes that can be read, in one piece or several.
pub(crate) trait Readable {
    /// Returns the address of the bytes, or of the handle if that would cost more than a load.
    fn start(&self) -> *const u8;

    /// Passes all bytes to `each`, from the first to the last.
    fn read(&self, each: impl FnMut(&[u8]));
}

/// A buffer whose capacity is fixed.
pub(crate) trait Buffer: Readable + 'static {
    /// The same bytes, shared and read-only.
    type Frozen: Readable + Clone + 'static;

    /// Appends bytes. There is room for them.
    fn write(&mut self, bytes: &[u8]);

    /// Ends the writing.
    fn freeze(self) -> Self::Frozen;
}

/// A buffer that grows while it is written.
pub(crate) trait Growing {
    /// The buffer after its growth.
    type Done: Buffer;

    /// Appends bytes and returns `true`, or writes none and returns `false` if there is no room.
    fn write(&mut self, bytes: &[u8]) -> bool;

    /// Ends the growth.
    fn finish(self) -> Self::Done;
}

/// A source of buffers, as a workload sees it.
///
/// # Safety
///
/// A buffer's bytes are exclusive from [`take`](Self::take) or [`raw_grow`](Self::raw_grow) until
/// the buffer and all its frozen copies are dropped, if callers keep the contracts of these
/// functions.
pub(crate) unsafe trait Source: Sized + 'static {
    /// The contender's card.
    const INFO: Info;

    /// Whether the workload verifies the bytes that it wrote. Only a check run does; a timed run
    /// does not.
    const CHECKED: bool = false;

    /// The general allocator below the source, which littering fills with holes.
    type Backing: Contender;

    /// The buffers. If [`Caps::any_thread_free`](crate::card::Caps::any_thread_free) is on, any
    /// thread may drop them.
    type Buf: Buffer;

    /// The buffers while they grow.
    type Growing<'s>: Growing<Done = Self::Buf>;

    /// Creates a source for a workload.
    fn create(demand: &Demand) -> Self;

    /// Takes a buffer. Returns `None` if a bounded source refuses.
    ///
    /// # Safety
    ///
    /// With the new buffer, the live buffers and bytes are at most those announced to
    /// [`create`](Self::create). Buffers end in the order in which they were taken, or on the
    /// thread that took them. The source that does nothing relies on this to know which bytes are
    /// free.
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<Self::Buf>;

    /// Takes a buffer that grows, with a first capacity. Returns `None` if a bounded source
    /// refuses.
    ///
    /// # Safety
    ///
    /// As for [`raw_take`](Self::raw_take), with the capacity that the buffer grows to.
    unsafe fn raw_grow(&mut self, first: usize) -> Option<Self::Growing<'_>>;

    /// Returns the number of buffers that the source refused and the heap served.
    fn refused(&self) -> u64 {
        0
    }

    /// Takes a buffer for a workload, hidden from the optimiser. On a refusal the workload takes
    /// one from the heap on a separate path, as a user's program would.
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

    /// Takes a buffer that a workload keeps, and fills it with pieces.
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

    /// Takes a buffer that a workload keeps, and grows it by writes of `chunk` bytes.
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

/// A buffer that a workload keeps: the source's own, or the heap's after a refusal.
#[derive(Debug)]
pub(crate) enum OrHeap<B> {
    /// The source's own buffer.
    Own(B),
    /// A buffer of the heap.
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

/// Reads handles that dereference to all their bytes.
macro_rules! readable {
    ($([$($generics:tt)*] $handle:ty),+ $(,)?) => {
        $(impl<$($generics)*> $crate::buffers::Readable for $handle {
            #[inline(always)]
            fn start(&self) -> *const u8 {
                self.as_ptr()
            }

            #[inline(always)]
            fn read(&self, mut each: impl FnMut(&[u8])) {
                each(self);
            }
        })+
    };
}
pub(crate) use readable;

/// Implements `Growing` for buffers that a write makes longer. Such a buffer is also the finished
/// one.
macro_rules! growing {
    ($([$($generics:tt)*] $buffer:ty),+ $(,)?) => {
        $(impl<$($generics)*> $crate::buffers::Growing for $buffer {
            type Done = Self;

            #[inline(always)]
            fn write(&mut self, bytes: &[u8]) -> bool {
                $crate::buffers::Buffer::write(self, bytes);
                true
            }

            #[inline(always)]
            fn finish(self) -> Self {
                self
            }
        })+
    };
}
pub(crate) use growing;

readable! { [] Vec<u8>, [] Arc<Vec<u8>> }

/// The buffers of the heap, which a workload uses after a refusal.
impl Buffer for Vec<u8> {
    type Frozen = Arc<Self>;

    fn write(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn freeze(self) -> Arc<Self> {
        Arc::new(self)
    }
}

/// Drops a buffer of a workload, frozen or not, hidden from the optimiser.
#[inline(always)]
pub(crate) fn give<B: Readable>(buffer: B) {
    black_box(buffer.start());
    drop(buffer);
}
