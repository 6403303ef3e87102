//! Maps the size and alignment of a value to the layout of its unit, by pure arithmetic.
//!
//! The address of a slot, masked, is the address of its unit's header. The mask depends only on the
//! size and alignment of the value, so even a `PooledBox<dyn Trait>`, which learns both at run
//! time, can find the header.
#![forbid(unsafe_code)]

use core::alloc::Layout;

use crate::local_frees::LINK;
use crate::unit_header::header;

/// The largest stride of a slot, in bytes. Larger values are separate blocks of the backing
/// allocator.
pub(crate) const STRIDE_MAX: usize = 32 << 10;
/// The largest alignment of a value in a unit, in bytes.
pub(crate) const ALIGN_MAX: usize = 4 << 10;

/// The smallest alignment of a unit, in bytes.
pub(crate) const UNIT_MIN: usize = 32 << 10;
/// The largest alignment of a unit, in bytes.
pub(crate) const UNIT_MAX: usize = 256 << 10;
/// The intended number of slots of a unit. The alignment of a unit is this number of strides,
/// rounded up to a power of two and clamped to `UNIT_MIN..=UNIT_MAX`.
const SLOTS: usize = 64;

/// The number of bytes by which a whole unit is smaller than its alignment. General allocators put
/// a header in front of each block. This gap leaves room for that header between adjacent units.
const SLACK: usize = 16;

/// The number of empty units that a heap keeps at first. A heap of a family keeps fewer if its
/// units are large (`KEPT_BYTES`).
pub(crate) const KEPT: usize = 4;
/// The maximum total size, in bytes, of the empty units that a heap of a family keeps at first. The
/// heap keeps one unit even if that unit is larger.
const KEPT_BYTES: usize = 128 << 10;
/// The size, in bytes, of the kept units at which a heap of a family stops learning to keep more.
const KEPT_MOST: usize = 4 << 20;

/// The maximum number of slots that share a foreign word. The highest bit of the word marks a
/// countdown.
pub(crate) const GROUP: usize = if cfg!(ephemera_loom) { 2 } else { 63 };

/// The assumed size of a cache line, in bytes. The first slot of a unit starts at the start of a
/// cache line.
const LINE: usize = 64;

/// The layout of the units of one heap: the size, number and position of their slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitSpec {
    /// The distance between the starts of neighbouring slots, in bytes.
    pub(crate) stride: usize,
    /// The alignment of a unit in bytes, a power of two. No unit is larger than its alignment.
    pub(crate) unit: usize,
    /// The number of slots in a whole unit.
    pub(crate) slots: usize,
    /// The alignment of the first slot in its unit, in bytes.
    align: u32,
    /// Whether any thread may free the slots. If only the owner may, the units have no groups.
    shared: bool,
}

impl UnitSpec {
    /// The layout of a heap without slots.
    pub(crate) const NONE: Self = Self { stride: 0, unit: 1, slots: 0, align: 1, shared: false };

    /// Returns the layout of units whose slots any thread may free. Returns `None` for values
    /// without units: values of size zero, values of more than [`STRIDE_MAX`] bytes, and values
    /// that are aligned to more than [`ALIGN_MAX`].
    pub(crate) const fn of(layout: Layout) -> Option<Self> {
        Self::new(layout, true)
    }

    /// Returns the layout of the units of a pool for one thread, which have no groups. Returns
    /// `None` for the same values as [`Self::of`].
    pub(crate) const fn of_one_thread(layout: Layout) -> Option<Self> {
        Self::new(layout, false)
    }

    const fn new(layout: Layout, shared: bool) -> Option<Self> {
        if !is_pooled(layout) {
            return None;
        }
        let (stride, unit) = (stride_of(layout), unit_of(layout));
        let align = if layout.align() > LINE { layout.align() } else { LINE } as u32;
        let mut spec = Self { stride, unit, slots: 0, align, shared };
        // The first estimate subtracts a header for `room / stride` slots. Fewer slots than that
        // fit and may need a smaller header, so the loop adds slots while there is room.
        let room = unit - SLACK;
        spec.slots = (room - spec.first(room / stride)) / stride;
        while spec.end(spec.slots + 1) <= room {
            spec.slots += 1;
        }
        Some(spec)
    }

    /// Returns the number of empty units that a heap keeps before it frees others. The freed units
    /// of a family go to a cache of pages that all threads share. A heap of a family therefore
    /// keeps only 128 KiB of empty units, but at least one unit.
    pub(crate) const fn kept(self) -> usize {
        let kept = KEPT_BYTES / self.unit;
        if !self.shared || kept > KEPT {
            KEPT
        } else if kept == 0 {
            1
        } else {
            kept
        }
    }

