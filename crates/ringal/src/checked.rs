//! Optional checks for memory errors: a check value in each guard, and a margin after each buffer.
//! Feature `checked` and this crate's unit tests enable these checks.
//!
//! ```text
//!  | mark, asked, word, count | the buffer | margin, at least 32 bytes |
//! ```
//!
//! The *mark* is the check value: a hash of the guard's address and word. A release checks the
//! guard and margin of its own buffer, so the report of an overrun into the margin names the
//! overrun buffer and not a neighbour. The ring and the sweeps check the mark of each guard that
//! they visit. A report ends the process with a panic that cannot unwind, because code that frees
//! memory must not unwind.
//!
//! On 64-bit targets, a guard with the mark and the requested size has 32 bytes, and so has the
//! granule. The margin has at least 32 bytes. A ring in caller-provided memory also loses up to 31
//! bytes at each end to alignment. It therefore promises `n - 128` of `n` bytes, and `n - 64` in
//! builds without the checks.
//!
//! Safe code cannot cause the errors that these checks find. The feature is for programs that write
//! through raw pointers, such as programs that pass buffers to devices.

use core::fmt;

#[cfg(any(feature = "checked", all(test, not(ephemera_loom))))]
pub(crate) use on::{Check, TAIL};

#[cfg(not(any(feature = "checked", all(test, not(ephemera_loom)))))]
pub(crate) use off::{Check, TAIL};

/// Reports an error by a panic that ends the process instead of unwinding.
#[cold]
#[inline(never)]
pub(crate) fn stop(what: fmt::Arguments<'_>) -> ! {
    /// Panics. A panic in an `extern "C"` function aborts the process.
    extern "C" fn end(what: &fmt::Arguments<'_>) -> ! {
        panic!("ringal: {what}");
    }
    end(&what)
}

/// The `Check` of builds without checks. Its methods do nothing, and `asked` returns its argument.
#[cfg(not(any(feature = "checked", all(test, not(ephemera_loom)))))]
mod off {
    use core::ptr::NonNull;

    use crate::word::Word;

    pub(crate) const TAIL: usize = 0;

    #[derive(Debug)]
    pub(crate) struct Check;

    impl Check {
        #[inline]
        pub(crate) const fn new() -> Self {
            Self
        }

        #[inline]
        pub(crate) fn set(&self, _guard: usize, _word: Word) {}

        #[inline]
        pub(crate) fn look(&self, _guard: usize, _word: Word) {}

        #[inline]
        pub(crate) unsafe fn hand_out(&self, _data: NonNull<u8>, _bytes: usize, _payload: usize) {}

        #[inline]
        pub(crate) unsafe fn release(
            &self,
            _guard: usize,
            _found: impl FnOnce() -> Word,
            _taken: Word,
            _data: NonNull<u8>,
            _bytes: usize,
        ) {
        }

        #[inline]
        pub(crate) fn asked(&self, room: usize) -> usize {
            room
        }
    }
}

#[cfg(any(feature = "checked", all(test, not(ephemera_loom))))]
mod on {
    use core::ptr::NonNull;

    use ephemera_prim::poison::unpoison;
    use ephemera_prim::sync::{AtomicUsize, Ordering};

    use super::stop;
    use crate::word::Word;

    /// The minimum length in bytes of the margin after a buffer. The margin also includes the bytes
    /// that the rounding of the buffer's size adds.
    pub(crate) const TAIL: usize = 32;

    /// The byte that fills the margin.
    const FILL: u8 = 0xa7;

    /// The odd multiplier of the hash: fractional bits of the golden ratio.
    const MIX: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize | 1;

    /// The check value of a guard, and the size of its buffer. The check value depends on the
    /// address of the guard, so the methods that use the value take this address.
    #[derive(Debug)]
    pub(crate) struct Check {
        mark: AtomicUsize,
        asked: AtomicUsize,
    }

