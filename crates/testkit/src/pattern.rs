//! Defines the patterns that fill blocks. Each seed gives a sequence of bytes with a prime period,
//! so a copy to a wrong offset is detected unless the error is a multiple of the period. The
//! functions fill and compare whole slices, which is fast even under Miri.

use core::ops::Range;
use core::ptr::NonNull;
use std::sync::LazyLock;

use crate::config::{FILLED_EDGE, FILLED_WHOLE};
use crate::rng::SplitMix;

/// The period of every pattern in bytes: a prime just below the size of an OS page.
const PERIOD: usize = 4093;

/// The source of all patterns. The pattern of a seed repeats the [`PERIOD`] bytes that start at the
/// offset `seed`.
static TABLE: LazyLock<[u8; PERIOD + 256]> = LazyLock::new(|| {
    let mut rng = SplitMix::new(0x0e9e_3e3a);
    core::array::from_fn(|_| (rng.draw() >> 56) as u8)
});

/// The zeros that [`first_nonzero`] compares memory with.
static ZEROS: [u8; 4096] = [0; 4096];

/// A byte that differs from its expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) offset: usize,
    pub(crate) found: u8,
    pub(crate) expected: u8,
}

/// Returns the ranges of a block of `len` bytes that carry its pattern: the whole block, or both
/// ends of a very large block.
pub(crate) const fn filled(len: usize) -> [Range<usize>; 2] {
    if len <= FILLED_WHOLE { [0..len, len..len] } else { [0..FILLED_EDGE, len - FILLED_EDGE..len] }
}

/// Writes the pattern of `seed` to the bytes at the offsets `range` from `start`.
///
/// # Safety
///
/// `start` is valid for writes of `range.end` bytes.
pub(crate) unsafe fn fill(start: NonNull<u8>, range: Range<usize>, seed: u8) {
    let mut at = range.start;
    while at < range.end {
        let from = pattern_piece(at, range.end, seed);
        // SAFETY: `at` is below `range.end`, and the caller guarantees `range.end` bytes at
        // `start`.
        let to = unsafe { start.add(at) };
        // SAFETY: the piece ends at or before `range.end`, and the caller guarantees that these
        // bytes are writable. `from` is in a static, so it does not overlap any block.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(from).cast(), from.len()) };
        at += from.len();
    }
}

/// Returns the first byte at the offsets `range` from `start` that differs from the pattern of
/// `seed`, or `None` if there is none.
///
/// # Safety
///
/// `start` is valid for reads of `range.end` bytes. The bytes in `range` are initialised, and no
/// other code writes them during the call.
pub(crate) unsafe fn first_change(start: NonNull<u8>, range: Range<usize>, seed: u8) -> Option<Difference> {
    // SAFETY: the caller guarantees that the bytes in `range` are readable and initialised, and
    // that no other code writes them.
    unsafe { first_difference(start, range, |at, end| pattern_piece(at, end, seed)) }
}

/// Returns the first byte at the offsets `range` from `start` that is not zero, or `None` if there
/// is none.
///
/// # Safety
///
/// `start` is valid for reads of `range.end` bytes. The bytes in `range` are initialised, and no
/// other code writes them during the call.
pub(crate) unsafe fn first_nonzero(start: NonNull<u8>, range: Range<usize>) -> Option<Difference> {
    // SAFETY: the caller guarantees that the bytes in `range` are readable and initialised, and
    // that no other code writes them.
    unsafe { first_difference(start, range, |at, end| &ZEROS[..ZEROS.len().min(end - at)]) }
}

/// Returns a piece of the pattern of `seed` that starts at offset `at`. The piece ends at `end` or
/// at the end of the pattern's period, whichever comes first.
fn pattern_piece(at: usize, end: usize, seed: u8) -> &'static [u8] {
    let phase = at % PERIOD;
    let len = (PERIOD - phase).min(end - at);
    &TABLE[usize::from(seed) + phase..][..len]
}

/// Returns the first byte at the offsets `range` from `start` that differs from the expected bytes,
/// or `None` if there is none. `expect(at, end)` returns at least one of the expected bytes from
/// offset `at`, and none from `end` on.
///
/// # Safety
///
/// `start` is valid for reads of `range.end` bytes. The bytes in `range` are initialised, and no
/// other code writes them during the call.
unsafe fn first_difference(
    start: NonNull<u8>,
    range: Range<usize>,
    expect: impl Fn(usize, usize) -> &'static [u8],
) -> Option<Difference> {
    let mut at = range.start;
    while at < range.end {
        let wanted = expect(at, range.end);
        // SAFETY: `at` is below `range.end`, and the caller guarantees `range.end` bytes at
        // `start`.
        let piece = unsafe { start.add(at) };
        // SAFETY: the piece ends at or before `range.end`. The caller guarantees that its bytes are
        // readable and initialised, and that no other code writes them.
        let found = unsafe { NonNull::slice_from_raw_parts(piece, wanted.len()).as_ref() };
        if found != wanted {
            let index = found.iter().zip(wanted).position(|(one, other)| one != other)?;
            return Some(Difference { offset: at + index, found: found[index], expected: wanted[index] });
        }
        at += wanted.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_byte_is_found_at_every_offset() {
        let mut bytes = alloc::vec![0_u8; 2 * PERIOD + 5];
        let len = bytes.len();
        let start = NonNull::from(bytes.as_mut_slice()).cast::<u8>();
        // SAFETY: `start` points to a live vector of `len` bytes.
        unsafe { fill(start, 0..len, 9) };
        // SAFETY: `start` points to a live vector of `len` bytes, which `fill` has just written.
        assert_eq!(unsafe { first_change(start, 0..len, 9) }, None);
        // SAFETY: `start` points to a live vector of `len` bytes, which `fill` has written.
        assert_eq!(unsafe { first_change(start, 0..len, 10) }.map(|change| change.offset < 4), Some(true));
        for offset in [0, 1, PERIOD - 1, PERIOD, len - 1] {
            // SAFETY: `offset` is below `len`.
            let byte = unsafe { start.add(offset) };
            // SAFETY: `byte` is in the vector.
            let old = unsafe { byte.read() };
            // SAFETY: `byte` is in the vector.
            unsafe { byte.write(!old) };
            // SAFETY: `start` points to a live vector of `len` initialised bytes.
            let change = unsafe { first_change(start, 0..len, 9) };
            assert_eq!(change, Some(Difference { offset, found: !old, expected: old }));
            // SAFETY: `byte` is in the vector.
            unsafe { byte.write(old) };
        }
    }

    #[test]
    fn very_large_block_is_filled_at_both_ends() {
        assert_eq!(filled(10), [0..10, 10..10]);
        let len = FILLED_WHOLE + 1;
        assert_eq!(filled(len), [0..FILLED_EDGE, len - FILLED_EDGE..len]);
    }
}
