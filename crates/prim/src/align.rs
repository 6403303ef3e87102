//! Address arithmetic: rounding to multiples of a power of two.
//!
//! These functions compute with integers and do not access memory, so they are usable in constants,
//! and their tests do not need blocks. [`raw`](crate::raw) and the callers show why a rounded
//! address is valid.
//!
//! An argument named `align` or `size_pow2` must be a power of two. For any other value, the
//! functions panic with debug assertions, and return a meaningless result without them.
#![forbid(unsafe_code)]

/// Returns the first multiple of `align` at or above `addr`, or `None` if this multiple exceeds
/// `usize::MAX`.
///
/// # Panics
///
/// Panics with debug assertions if `align` is not a power of two.
///
/// # Examples
///
/// ```
/// use ephemera_prim::align::align_up;
///
/// assert_eq!(align_up(17, 16), Some(32));
/// assert_eq!(align_up(32, 16), Some(32));
/// assert_eq!(align_up(usize::MAX, 2), None);
/// ```
#[inline]
#[must_use]
pub const fn align_up(addr: usize, align: usize) -> Option<usize> {
    debug_assert!(align.is_power_of_two(), "an alignment is a power of two");
    match addr.checked_add(align - 1) {
        Some(past) => Some(past & !(align - 1)),
        None => None,
    }
}

/// Returns the first multiple of `align` at or above `addr`, or 0 if this multiple exceeds
/// `usize::MAX`.
///
/// This function is for callers that know that `addr + align` does not overflow. The sum cannot
/// overflow if `addr` is in a block from [`raw::acquire`](crate::raw::acquire) and `align` is at
/// most [`raw::TOP_GUARD`](crate::raw::TOP_GUARD): such a block ends at least `TOP_GUARD` bytes
/// below `usize::MAX`.
///
/// # Panics
///
/// Panics with debug assertions if `align` is not a power of two.
///
/// # Examples
///
/// ```
/// use ephemera_prim::align::align_up_wrapping;
///
/// assert_eq!(align_up_wrapping(17, 16), 32);
/// assert_eq!(align_up_wrapping(usize::MAX, 2), 0);
/// ```
#[inline]
#[must_use]
pub const fn align_up_wrapping(addr: usize, align: usize) -> usize {
    debug_assert!(align.is_power_of_two(), "an alignment is a power of two");
    addr.wrapping_add(align - 1) & !(align - 1)
}

/// Returns the last multiple of `align` at or below `addr`.
///
/// # Panics
///
/// Panics with debug assertions if `align` is not a power of two.
///
/// # Examples
///
/// ```
/// use ephemera_prim::align::align_down;
///
/// assert_eq!(align_down(31, 16), 16);
/// assert_eq!(align_down(15, 16), 0);
/// ```
#[inline]
#[must_use]
pub const fn align_down(addr: usize, align: usize) -> usize {
    debug_assert!(align.is_power_of_two(), "an alignment is a power of two");
    addr & !(align - 1)
}

/// Returns the distance of `addr` from the start of its chunk, for chunks of `size_pow2` bytes that
/// are aligned to their size. The result is less than `size_pow2`.
///
/// # Panics
///
/// Panics with debug assertions if `size_pow2` is not a power of two.
///
/// # Examples
///
/// ```
/// use ephemera_prim::align::offset_in;
///
/// assert_eq!(offset_in(0x1_2345, 0x1_0000), 0x2345);
/// ```
#[inline]
#[must_use]
pub const fn offset_in(addr: usize, size_pow2: usize) -> usize {
    debug_assert!(size_pow2.is_power_of_two(), "a chunk's size is a power of two");
    addr & (size_pow2 - 1)
}

/// Returns whether `addr` is a multiple of `align`.
///
/// # Panics
///
/// Panics with debug assertions if `align` is not a power of two.
///
/// # Examples
///
/// ```
/// use ephemera_prim::align::is_aligned;
///
/// assert!(is_aligned(48, 16));
/// assert!(!is_aligned(40, 16));
/// ```
#[inline]
#[must_use]
pub const fn is_aligned(addr: usize, align: usize) -> bool {
    offset_in(addr, align) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the result of `align_up` by search. The address must be far below `usize::MAX`.
    fn naive_up(addr: usize, align: usize) -> usize {
        let mut candidate = addr;
        while candidate % align != 0 {
            candidate += 1;
        }
        candidate
    }

    /// The step between tested shifts and between tested addresses: 1, or up to 9 under Miri, which
    /// is slow.
    const STRIDE: usize = if cfg!(miri) { 9 } else { 1 };

    fn check_relations(addr: usize, align: usize) {
        let down = align_down(addr, align);
        assert!(down <= addr && addr - down < align);
        assert!(is_aligned(down, align));
        assert_eq!(down + offset_in(addr, align), addr);
        assert_eq!(is_aligned(addr, align), addr % align == 0);
        match align_up(addr, align) {
            Some(up) => {
                assert!(up >= addr && up - addr < align);
                assert!(is_aligned(up, align));
                assert_eq!(align_up_wrapping(addr, align), up);
                assert_eq!(up == down, is_aligned(addr, align));
            }
            None => {
                assert!(!is_aligned(addr, align));
                assert!(addr.checked_add(align - 1).is_none());
                assert_eq!(align_up_wrapping(addr, align), 0);
            }
        }
    }

    #[test]
    fn small_addresses_agree_with_a_search() {
        for shift in (0..8).step_by(STRIDE.min(3)) {
            let align = 1 << shift;
            for addr in (0..1_000).step_by(STRIDE) {
                assert_eq!(align_up(addr, align), Some(naive_up(addr, align)));
                check_relations(addr, align);
            }
        }
    }

    #[test]
    fn relations_hold_around_every_power_of_two_and_both_ends_for_every_alignment() {
        for align_shift in (0..usize::BITS).step_by(STRIDE) {
            let align = 1_usize << align_shift;
            for near_shift in (0..usize::BITS).step_by(STRIDE) {
                let near = 1_usize << near_shift;
                for step in 0..4_usize {
                    check_relations(near.wrapping_add(step), align);
                    check_relations(near.wrapping_sub(step), align);
                    check_relations(step, align);
                    check_relations(usize::MAX - step, align);
                }
            }
        }
    }

    #[test]
    fn align_up_refuses_to_wrap_at_the_top_of_the_address_space() {
        assert_eq!(align_up(0, 1 << 29), Some(0));
        assert_eq!(align_up(1, 1 << 29), Some(1 << 29));
        assert_eq!(align_up(usize::MAX, 1), Some(usize::MAX));
        assert_eq!(align_up(usize::MAX, 1 << 29), None);
        let last = usize::MAX - ((1 << 29) - 1);
        assert_eq!(align_up(last, 1 << 29), Some(last));
        assert_eq!(align_up(last + 1, 1 << 29), None);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "power of two")]
    fn debug_builds_panic_on_an_alignment_that_is_not_a_power_of_two() {
        let _ = align_up(8, 24);
    }

    const _: () = assert!(align_down(0x1234, 0x1000) == 0x1000, "usable in constants");
}
