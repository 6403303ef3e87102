//! Conversions to types of the `bytes` crate, and implementations of its traits.

use bytes::buf::UninitSlice;
use bytes::{Buf, BufMut, Bytes};

use crate::{ExtBuf, FixedBuf, FixedBufMut, Full};

/// Converts the handle without copying the bytes. Each conversion allocates a small heap block for
/// the handle. Dropping the last clone of the `Bytes` drops the handle.
impl From<FixedBuf> for Bytes {
    fn from(buffer: FixedBuf) -> Self {
        Self::from_owner(buffer)
    }
}

/// Freezes the buffer and converts it without copying the bytes.
impl From<FixedBufMut> for Bytes {
    fn from(buffer: FixedBufMut) -> Self {
        Self::from_owner(buffer.freeze())
    }
}

// SAFETY: `chunk_mut` returns the unwritten tail of the buffer, and `remaining_mut` returns the
// length of the tail. `advance_mut` advances from the start of the tail.
unsafe impl BufMut for FixedBufMut {
    #[inline]
    fn remaining_mut(&self) -> usize {
        self.spare()
    }

    #[inline]
    unsafe fn advance_mut(&mut self, count: usize) {
        assert_fits(count, self.spare());
        // SAFETY: the first `len()` bytes are initialised (B1), and the caller has written the
        // `count` bytes after them. The assertion shows that they fit.
        unsafe { self.set_len(self.len() + count) };
    }

    #[inline]
    fn chunk_mut(&mut self) -> &mut UninitSlice {
        UninitSlice::uninit(self.spare_capacity_mut())
    }
}

/// `remaining_mut` returns how many bytes could be appended if the buffer moved to the longest free
/// run. It visits every region of the ring. The `put` methods append up to that number of bytes,
/// and panic if the bytes do not fit, as `BufMut` requires.
// SAFETY: `chunk_mut` returns the unwritten tail of the open region, and `advance_mut` advances
// from the start of that tail. The tail is empty only if the ring had no room for another byte.
unsafe impl BufMut for ExtBuf<'_> {
    #[inline]
    fn remaining_mut(&self) -> usize {
        self.prospects().max(self.spare())
    }

    #[inline]
    unsafe fn advance_mut(&mut self, count: usize) {
        assert_fits(count, self.spare());
        // SAFETY: the first `len()` bytes are initialised, and the caller has written the `count`
        // bytes after them. The assertion shows that they fit.
        unsafe { self.set_len(self.len() + count) };
    }

    #[inline]
    fn chunk_mut(&mut self) -> &mut UninitSlice {
        if self.spare() == 0 {
            // If the buffer cannot grow by one byte, the chunk stays empty, and `remaining_mut` is
            // zero until a thread frees a buffer or this buffer is shortened.
            let _ = self.try_reserve(64).or_else(|_| self.try_reserve(1));
        }
        UninitSlice::uninit(self.spare_capacity_mut())
    }

    #[inline]
    fn put<T: Buf>(&mut self, mut bytes: T) {
        while bytes.has_remaining() {
            let count = bytes.chunk().len();
            self.put_slice(bytes.chunk());
            bytes.advance(count);
        }
    }

    #[inline]
    fn put_slice(&mut self, bytes: &[u8]) {
        self.try_extend_from_slice(bytes).unwrap_or_else(|full| out_of_room(full));
    }

    fn put_bytes(&mut self, byte: u8, count: usize) {
        self.try_reserve(count).unwrap_or_else(|full| out_of_room(full));
        let spare = &mut self.spare_capacity_mut()[..count];
        spare.fill(core::mem::MaybeUninit::new(byte));
        // SAFETY: the first `len()` bytes are initialised, and `fill` has just written the `count`
        // bytes after them. `try_reserve` made room for them.
        unsafe { self.set_len(self.len() + count) };
    }
}

#[inline]
#[track_caller]
fn assert_fits(count: usize, spare: usize) {
    assert!(count <= spare, "cannot advance by {count} bytes: the buffer has room for {spare}");
}

#[cold]
#[inline(never)]
fn out_of_room(full: Full) -> ! {
    panic!("{full}");
}
