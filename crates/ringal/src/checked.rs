//! Optional checks for memory errors: a check value in each guard, and a margin after each buffer.
//! Enabled by feature `checked`, and in this crate's unit tests.
//!
//! ```text
//!  | mark, asked, word, count | the buffer | margin, at least 32 bytes |
//! ```
//!
//! The mark is a hash of the guard's address and word. A release checks its own guard and margin,
//! so an overrun is reported at the buffer that caused it and not at its neighbour. The ring and
//! the sweeps compare the mark whenever they load a guard. A report ends the process by a panic
//! that cannot unwind, because code that frees memory must not unwind.
//!
//! The mark and the size make a guard, and so the granule, 32 bytes long, and the margin takes
//! another 32. A ring in caller-provided memory also loses up to 31 bytes at each end for
//! alignment. So such a ring promises `n - 128` of `n` bytes, where it promises `n - 64` without
//! the checks.
//!
//! Safe code cannot cause the errors that this finds. It is for programs that write through raw
//! pointers, for instance to pass buffers to devices.

use core::fmt;

#[cfg(any(feature = "checked", all(test, not(ephemera_loom))))]
pub(crate) use on::{Check, TAIL, asked, create, hand_out, look, release, set};

#[cfg(not(any(feature = "checked", all(test, not(ephemera_loom)))))]
pub(crate) use off::{Check, TAIL, asked, create, hand_out, look, release, set};

/// Reports an error and ends the process.
#[cold]
#[inline(never)]
pub(crate) fn stop(what: fmt::Arguments<'_>) -> ! {
    /// A panic cannot unwind out of an `extern "C"` function; it aborts.
    extern "C" fn end(what: &fmt::Arguments<'_>) -> ! {
        panic!("ringal: {what}");
    }
    end(&what)
}

/// The same functions without checks. They do nothing.
#[cfg(not(any(feature = "checked", all(test, not(ephemera_loom)))))]
mod off {
    use core::ptr::NonNull;

    use crate::guard::GuardPtr;
    use crate::word::Word;

    pub(crate) const TAIL: usize = 0;

    #[derive(Debug)]
    pub(crate) struct Check;

    #[inline]
    pub(crate) unsafe fn create(_check: *mut Check) {}

    #[inline]
    pub(crate) fn set(_guard: GuardPtr, _word: Word) {}

    #[inline]
    pub(crate) fn look(_guard: GuardPtr, _word: Word) {}

    #[inline]
    pub(crate) unsafe fn hand_out(_guard: GuardPtr, _data: NonNull<u8>, _bytes: usize, _region: usize) {}

    #[inline]
    pub(crate) unsafe fn release(_guard: GuardPtr, _data: NonNull<u8>, _bytes: usize, _region: usize) {}

    #[inline]
    pub(crate) fn asked(_guard: GuardPtr, room: usize) -> usize {
        room
    }
}

#[cfg(any(feature = "checked", all(test, not(ephemera_loom))))]
mod on {
    use core::ptr::NonNull;

    use ephemera_prim::poison::unpoison;
    use ephemera_prim::sync::{AtomicUsize, Ordering};

    use super::stop;
    use crate::geometry::GRANULE;
    use crate::guard::GuardPtr;
    use crate::word::Word;

    /// The margin after each buffer and its rounding.
    pub(crate) const TAIL: usize = 32;

    const _: () = assert!(TAIL % GRANULE == 0, "a region is a multiple of the granule");

    /// The byte that fills the margin.
    const FILL: u8 = 0xa7;

    /// An odd multiplier without a pattern: the first bits of the golden ratio.
    const MIX: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize | 1;

    /// The check value of a guard, and the size of its buffer.
    #[derive(Debug)]
    pub(crate) struct Check {
        mark: AtomicUsize,
        asked: AtomicUsize,
    }

