//! How many bytes things take: regions, leads, stores, and the distances between looks. Pure
//! arithmetic.
#![forbid(unsafe_code)]

use ephemera_prim::align::align_up;

use crate::checked;
use crate::guard::Guard;
use crate::word::LONGEST;

/// What regions are multiples of, and what a guard takes: so what is left of a split has room for
/// its own guard, and the length of a taken region follows from the size of its buffer alone.
pub(crate) const GRANULE: usize = size_of::<Guard>().next_power_of_two();

/// Bytes of a region that are not the buffer's: the guard, and what `checked` puts behind the
/// buffer.
pub(crate) const OVERHEAD: usize = GRANULE + checked::TAIL;

/// The largest buffer that a region can be computed for.
pub(crate) const LARGEST: usize = (LONGEST & !(GRANULE - 1)) - 2 * OVERHEAD;

/// The default alignment of a store: a cache line.
#[cfg(feature = "alloc")]
pub(crate) const LINE: usize = 64;

/// The largest alignment of a store or a buffer.
pub(crate) const LARGEST_ALIGN: usize = 1 << 29;

#[cfg(not(ephemera_loom))]
const _: () = assert!(GRANULE == size_of::<Guard>(), "a guard fills its granule");

/// The bytes of a region with a buffer of this many bytes; `None` beyond what can be addressed.
#[inline]
pub(crate) const fn region(bytes: usize) -> Option<usize> {
    if bytes > LARGEST { None } else { Some(region_of(bytes)) }
}

/// The same for the bytes of a buffer that was handed out, hence not above [`LARGEST`].
#[inline]
pub(crate) const fn region_of(bytes: usize) -> usize {
    (bytes.wrapping_add(GRANULE - 1) & !(GRANULE - 1)).wrapping_add(OVERHEAD)
}

/// The largest buffer that a region of this many bytes has room for.
#[inline]
pub(crate) const fn room(region: usize) -> usize {
    region.saturating_sub(OVERHEAD)
}

/// What a request wants of a region.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want {
    /// Bytes of the region.
    pub(crate) need: usize,
    /// Alignment of the buffer, at least the granule.
    pub(crate) align: usize,
}

impl Want {
    /// A region for a buffer of this size and alignment, which is a power of two. `None` beyond
    /// what can be addressed.
    pub(crate) const fn new(bytes: usize, align: usize) -> Option<Self> {
        if align > LARGEST_ALIGN {
            return None;
        }
        let align = if align < GRANULE { GRANULE } else { align };
        match region(bytes) {
            Some(need) => Some(Self { need, align }),
            None => None,
        }
    }

    /// A region of this length, with no wish for alignment beyond the granule.
    #[inline]
    pub(crate) const fn plain(need: usize) -> Self {
        Self { need, align: GRANULE }
    }

    /// How many bytes of a free region of `len` bytes whose guard is at `addr` must be left in
    /// front, so that the rest serves. `None` if it cannot.
    #[inline]
    pub(crate) fn lead(self, addr: usize, len: usize) -> Option<usize> {
        if len < self.need {
            return None;
        }
        if self.align <= GRANULE {
            return Some(0);
        }
        let lead = align_up(addr + GRANULE, self.align)? - GRANULE - addr;
        (len - self.need >= lead).then_some(lead)
    }
}

/// The block that the regions of a store on the heap are in.
#[cfg(feature = "alloc")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Bytes of all regions.
    pub(crate) end: usize,
    /// Alignment of the block, and of the first buffer.
    pub(crate) align: usize,
}

#[cfg(feature = "alloc")]
impl Plan {
    /// Regions of at least `bytes` bytes, whose first buffer is aligned.
    pub(crate) fn new(bytes: usize, align: usize) -> Option<Self> {
        if align > LARGEST_ALIGN {
            return None;
        }
        let align = align.next_power_of_two().max(LINE).max(GRANULE);
        let end = align_up(bytes, GRANULE)?.max(2 * OVERHEAD);
        let bytes = (align - GRANULE).checked_add(end)?;
        (bytes <= LARGEST).then_some(Self { end, align })
    }

    /// The offset of the first guard. The buffer behind it is aligned.
    pub(crate) const fn first(self) -> usize {
        self.align - GRANULE
    }