    /// Returns the number of empty units at which a heap stops learning to keep more. For a pool
    /// for one thread, this is `usize::MAX`: it never stops.
    pub(crate) fn kept_at_most(self) -> usize {
        if self.shared && !weakened!("kept_without_bound") { KEPT_MOST / self.unit } else { usize::MAX }
    }

    /// Returns the offset in bytes of the first slot in a unit of `slots` slots.
    pub(crate) const fn first(self, slots: usize) -> usize {
        header(self.groups(slots)).next_multiple_of(self.align as usize)
    }

    /// Returns the number of groups in a unit of `slots` slots.
    pub(crate) const fn groups(self, slots: usize) -> usize {
        if self.shared { slots.div_ceil(GROUP) } else { 0 }
    }

    /// Returns the total size in bytes of the slots of the first group in a whole unit.
    pub(crate) const fn group_bytes(self) -> usize {
        self.stride * if self.slots < GROUP { self.slots } else { GROUP }
    }

    /// Returns the layout with which a unit of `slots` slots is requested from the backing
    /// allocator.
    pub(crate) const fn layout(self, slots: usize) -> Layout {
        debug_assert!(slots <= self.slots, "more slots than fit a unit");
        match Layout::from_size_align(self.end(slots), self.unit) {
            Ok(layout) => layout,
            Err(_) => panic!("units are powers of two, and far from the largest layout"),
        }
    }

    /// Returns the total size in bytes of the units for `slots` slots: whole units, and a shorter
    /// one for the remaining slots. Returns `None` if the sum exceeds `isize::MAX`.
    pub(crate) fn bytes(self, slots: usize) -> Option<usize> {
        let whole = (slots / self.slots).checked_mul(self.layout(self.slots).size())?;
        let rest = match slots % self.slots {
            0 => 0,
            rest => self.layout(rest).size(),
        };
        whole.checked_add(rest).filter(|&bytes| bytes <= isize::MAX as usize)
    }

    /// Returns the offset in bytes of the end of the last slot in a unit of `slots` slots.
    pub(crate) const fn end(self, slots: usize) -> usize {
        self.first(slots) + slots * self.stride
    }
}

/// Returns whether values of this layout are stored in units.
#[inline]
pub(crate) const fn is_pooled(layout: Layout) -> bool {
    // A size of zero wraps around and exceeds the maximum.
    layout.size().wrapping_sub(1) < STRIDE_MAX && layout.align() <= ALIGN_MAX
}

/// Returns the alignment, in bytes, of the units for values of this layout. These values must have
/// units ([`is_pooled`]).
#[inline]
pub(crate) const fn unit_of(layout: Layout) -> usize {
    let unit = (stride_of(layout) * SLOTS).next_power_of_two();
    if unit < UNIT_MIN {
        UNIT_MIN
    } else if unit > UNIT_MAX {
        UNIT_MAX
    } else {
        unit
    }
}

#[inline]
const fn stride_of(layout: Layout) -> usize {
    let align = if layout.align() < LINK { LINK } else { layout.align() };
    let size = if layout.size() < LINK { LINK } else { layout.size() };
    (size + align - 1) & !(align - 1)
}

/// Returns the factor that replaces a division by `stride`: 2³² / `stride`, rounded up.
#[inline]
pub(crate) const fn inverse_of(stride: usize) -> u32 {
    // Strides are at least 2, so the factor has at most 32 bits.
    (1_u64 << 32).div_ceil(stride as u64) as u32
}

/// Returns the index of the slot that starts `distance` bytes after the first slot. `inverse` is
/// the result of [`inverse_of`] for the stride.
///
/// The result is exact for the start of a slot: n × `stride` × `inverse` exceeds n × 2³² by at most
/// the distance, which is far below 2³².
#[inline]
pub(crate) const fn index_of(distance: usize, inverse: u32) -> usize {
    ((distance as u64 * inverse as u64) >> 32) as usize
}

/// Returns the index of the slot that starts `distance` bytes after the first slot, or `None` if no
/// slot starts there. The distance must be at least -2³¹ (a negative distance wraps around) and
/// less than 2³¹. If it is negative, or at least the total size of the unit's slots, the result is
/// `None` or an index that no slot of the unit has.
///
/// Let `inverse` × `stride` be 2³² + e. At byte r of slot n, `distance` × `inverse` is n × 2³² + n
/// × e + r × `inverse`. The lower 32 bits of this product are therefore less than `inverse` if and
/// only if r is zero, provided that e times the number of slots is less than `inverse`. A test in
/// `class` checks the result for all size classes.
#[inline]
pub(crate) const fn start_at(distance: usize, inverse: u32) -> Option<usize> {
    let product = distance as u32 as u64 * inverse as u64;
    if (product as u32) < inverse { Some((product >> 32) as usize) } else { None }
}