    impl Check {
        /// Creates the check of a new guard.
        pub(crate) fn new() -> Self {
            Self { mark: AtomicUsize::new(0), asked: AtomicUsize::new(0) }
        }

        /// Stores the check value for `word`.
        pub(crate) fn set(&self, guard: usize, word: Word) {
            self.mark.store(mark(guard, word), Ordering::Relaxed);
        }

        /// Checks a guard that the ring or a sweep has loaded. Ends the process if the guard was
        /// overwritten. A release stores the mark before the word, so while the word says "taken",
        /// the mark may already be that of the free or settled word.
        pub(crate) fn look(&self, guard: usize, word: Word) {
            let found = self.mark.load(Ordering::Relaxed);
            let after_release = [
                Word::free(word.len()),
                #[cfg(feature = "alloc")]
                Word::settled(word.len()),
            ];
            let releasing = word.is_taken() && after_release.iter().any(|&word| found == mark(guard, word));
            if found != mark(guard, word) && !releasing {
                stop(format_args!(
                    "the guard at {guard:#x} was overwritten: its check value does not match {word:?}"
                ));
            }
        }

        /// Records the size of a buffer and fills the margin after it.
        ///
        /// # Safety
        /// Only the caller accesses the region. The buffer starts at `data` and has `bytes` bytes
        /// of the region's `payload` bytes.
        pub(crate) unsafe fn hand_out(&self, data: NonNull<u8>, bytes: usize, payload: usize) {
            self.asked.store(bytes, Ordering::Relaxed);
            let margin = payload - bytes;
            // SAFETY: the buffer has `bytes` bytes, so `after` is in its region.
            let after = unsafe { data.add(bytes) };
            // SAFETY: `margin` bytes from `after` on are in the region, which only the caller
            // accesses.
            unsafe { unpoison(after, margin) };
            // SAFETY: `margin` bytes from `after` on are in the region, which only the caller
            // accesses.
            unsafe { after.write_bytes(FILL, margin) };
        }

        /// Checks the guard and the margin of a buffer that is about to be released. Ends the
        /// process if one of them was overwritten or the buffer was already released. `found`
        /// returns the word of the guard, which should be `taken`.
        ///
        /// # Safety
        /// [`Check::hand_out`] was called with the same `data` and `bytes`, and only the caller
        /// accesses the region.
        pub(crate) unsafe fn release(
            &self,
            guard: usize,
            found: impl FnOnce() -> Word,
            taken: Word,
            data: NonNull<u8>,
            bytes: usize,
        ) {
            let found = found();
            if found == Word::free(taken.len()) {
                stop(format_args!("a buffer of {bytes} bytes at {data:p} was released twice"));
            }
            if found != taken || self.mark.load(Ordering::Relaxed) != mark(guard, taken) {
                stop(format_args!(
                    "the guard in front of a buffer of {bytes} bytes at {data:p} was overwritten"
                ));
            }
            let margin = guard + taken.len() - data.addr().get() - bytes;
            // SAFETY: the buffer has `bytes` bytes, so `after` is in its region.
            let after = unsafe { data.add(bytes) };
            // SAFETY: `hand_out` initialised the margin, and only the caller accesses the region.
            let after = unsafe { NonNull::slice_from_raw_parts(after, margin).as_ref() };
            if let Some(last) = after.iter().rposition(|&byte| byte != FILL) {
                let over = last + 1;
                stop(format_args!(
                    "a buffer of {bytes} bytes at {data:p} was overrun by {over} or more bytes (its margin is {margin})"
                ));
            }
        }

        /// Returns the requested size of the buffer in this region.
        pub(crate) fn asked(&self, _room: usize) -> usize {
            self.asked.load(Ordering::Relaxed)
        }
    }

    fn mark(guard: usize, word: Word) -> usize {
        let mixed = (guard ^ word.bits().rotate_left(13)).wrapping_mul(MIX);
        mixed ^ (mixed >> 17)
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests;
