//! Computes the sizes of regions and stores, and the distances between checks of `low`. Also
//! computes the *lead*, which is the number of bytes that alignment leaves free in front of a
//! buffer's guard.
#![forbid(unsafe_code)]

use crate::checked;
pub(crate) use crate::guard::GRANULE;
use crate::word::LONGEST;

/// The number of bytes of a region that its buffer cannot use: the guard, and the margin that
/// feature `checked` puts after the buffer.
pub(crate) const OVERHEAD: usize = GRANULE + checked::TAIL;

/// The largest size of a buffer or a store, in bytes. The region of such a buffer has at most
/// [`LONGEST`] bytes.
pub(crate) const LARGEST: usize = (LONGEST & !(GRANULE - 1)) - 2 * OVERHEAD;

/// The default and the least alignment of a store in bytes: a cache line.
#[cfg(feature = "alloc")]
pub(crate) const LINE: usize = 64;

/// The largest alignment of a store or a buffer, in bytes.
pub(crate) const LARGEST_ALIGN: usize = 1 << 29;

/// Returns the length of a region for a buffer of `bytes` bytes, or `None` if `bytes` exceeds
/// [`LARGEST`].
#[inline]
pub(crate) const fn region(bytes: usize) -> Option<usize> {
    if bytes > LARGEST { None } else { Some(region_of(bytes)) }
}

/// Returns the length of a region for a buffer of `bytes` bytes. `bytes` must be at most
/// [`LARGEST`], like the size of every existing buffer.
#[inline]
pub(crate) const fn region_of(bytes: usize) -> usize {
    (bytes.wrapping_add(GRANULE - 1) & !(GRANULE - 1)).wrapping_add(OVERHEAD)
}

/// Returns the size of the largest buffer that fits in a region of `region` bytes, or 0 if the
/// region is too short for any buffer.
#[inline]
pub(crate) const fn room(region: usize) -> usize {
    region.saturating_sub(OVERHEAD)
}

/// The length and the alignment that a request needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want {
    /// The length of the region in bytes, including its guard.
    pub(crate) need: usize,
    /// The alignment of the buffer in bytes, at least the granule.
    pub(crate) align: usize,
}

impl Want {
    /// Creates a request for a buffer of `bytes` bytes. `align` must be a power of two. Returns
    /// `None` if the size or the alignment is above its limit.
    pub(crate) fn new(bytes: usize, align: usize) -> Option<Self> {
        if align > LARGEST_ALIGN {
            return None;
        }
        Some(Self { need: region(bytes)?, align: align.max(GRANULE) })
    }

    /// Creates a request for a region of `need` bytes, aligned to the granule.
    #[inline]
    pub(crate) const fn plain(need: usize) -> Self {
        Self { need, align: GRANULE }
    }

    /// Returns how many bytes must be split off the front of a free region for the rest to serve
    /// this request. The region has `len` bytes, and its guard is at address `addr`. Returns `None`
    /// if the region is too short.
    #[inline]
    pub(crate) fn lead(self, addr: usize, len: usize) -> Option<usize> {
        if len < self.need {
            return None;
        }
        if self.align <= GRANULE {
            return Some(0);
        }
        // The distance from the region's buffer to the next multiple of the alignment.
        let lead = (addr + GRANULE).wrapping_neg() & (self.align - 1);
        (len - self.need >= lead).then_some(lead)
    }
}

/// Returns the size of the largest buffer, aligned to `align`, in a free region of `len` bytes
/// whose guard is at address `addr`. `align` must be a power of two. Returns `None` if the region
/// has no room even for an empty buffer, or if the alignment is above its limit.
pub(crate) fn aligned_room(addr: usize, len: usize, align: usize) -> Option<usize> {
    let lead = Want::new(0, align)?.lead(addr, len)?;
    Some(room(len - lead))
}

/// The layout of the heap block that contains the regions of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StorePlan {
    /// The total length of the regions in bytes.
    pub(crate) end: usize,
    /// The alignment of the block and of the first buffer, in bytes.
    pub(crate) align: usize,
}

impl StorePlan {
    /// Plans a block with at least `bytes` bytes of regions, in which the first buffer is aligned
    /// to `align`. The alignment is rounded up to a power of two, and is at least 64. Returns
    /// `None` if the block would exceed the size or alignment limit.
    #[cfg(feature = "alloc")]
    pub(crate) fn new(bytes: usize, align: usize) -> Option<Self> {
        if align > LARGEST_ALIGN {
            return None;
        }
        let align = align.next_power_of_two().max(LINE).max(GRANULE);
        let end = bytes.checked_next_multiple_of(GRANULE)?.max(2 * OVERHEAD);
        let bytes = (align - GRANULE).checked_add(end)?;
        (bytes <= LARGEST).then_some(Self { end, align })
    }

    /// Returns the offset of the first guard in the block. With this offset, the first buffer is
    /// aligned.
    pub(crate) const fn first(self) -> usize {
        self.align - GRANULE
    }

    /// Returns the size of the whole block in bytes.
    pub(crate) const fn bytes(self) -> usize {
        self.first() + self.end
    }
}

/// Returns the interval of a chain of `end` bytes: the basic distance that the head moves between
/// two checks of `low`. The interval is an eighth of the chain, at least four granules, and at most
/// 16 KiB, a third of a first-level data cache of 48 KiB.
pub(crate) fn interval(end: usize) -> usize {
    (end / 8).clamp(4 * GRANULE, 16 << 10)
}