    /// Creates the check of a new guard.
    ///
    /// # Safety
    /// As for `GuardPtr::create`.
    pub(crate) unsafe fn create(check: *mut Check) {
        // SAFETY: the check is part of a guard that the caller is creating, in a granule that only
        // it accesses.
        unsafe { check.write(Check { mark: AtomicUsize::new(0), asked: AtomicUsize::new(0) }) };
    }

    fn mark(guard: GuardPtr, word: Word) -> usize {
        let mixed = (guard.addr() ^ word.bits().rotate_left(13)).wrapping_mul(MIX);
        mixed ^ (mixed >> 17)
    }

    pub(crate) fn set(guard: GuardPtr, word: Word) {
        guard.check().mark.store(mark(guard, word), Ordering::Relaxed);
    }

    /// Checks a guard that the ring or a sweep has loaded. A release stores the mark before the
    /// word, so with a word that says "taken", the mark may be that of any of the three words.
    pub(crate) fn look(guard: GuardPtr, word: Word) {
        let found = guard.check().mark.load(Ordering::Relaxed);
        let right = found == mark(guard, word)
            || word.is_taken()
                && (found == mark(guard, Word::free(word.len())) || is_settling(guard, word, found));
        if !right {
            stop(format_args!(
                "the guard at {:#x} was overwritten: its check value does not match {word:?}",
                guard.addr()
            ));
        }
    }

    /// Returns whether `found` is the mark of a late release that has not stored its word yet.
    #[cfg(feature = "alloc")]
    fn is_settling(guard: GuardPtr, word: Word, found: usize) -> bool {
        found == mark(guard, Word::settled(word.len()))
    }

    /// Without feature `alloc`, no store is closed, so no release is late.
    #[cfg(not(feature = "alloc"))]
    fn is_settling(_guard: GuardPtr, _word: Word, _found: usize) -> bool {
        false
    }

    /// Records the size of a buffer and fills its margin.
    ///
    /// # Safety
    /// Only the caller accesses the region. The buffer starts at `data` and has `bytes` bytes, and
    /// the region has `region` bytes.
    pub(crate) unsafe fn hand_out(guard: GuardPtr, data: NonNull<u8>, bytes: usize, region: usize) {
        guard.check().asked.store(bytes, Ordering::Relaxed);
        let margin = region - GRANULE - bytes;
        // SAFETY: the buffer has `bytes` bytes, so the result is in its region.
        let behind = unsafe { data.add(bytes) };
        // SAFETY: `margin` bytes follow in the region, which only the caller accesses.
        unsafe { unpoison(behind, margin) };
        // SAFETY: `margin` bytes follow in the region, which only the caller accesses.
        unsafe { behind.write_bytes(FILL, margin) };
    }

    /// Checks the guard and the margin of a buffer that is about to be released.
    ///
    /// # Safety
    /// As for [`hand_out`], which was called with the same arguments.
    pub(crate) unsafe fn release(guard: GuardPtr, data: NonNull<u8>, bytes: usize, region: usize) {
        let word = guard.held();
        if word == Word::free(region) {
            stop(format_args!("a buffer of {bytes} bytes at {data:p} was released twice"));
        }
        if word != Word::taken(region) || guard.check().mark.load(Ordering::Relaxed) != mark(guard, word) {
            stop(format_args!("the guard in front of a buffer of {bytes} bytes at {data:p} was overwritten"));
        }
        let margin = region - GRANULE - bytes;
        // SAFETY: the buffer has `bytes` bytes, so the result is in its region.
        let behind = unsafe { data.add(bytes) };
        // SAFETY: `hand_out` wrote the margin, and nobody else may access it.
        let behind = unsafe { NonNull::slice_from_raw_parts(behind, margin).as_ref() };
        if let Some(last) = behind.iter().rposition(|&byte| byte != FILL) {
            let over = last + 1;
            stop(format_args!(
                "a buffer of {bytes} bytes at {data:p} was overrun by {over} or more bytes (its margin is {margin})"
            ));
        }
    }

    /// Returns the requested size of the buffer in this region.
    pub(crate) fn asked(guard: GuardPtr, _room: usize) -> usize {
        guard.check().asked.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests;
