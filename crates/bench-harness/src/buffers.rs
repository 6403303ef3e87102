//! Byte buffers: the traits that contenders implement, and the methods that workloads call.
//!
//! A workload takes a buffer with a capacity, writes to it, and drops it. Some workloads freeze and
//! share the buffer before the drop. Handles differ in size, so [`black_box`] does not take whole
//! handles: a wide handle would pass through memory and a narrow one would not. [`black_box`] takes
//! the address of the bytes instead, after [`Source::take`] and before the drop. The compiler must
//! assume that other code knows the address, so it can remove neither the allocation and its free
//! nor the written bytes.

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use crate::blocks::Contender;
use crate::card::Info;

/// The largest amounts that a workload holds at once. A user would know them in advance.
/// [`store`](Self::store) derives the size of a bounded source from them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// The size of the largest buffer, in bytes.
    pub(crate) largest: usize,
    /// The largest number of buffers that are live at once.
    pub(crate) buffers: usize,
    /// The largest number of bytes that are live at once.
    pub(crate) bytes: usize,
}

impl Demand {
    /// Creates the demand for `buffers` buffers of up to `largest` bytes.
    pub(crate) const fn of(buffers: usize, largest: usize) -> Self {
        Self { largest, buffers, bytes: buffers * largest }
    }

    /// Returns the size in bytes that a user would choose for a bounded source. A source of this
    /// size has room for the live bytes, a cache line for each buffer, and two more of the largest
    /// buffers. A ring needs the room for these two because the memory at its end stays unused when
    /// it wraps around. The size is rounded up to a power of two of at least 64 KiB.
    pub(crate) const fn store(&self) -> usize {
        let least = 64 * 1024;
        let asked = (self.bytes + 64 * self.buffers + 2 * self.largest).next_power_of_two();
        if asked > least { asked } else { least }
    }
}

/// A sequence of bytes that can be read, in one piece or several.
pub(crate) trait Readable {
    /// Returns the address of the bytes, or the address of the handle if the address of the bytes
    /// costs more than a load.
    fn start(&self) -> *const u8;

    /// Passes all bytes to `each`, in order.
    fn read(&self, each: impl FnMut(&[u8]));
}

/// A buffer that is written and then read.
pub(crate) trait Buffer: Readable + 'static {
    /// The handle of a frozen buffer: the same bytes, shared and read-only.
    type Frozen: Readable + Clone + 'static;

    /// Appends bytes. The caller guarantees that the buffer has room for them or can grow.
    fn write(&mut self, bytes: &[u8]);

    /// Makes the buffer read-only.
    fn freeze(self) -> Self::Frozen;
}