/// Returns the distance in bytes that the head moves between two checks of `low`, in a window of
/// `window` bytes and for regions of `need` bytes.
///
/// A check costs as much as an allocation, so the distance is 16 regions. For large requests, the
/// cost of a check does not matter. The distance is therefore at most four intervals, or four times
/// the least distance of the window if that product is smaller.
///
/// The least distance in a window shorter than one interval is one interval. In a longer window, it
/// is an eighth of the window, but at least half an interval and at most four intervals. A long
/// distance avoids mispredicted branches: with 1,024 live buffers of up to 1,024 bytes, a loop
/// takes 30 to 31 ns a buffer instead of 36. With half an interval, a window about as large as a
/// first-level cache grows by no more than that.
#[inline]
pub(crate) fn pace(interval: usize, window: usize, need: usize) -> usize {
    let least = if window < interval { interval } else { (window / 8).clamp(interval / 2, 4 * interval) };
    let unit = interval.min(least);
    need.saturating_mul(16).min(4 * unit).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_has_room_for_its_buffer_and_less_than_a_granule_more() {
        for bytes in [0, 1, 15, 16, 17, 63, 64, 65, 4095, 4096, LARGEST - 1, LARGEST] {
            let region = region(bytes).unwrap();
            assert_eq!(region % GRANULE, 0);
            assert!(room(region) >= bytes && room(region) - bytes < GRANULE, "{bytes} in {region}");
            assert!(region <= LONGEST);
        }
        assert_eq!((region(LARGEST + 1), region(usize::MAX)), (None, None));
    }

    #[test]
    fn remainder_of_a_split_has_room_for_a_guard() {
        for bytes in 0..200 {
            let rest = (1 << 20) - region_of(bytes);
            assert_eq!(rest % GRANULE, 0);
        }
    }

    #[test]
    fn lead_aligns_the_buffer_after_the_guard() {
        for align in [GRANULE * 2, 256, 4096] {
            let want = Want::new(100, align).unwrap();
            for addr in (0x1000..0x3000).step_by(GRANULE) {
                let lead = want.lead(addr, 1 << 20).unwrap();
                assert!(lead < align && lead % GRANULE == 0);
                assert_eq!((addr + lead + GRANULE) % align, 0);
                assert_eq!(want.lead(addr, want.need + lead), Some(lead));
                assert_eq!(want.lead(addr, want.need + lead - GRANULE), None);
            }
        }
        assert_eq!(Want::plain(64).lead(0x1000, 64), Some(0));
        assert_eq!(Want::plain(64).lead(0x1000, 48), None);
        assert!(Want::new(1, LARGEST_ALIGN).is_some() && Want::new(1, LARGEST_ALIGN * 2).is_none());
    }

    #[test]
    fn aligned_room_is_the_size_of_the_largest_buffer_that_fits() {
        let step = if cfg!(miri) { 17 * GRANULE } else { GRANULE };
        for align in [1, GRANULE, GRANULE * 2, 4096] {
            for addr in (0x1000..0x2000).step_by(step) {
                for len in (GRANULE..0x3000).step_by(7 * GRANULE) {
                    let fits = |bytes| Want::new(bytes, align).unwrap().lead(addr, len).is_some();
                    match aligned_room(addr, len, align) {
                        Some(most) => assert!(fits(most) && !fits(most + 1)),
                        None => assert!(!fits(0)),
                    }
                }
            }
        }
        assert_eq!(aligned_room(0x1000, OVERHEAD, 1), Some(0));
        assert_eq!(aligned_room(0x1000, 1 << 20, LARGEST_ALIGN * 2), None);
    }

    #[test]
    #[cfg(feature = "alloc")]
    fn first_buffer_of_a_store_is_aligned() {
        for (bytes, align) in [(0, 1), (1000, 16), (1 << 16, 64), (1 << 16, 4096), (100, 3000)] {
            let plan = StorePlan::new(bytes, align).unwrap();
            assert_eq!((plan.first() + GRANULE) % plan.align, 0);
            assert!(plan.end >= bytes && plan.align >= align);
            assert_eq!(plan.bytes(), plan.first() + plan.end);
        }
        for bytes in [usize::MAX, usize::MAX - 15, isize::MAX as usize] {
            assert_eq!(StorePlan::new(bytes, 64), None);
        }
        assert_eq!(StorePlan::new(64, 1 << 30), None);
        assert_eq!(StorePlan::new(64, usize::MAX), None);
    }

    #[test]
    fn checks_of_low_are_several_requests_but_at_most_four_intervals_apart() {
        assert_eq!(interval(1 << 30), 16 << 10);
        assert_eq!(interval(0), 4 * GRANULE);
        assert_eq!(pace(16 << 10, 0, 80), 16 << 10);
        assert_eq!((pace(16 << 10, 0, 2064), pace(16 << 10, 0, 4112)), (16 * 2064, 64 << 10));
        assert_eq!(pace(16 << 10, 0, usize::MAX), 64 << 10);
        let kib = |window: usize, need| pace(16 << 10, window << 10, need) >> 10;
        assert_eq!((kib(0, 64), kib(15, 64), kib(16, 64), kib(64, 64)), (16, 16, 8, 8));
        assert_eq!((kib(256, 64), kib(512, 64), kib(4_096, 64)), (32, 64, 64));
        assert_eq!((kib(64, 1_024), kib(4_096, 65_536), kib(0, 65_536)), (16, 64, 64));
    }
}
