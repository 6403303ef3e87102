//! The system calls that `pages` makes.
//!
//! Each function that makes a request returns `false` or `None` if the operating system refuses.
//! Tests simulate a refusal by [`refuse_call`]. Advice about huge pages is not a request: nothing
//! depends on it, and no test refuses it.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

pub(crate) use system::now_ms;

/// The granularity of the lengths and alignments of mappings, in bytes. It is a multiple of every
/// page size of the supported systems.
pub(super) const GRAIN: usize = 64 << 10;

/// The value of `REFUSE` with which no call is refused.
const NEVER: usize = 0;

/// The number of the call that will be refused. The next call is number 1, and `usize::MAX` refuses
/// all calls.
static REFUSE: AtomicUsize = AtomicUsize::new(NEVER);

/// Whether new mappings ask for huge pages.
static HUGE: AtomicBool = AtomicBool::new(false);

/// Sets the number of the call that will be refused, with 0 for none. Returns what remains of the
/// previous number. Each system call reduces the number by one, unless it is `usize::MAX`. The
/// result 0 means that the chosen call has been refused, or that no call was chosen.
pub(super) fn refuse_call(number: usize) -> usize {
    REFUSE.swap(number, Ordering::Relaxed)
}

/// Counts a call, and returns whether a test wants this call to be refused.
#[inline]
fn refused() -> bool {
    match REFUSE.load(Ordering::Relaxed) {
        NEVER => false,
        usize::MAX => true,
        // If the exchange fails, another thread's call has used this number.
        number => REFUSE.compare_exchange(number, number - 1, Ordering::Relaxed, Ordering::Relaxed) == Ok(1),
    }
}

pub(super) fn set_huge_pages(wanted: bool) {
    HUGE.store(wanted, Ordering::Relaxed);
}

/// Maps `len` bytes of zeros, aligned to `align`. Returns `None` if the operating system refuses.
///
/// `len` must be a multiple of [`GRAIN`] and not zero. `align` must be a power of two.
pub(super) fn map(len: usize, align: usize) -> Option<NonNull<u8>> {
    if refused() {
        return None;
    }
    let block = system::map(len, align.max(GRAIN))?;
    if prefers_huge_pages() {
        system::advise_huge_pages(block, len, true);
    }
    Some(block)
}

/// Returns whether the program asked for huge pages.
pub(super) fn prefers_huge_pages() -> bool {
    HUGE.load(Ordering::Relaxed)
}

/// Advises the system not to use huge pages for a range, which is in a mapping by [`map`].
pub(super) fn forgo_huge_pages(block: NonNull<u8>, len: usize) {
    if !weakened!("purged_pages_become_huge") {
        system::advise_huge_pages(block, len, false);
    }
}

/// Unmaps memory and returns `true`. If the operating system refuses, nothing changes, and the
/// result is `false`.
///
/// # Safety
/// The bytes are a whole mapping by [`map`] or [`remap`], and nothing uses them any more.
#[must_use]
pub(super) unsafe fn unmap(block: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller gives up the whole mapping.
    !refused() && unsafe { system::unmap(block, len) }
}

/// Whether bytes are zero after a successful [`purge`].
pub(super) const PURGED_IS_ZERO: bool = system::PURGED_IS_ZERO;

/// Returns the pages of a range to the operating system, and reports whether that worked. The bytes
/// are zero afterwards if that worked and [`PURGED_IS_ZERO`] is true. Otherwise, their content is
/// unknown. A range that does not consist of whole pages is refused.
///
/// # Safety
/// The range is in a mapping by [`map`] or [`remap`], belongs to the caller, and its content is not
/// needed.
#[must_use]
pub(super) unsafe fn purge(block: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller owns these accessible pages and does not need their content.
    is_whole_pages(block, len, page_size()) && !refused() && unsafe { system::purge(block, len) }
}

/// Returns whether a range consists of whole pages of this size and is not empty. If the range
/// ended inside a page, the system would purge this whole page, which may contain live bytes of the
/// next span.
fn is_whole_pages(block: NonNull<u8>, len: usize, page: usize) -> bool {
    (block.addr().get() | len) & (page - 1) == 0 && len != 0
}

/// Returns the whole pages of a range: their start and their length in bytes. Returns `None` if the
/// range has no whole page.
pub(super) fn whole_pages(start: NonNull<u8>, len: usize) -> Option<(NonNull<u8>, usize)> {
    let (page, at) = (page_size(), start.addr().get());
    let (first, end) = (at.next_multiple_of(page), (at + len) & !(page - 1));
    let len = end.checked_sub(first).filter(|len| *len != 0)?;
    Some((NonNull::new(start.as_ptr().with_addr(first))?, len))
}

/// The size of a page in bytes, or zero until the first call to [`page_size`].
static SIZE: AtomicUsize = AtomicUsize::new(0);

/// Makes [`page_size`] return more than the size of the system's pages, for tests.
pub(super) fn pretend_page_size(bytes: usize) {
    SIZE.store(bytes, Ordering::Relaxed);
}

/// Returns the size of a page of the operating system, in bytes.
pub(super) fn page_size() -> usize {
    match SIZE.load(Ordering::Relaxed) {
        0 => {
            let size = system::page_size().clamp(4 << 10, GRAIN);
            SIZE.store(size, Ordering::Relaxed);
            size
        }
        size => size,
    }
}

/// Runs a full fence on all threads of the process. Returns `false` if the kernel refuses.
#[cfg(target_os = "linux")]
pub(crate) fn fence_all_threads() -> bool {
    !refused() && system::fence_all_threads()
}

/// Changes the length of a mapping from the first of `lens` to the second, and returns its start.
/// The mapping moves only if `may_move` is true. The bytes after the old length are zero. If the
/// operating system refuses or has no such call, returns `None`, and nothing has changed.
///
/// # Safety
/// The bytes are a whole mapping by [`map`] or [`remap`] that belongs to the caller. The new length
/// is a multiple of [`GRAIN`] and not zero.
pub(super) unsafe fn remap(block: NonNull<u8>, lens: (usize, usize), may_move: bool) -> Option<NonNull<u8>> {
    if refused() {
        return None;
    }
    // SAFETY: the caller owns the whole mapping. The new length is a multiple of the grain and not
    // zero.
    unsafe { system::remap(block, lens, may_move) }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroUsize;
    use core::ptr::NonNull;

    use super::is_whole_pages;

    #[test]
    fn a_span_of_half_a_page_is_not_purged() {
        const SPAN: usize = 32 << 10;
        let at = |addr| NonNull::without_provenance(NonZeroUsize::new(addr).unwrap());
        for page in [4 << 10, 16 << 10] {
            assert!(is_whole_pages(at(SPAN), SPAN, page) && is_whole_pages(at(2 * SPAN), SPAN, page));
        }
        let page = 64 << 10;
        assert!(!is_whole_pages(at(2 * SPAN), SPAN, page), "the next span has the rest of the page");
        assert!(!is_whole_pages(at(SPAN), 2 * SPAN, page));
        assert!(is_whole_pages(at(2 * SPAN), 2 * SPAN, page));
    }
}