// The largest slot with the largest alignment fits in a unit, and a cursor at the end of a unit
// does not wrap around.
const _: () = assert!(
    header(SLOTS.div_ceil(GROUP)).next_multiple_of(ALIGN_MAX) + STRIDE_MAX + SLACK <= UNIT_MAX,
    "a slot fits its unit"
);
const _: () = assert!(UNIT_MAX <= ephemera_prim::raw::TOP_GUARD / 2, "a cursor does not wrap around");

#[cfg(test)]
mod tests {
    use super::{ALIGN_MAX, LINE, LINK, SLACK, STRIDE_MAX, UnitSpec, unit_of};
    use crate::unit_header::header;
    use core::alloc::Layout;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a layout")
    }

    fn both(layout: Layout) -> impl Iterator<Item = UnitSpec> {
        UnitSpec::of(layout).into_iter().chain(UnitSpec::of_one_thread(layout))
    }

    fn for_each(mut check: impl FnMut(Layout)) {
        let step = if cfg!(miri) { 31_013 } else { 37 };
        for align in (0..13).map(|power| 1 << power) {
            let small = (1..40).step_by(if cfg!(miri) { 7 } else { 1 });
            for size in small.chain((40..STRIDE_MAX + 1).step_by(step)) {
                check(layout(size, align));
            }
            check(layout(STRIDE_MAX, align));
        }
    }

    #[test]
    fn slots_hold_their_values_and_a_link_and_fit_their_unit() {
        for_each(|layout| {
            for spec in both(layout) {
                assert!(spec.stride >= layout.size() && spec.stride >= LINK && spec.slots > 0);
                for slots in [1, spec.slots] {
                    let first = spec.first(slots);
                    assert_eq!((spec.stride % layout.align(), first % layout.align()), (0, 0));
                    assert_eq!((spec.stride % LINK, first % LINE), (0, 0));
                    assert!(first >= header(spec.groups(slots)));
                }
                let whole = spec.layout(spec.slots);
                assert!(whole.size() + SLACK <= spec.unit && whole.align() == spec.unit);
                assert!(spec.end(spec.slots + 1) + SLACK > spec.unit, "room for one more");
            }
        });
    }

    #[test]
    fn the_unit_depends_on_the_value_alone() {
        for_each(|layout| {
            assert!(both(layout).all(|spec| spec.unit == unit_of(layout)));
            assert_eq!(unit_of(layout.pad_to_align()), unit_of(layout));
        });
    }

    #[test]
    fn zero_and_too_large_layouts_have_no_units() {
        let none = [
            layout(0, 1),
            layout(0, ALIGN_MAX),
            layout(STRIDE_MAX + 1, 1),
            layout(1, ALIGN_MAX * 2),
            layout(8, 1 << 29),
            layout(isize::MAX as usize, 1),
        ];
        assert!(none.into_iter().all(|layout| UnitSpec::of_one_thread(layout).is_none()));
    }

    #[test]
    fn a_unit_has_room_for_many_small_values() {
        let slots = |spec: Option<UnitSpec>| spec.map(|spec| (spec.unit >> 10, spec.slots));
        let alone = |size| slots(UnitSpec::of_one_thread(layout(size, 8)));
        assert_eq!((alone(32), alone(1_024)), (Some((32, 1_019)), Some((64, 63))));
        assert_eq!(alone(STRIDE_MAX), Some((256, 7)));
        let shared = |size| slots(UnitSpec::of(layout(size, 8)));
        assert_eq!((shared(8), shared(32)), (Some((32, 3_894)), Some((32, 1_007))));
        assert_eq!((shared(1_024), shared(STRIDE_MAX)), (alone(1_024), alone(STRIDE_MAX)));
    }

    #[test]
    fn a_slot_is_found_without_a_division() {
        for_each(|layout| {
            let Some(spec) = UnitSpec::of(layout) else { panic!("{layout:?} has no units") };
            let inverse = super::inverse_of(spec.stride);
            let (step, last) = (if cfg!(miri) { 251 } else { 1 }, spec.slots - 1);
            for slot in (0..last).step_by(step).chain([last]) {
                assert_eq!(super::index_of(slot * spec.stride, inverse), slot, "{spec:?}");
            }
        });
    }
}
