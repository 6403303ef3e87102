//! Checks that cost: guards with a check value, and a margin behind each buffer. On with the
//! feature `checked`, and in this crate's unit tests.
//!
//! ```text
//!  | mark, asked, word, count | the buffer | margin, at least 32 bytes |
//! ```
//!
//! The mark is a function of the guard's address and word. A release looks at its own guard and
//! margin, so an overrun is reported where it happened and not by the neighbour that it hit; every
//! look of the ring and of a sweep compares the mark. A report is a panic that does not unwind:
//! nothing that frees memory may unwind.
//!
//! The check value and the size make a guard 32 bytes long, hence the granule, and the margin takes
//! as much again: with these 64 bytes alone a ring in given memory has no more to give for its
//! alignment, which costs up to 31 at both ends. So such a ring promises `n - 128` of `n` bytes
//! where it promises `n - 64` without the checks.
//!
//! Safe code cannot do what is checked here: it is for programs that write through raw pointers,
//! such as those to devices.

use core::fmt;

#[cfg(any(feature = "checked", all(test, not(ephemera_loom))))]
pub(crate) use on::{Check, TAIL, asked, create, hand_out, look, release, set};

#[cfg(not(any(feature = "checked", all(test, not(ephemera_loom)))))]
pub(crate) use off::{Check, TAIL, asked, create, hand_out, look, release, set};

/// Says what is wrong and ends the process.
#[cold]
#[inline(never)]
pub(crate) fn stop(what: fmt::Arguments<'_>) -> ! {
    /// A panic does not leave a function of this calling convention.
    extern "C" fn end(what: &fmt::Arguments<'_>) -> ! {
        panic!("ringal: {what}");
    }
    end(&what)
}

/// No checks: nothing to do.
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

    /// Bytes behind each buffer and its rounding.
    pub(crate) const TAIL: usize = 32;

    const _: () = assert!(TAIL % GRANULE == 0, "a region is a multiple of the granule");

    /// What the margin is filled with.
    const FILL: u8 = 0xa7;

    /// Odd and without a pattern: the first bits of the golden ratio.
    const MIX: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize | 1;

    /// The check value of a guard, and the size of its buffer.
    #[derive(Debug)]
    pub(crate) struct Check {
        mark: AtomicUsize,
        asked: AtomicUsize,
    }

    /// # Safety
    /// As for `GuardPtr::create`.
    pub(crate) unsafe fn create(check: *mut Check) {
        // SAFETY: a part of the guard that is being made.
        unsafe { check.write(Check { mark: AtomicUsize::new(0), asked: AtomicUsize::new(0) }) };
    }

    fn mark(guard: GuardPtr, word: Word) -> usize {
        let mixed = (guard.addr() ^ word.bits().rotate_left(13)).wrapping_mul(MIX);
        mixed ^ (mixed >> 17)
    }

    pub(crate) fn set(guard: GuardPtr, word: Word) {
        guard.check().mark.store(mark(guard, word), Ordering::Relaxed);
    }

    /// The ring or a sweep looks at a guard. Who releases it stores the mark first, so a word that
    /// says "taken" may stand beside either mark.
    pub(crate) fn look(guard: GuardPtr, word: Word) {
        let found = guard.check().mark.load(Ordering::Relaxed);
        let right = found == mark(guard, word)
            || word.is_taken()
                && (found == mark(guard, Word::free(word.len())) || is_settling(guard, word, found));
        if !right {
            stop(format_args!(
                "the guard at {:#x} was overwritten: its word says {word:?}, its check value does not",
                guard.addr()
            ));
        }
    }

    /// Whether this is the mark of a late release that has not stored its word yet.
    #[cfg(feature = "alloc")]
    fn is_settling(guard: GuardPtr, word: Word, found: usize) -> bool {
        found == mark(guard, Word::settled(word.len()))
    }

    /// Without a heap no store is closed.
    #[cfg(not(feature = "alloc"))]
    fn is_settling(_guard: GuardPtr, _word: Word, _found: usize) -> bool {
        false
    }

    /// # Safety
    /// The region is the caller's, `bytes` of it are the buffer's, and the rest is behind `data +
    /// bytes`.
    pub(crate) unsafe fn hand_out(guard: GuardPtr, data: NonNull<u8>, bytes: usize, region: usize) {
        guard.check().asked.store(bytes, Ordering::Relaxed);
        let margin = region - GRANULE - bytes;
        // SAFETY: behind the buffer, in its region, by the caller.
        let behind = unsafe { data.add(bytes) };
        // SAFETY: as above, to the region's end.
        unsafe { unpoison(behind, margin) };
        // SAFETY: as above.
        unsafe { behind.write_bytes(FILL, margin) };
    }

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
        // SAFETY: behind the buffer, in its region, by the caller.
        let behind = unsafe { data.add(bytes) };
        // SAFETY: written when the buffer was handed out, and nobody else's since.
        let behind = unsafe { NonNull::slice_from_raw_parts(behind, margin).as_ref() };
        if let Some(last) = behind.iter().rposition(|&byte| byte != FILL) {
            let over = last + 1;
            stop(format_args!(
                "a buffer of {bytes} bytes at {data:p} was overrun by {over} or more of {margin} margin bytes"
            ));
        }
    }

    /// What the buffer in this region was asked to hold.
    pub(crate) fn asked(guard: GuardPtr, _room: usize) -> usize {
        guard.check().asked.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests;