    /// Bytes of the whole block.
    pub(crate) const fn bytes(self) -> usize {
        self.first() + self.end
    }
}

/// Bytes of progress after which a chain of `end` bytes looks back at its first region: about a
/// third of a first-level data cache, less in small stores.
pub(crate) const fn stride(end: usize) -> usize {
    let eighth = end / 8;
    if eighth < 4 * GRANULE {
        4 * GRANULE
    } else if eighth > 16 << 10 {
        16 << 10
    } else {
        eighth
    }
}

/// The same for requests of `need` bytes: a look costs as much as an allocation, so there are
/// several between two looks, unless they are so large that looks do not matter.
#[inline]
pub(crate) const fn pace(stride: usize, need: usize) -> usize {
    let few = need.saturating_mul(16);
    if few < stride {
        stride
    } else if few > 4 * stride {
        4 * stride
    } else {
        few
    }
}

/// The same where the head is `window` bytes behind the first region. Each look is a step that a
/// processor does not foresee, so in a large window there are eight: an eighth more of it does not
/// matter. 1,024 buffers of up to 1,024 bytes held, in a loop of its own: 30 to 31 ns a buffer
/// instead of 36. From a stride to eight of them it is half a stride, so that less than that is
/// added to a window of about a first-level cache.
#[inline]
pub(crate) fn pace_in(stride: usize, window: usize, need: usize) -> usize {
    let wanted = if window < stride { stride } else { (window / 8).clamp(stride / 2, 4 * stride) };
    pace(stride.min(wanted), need).max(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_has_room_for_its_buffer_and_no_granule_more() {
        for bytes in [0, 1, 15, 16, 17, 63, 64, 65, 4095, 4096, LARGEST - 1, LARGEST] {
            let region = region(bytes).unwrap();
            assert_eq!(region % GRANULE, 0);
            assert!(room(region) >= bytes && room(region) - bytes < GRANULE, "{bytes} in {region}");
            assert!(region <= LONGEST);
        }
        assert_eq!((region(LARGEST + 1), region(usize::MAX)), (None, None));
    }

    #[test]
    fn what_a_split_leaves_has_room_for_a_guard() {
        for bytes in 0..200 {
            let rest = (1 << 20) - region_of(bytes);
            assert_eq!(rest % GRANULE, 0);
        }
    }

    #[test]
    fn a_lead_aligns_the_buffer_behind_the_guard() {
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
    #[cfg(feature = "alloc")]
    fn a_store_has_its_first_buffer_aligned() {
        for (bytes, align) in [(0, 1), (1000, 16), (1 << 16, 64), (1 << 16, 4096), (100, 3000)] {
            let plan = Plan::new(bytes, align).unwrap();
            assert_eq!((plan.first() + GRANULE) % plan.align, 0);
            assert!(plan.end >= bytes && plan.align >= align);
            assert_eq!(plan.bytes(), plan.first() + plan.end);
        }
        for bytes in [usize::MAX, usize::MAX - 15, isize::MAX as usize] {
            assert_eq!(Plan::new(bytes, 64), None);
        }
        assert_eq!(Plan::new(64, 1 << 30), None);
        assert_eq!(Plan::new(64, usize::MAX), None);
    }

    #[test]
    fn looks_are_several_requests_apart_but_not_far() {
        assert_eq!(stride(1 << 30), 16 << 10);
        assert_eq!(stride(0), 4 * GRANULE);
        assert_eq!(pace(16 << 10, 80), 16 << 10);
        assert_eq!((pace(16 << 10, 2064), pace(16 << 10, 4112)), (16 * 2064, 64 << 10));
        assert_eq!(pace(16 << 10, usize::MAX), 64 << 10);
        let kib = |window: usize, need| pace_in(16 << 10, window << 10, need) >> 10;
        assert_eq!((kib(0, 64), kib(15, 64), kib(16, 64), kib(64, 64)), (16, 16, 8, 8));
        assert_eq!((kib(256, 64), kib(512, 64), kib(4_096, 64)), (32, 64, 64));
        assert_eq!((kib(64, 1_024), kib(4_096, 65_536), kib(0, 65_536)), (16, 64, 64));
    }
}