/// A source of buffers, as a workload sees it.
///
/// # Safety
///
/// A buffer's bytes are exclusive to it from [`raw_take`](Self::raw_take) or
/// [`raw_grown`](Self::raw_grown) until the buffer and all its frozen handles are dropped, provided
/// that callers uphold the contracts of these functions.
pub(crate) unsafe trait Source: Sized + 'static {
    const INFO: Info;

    /// Whether the workload verifies the bytes that it wrote: `true` in a counted run, which is a
    /// check or the memory pass, and `false` in a timed run.
    const CHECKED: bool = false;

    /// The heap that is littered before a workload on a littered heap runs: the general allocator
    /// from which the source takes its memory.
    type Backing: Contender;

    /// A buffer. If [`Caps::any_thread_free`](crate::card::Caps::any_thread_free) is on, any thread
    /// may drop it.
    type Buf: Buffer;

    /// Creates a source for a workload.
    fn create(demand: &Demand) -> Self;

    /// Takes a buffer with room for `capacity` bytes. Returns `None` if a bounded source refuses.
    ///
    /// # Safety
    ///
    /// Including the new buffer, the live buffers and bytes must not exceed the demand that was
    /// passed to [`create`](Self::create). Buffers must be dropped in the order in which they were
    /// taken, or on the thread that took them. The source that does nothing relies on this
    /// contract, because it does not track which bytes are free.
    unsafe fn raw_take(&mut self, capacity: usize) -> Option<Self::Buf>;

    /// Takes a buffer with the capacity `first`, which grows while `pieces` are written to it one
    /// by one. Returns `None` if a bounded source refuses the buffer or a piece. The provided
    /// method is for buffers that [`Buffer::write`] can grow.
    ///
    /// # Safety
    ///
    /// The contract of [`raw_take`](Self::raw_take) applies to the larger of `first` and the total
    /// length of the pieces.
    #[inline(always)]
    unsafe fn raw_grown(
        &mut self,
        first: usize,
        pieces: impl Iterator<Item: AsRef<[u8]>>,
    ) -> Option<Self::Buf> {
        // SAFETY: the caller upholds the callee's contract.
        let mut buffer = unsafe { self.raw_take(first) }?;
        for piece in pieces {
            buffer.write(piece.as_ref());
        }
        Some(buffer)
    }

    /// Takes a buffer of `capacity` bytes for a workload, and hides its address from the optimiser.
    /// Returns `None` if the source refuses. The workload then takes a buffer from the heap on a
    /// separate path, as a user's program would.
    ///
    /// # Safety
    ///
    /// The contract of [`raw_take`](Self::raw_take) applies.
    #[inline(always)]
    unsafe fn take(&mut self, capacity: usize) -> Option<Self::Buf> {
        // SAFETY: the caller upholds the callee's contract.
        let buffer = unsafe { self.raw_take(capacity) }?;
        black_box(buffer.start());
        Some(buffer)
    }

    /// Takes a buffer for a workload to keep, from the heap if the source refuses, and writes
    /// `pieces` to it.
    ///
    /// # Safety
    ///
    /// The contract of [`raw_take`](Self::raw_take) applies to the total length of the pieces.
    #[inline(always)]
    unsafe fn filled<const PIECES: usize>(&mut self, pieces: [&[u8]; PIECES]) -> OrHeap<Self::Buf> {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        // SAFETY: the caller upholds the callee's contract.
        let Some(mut buffer) = (unsafe { self.take(length) }) else { return OrHeap::on_heap(&pieces) };
        for piece in pieces {
            buffer.write(piece);
        }
        OrHeap::Own(buffer)
    }

    /// Takes a buffer for a workload to keep, and writes `bytes` to it in pieces of `chunk` bytes.
    /// If the source refuses or the buffer cannot grow, returns a buffer from the heap.
    ///
    /// # Safety
    ///
    /// The contract of [`raw_take`](Self::raw_take) applies to the larger of `chunk` and the length
    /// of `bytes`.
    #[inline(always)]
    unsafe fn grown(&mut self, bytes: &[u8], chunk: usize) -> OrHeap<Self::Buf> {
        // SAFETY: the caller upholds the callee's contract.
        let grown = unsafe { self.raw_grown(chunk, bytes.chunks(chunk)) };
        grown.map_or_else(|| OrHeap::on_heap(&[bytes]), OrHeap::Own)
    }
}

/// The number of requests that a source refused and the heap served instead.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// The lock of tests that count refusals. A test whose source may refuse a request holds it,
/// because [`refused`] counts the requests of all threads.
#[cfg(test)]
pub(crate) static REFUSALS: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Returns the number of requests of the process that a source refused and the heap served instead.
pub(crate) fn refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// Returns an empty vector with this capacity, for a buffer that the source refused.
#[cold]
#[inline(never)]
pub(crate) fn heap(capacity: usize) -> Vec<u8> {
    REFUSED.fetch_add(1, Relaxed);
    Vec::with_capacity(capacity)
}

/// A buffer that a workload keeps: from the source, or from the heap if the source refused the
/// request.
pub(crate) enum OrHeap<B> {
    /// A buffer from the source.
    Own(B),
    /// A buffer from the heap.
    Heap(Vec<u8>),
}

impl<B> OrHeap<B> {
    #[cold]
    #[inline(never)]
    fn on_heap(pieces: &[&[u8]]) -> Self {
        let mut buffer = heap(pieces.iter().map(|piece| piece.len()).sum());
        pieces.iter().for_each(|piece| buffer.extend_from_slice(piece));
        Self::Heap(buffer)
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

/// Implements `Readable` for handles that dereference to all their bytes.
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

/// Implements `Readable` and `Buffer` for a buffer that is written like a vector. `$freeze` turns
/// it into its frozen handle, which is `Readable`.
macro_rules! extending {
    ($buffer:ty => $frozen:ty, $freeze:path) => {
        $crate::buffers::readable! { [] $buffer, [] $frozen }

        impl $crate::buffers::Buffer for $buffer {
            type Frozen = $frozen;

            #[inline(always)]
            fn write(&mut self, bytes: &[u8]) {
                self.extend_from_slice(bytes);
            }

            #[inline(always)]
            fn freeze(self) -> $frozen {
                $freeze(self)
            }
        }
    };
}
pub(crate) use extending;

// A buffer from the heap, which a workload takes after a refusal.
extending! { Vec<u8> => Arc<Vec<u8>>, Arc::new }

/// Hides the address of a workload's buffer from the optimiser, and drops the buffer. The buffer
/// may be frozen.
#[inline(always)]
pub(crate) fn give<B: Readable>(buffer: B) {
    black_box(buffer.start());
    drop(buffer);
}
