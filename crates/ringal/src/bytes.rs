//! Traits of the `bytes` crate.

use bytes::buf::UninitSlice;
use bytes::{Buf, BufMut, Bytes};

use crate::{ExtBuf, FixedBuf, FixedBufMut, Full};

/// The bytes stay where they are: the `Bytes` keeps the handle (in a small heap block of its own, one for each conversion), and
/// they go back to the ring with the last clone.
impl From<FixedBuf> for Bytes {
    fn from(buffer: FixedBuf) -> Self {
        Self::from_owner(buffer)
    }
}

/// As from the frozen buffer.
impl From<FixedBufMut> for Bytes {
    fn from(buffer: FixedBufMut) -> Self {
        Self::from_owner(buffer.freeze())
    }
}

// SAFETY: `chunk_mut` is what `advance_mut` counts, the rest of the buffer, and `remaining_mut` is its length.
unsafe impl BufMut for FixedBufMut {
    #[inline]
    fn remaining_mut(&self) -> usize {
        self.spare()
    }

    #[inline]
    unsafe fn advance_mut(&mut self, count: usize) {
        assert!(count <= self.spare(), "advanced by {count} with {} left", self.spare());
        // SAFETY: written, by the caller, and not more than there is room for.
        unsafe { self.set_len(self.len() + count) };
    }

    #[inline]
    fn chunk_mut(&mut self) -> &mut UninitSlice {
        UninitSlice::uninit(self.spare_capacity_mut())
    }
}

/// What remains is what the longest free run would still give, which takes a walk along the ring to say. `put` and `put_slice` grow
/// as far as that goes, and panic beyond, as `BufMut` says.
// SAFETY: `chunk_mut` is what `advance_mut` counts, the rest of the open region; where `remaining_mut` is not zero, it is not empty.
unsafe impl BufMut for ExtBuf<'_> {
    #[inline]
    fn remaining_mut(&self) -> usize {
        self.prospects().max(self.spare())
    }

    #[inline]
    unsafe fn advance_mut(&mut self, count: usize) {
        assert!(count <= self.spare(), "advanced by {count} with {} left", self.spare());
        // SAFETY: written, by the caller, and not more than there is room for.
        unsafe { self.advance(count) };
    }

    #[inline]
    fn chunk_mut(&mut self) -> &mut UninitSlice {
        if self.spare() == 0 {
            // Without more room the chunk is empty, and nothing remains.
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
        if let Err(full) = self.try_extend_from_slice(bytes) {
            out_of_room(full);
        }
    }

    fn put_bytes(&mut self, byte: u8, count: usize) {
        if let Err(full) = self.try_reserve(count) {
            out_of_room(full);
        }
        let spare = &mut self.spare_capacity_mut()[..count];
        spare.fill(core::mem::MaybeUninit::new(byte));
        // SAFETY: filled just now.
        unsafe { self.advance(count) };
    }
}

#[cold]
#[inline(never)]
fn out_of_room(full: Full) -> ! {
    panic!("{full}");
}
