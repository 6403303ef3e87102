//! Computes the layout of a group: the offsets of its parts. All arguments and results are
//! integers.
//!
//! A **group** is an aligned block of memory with one or more **pages**. A page has up to 63 slots
//! for values of one type. The module `group` describes the parts.
//!
//! ```text
//! base (aligned to `group`)
//! | header | near 0, 1, … | far 0, 1, … | rare 0, 1, … | page 0: slots | unused | page 1: …
//!          ^near          ^far          ^rare          ^first     64 strides to ^
//! ```
//!
//! A group has at most `pages` pages. The offsets of its parts are the same for any number of
//! pages. A page has up to 63 slots, and pages begin 64 strides apart. So the distance from `first`
//! to a slot, divided by the stride, yields the page by a shift and the slot by a mask. The stride
//! is a constant of the type.
#![forbid(unsafe_code)]

/// Distance from one page to the next, in strides.
pub(crate) const SPACING: usize = 64;

/// The smallest difference between a group's alignment and its size, in bytes. Many general
/// allocators put a header in front of each block, so a group as large as its alignment would leave
/// no room for the header of the next block. The next group would then start a whole alignment
/// later.
const SLACK: usize = 16;

/// Size of a cache line, in bytes. Parts that different threads write do not share a line.
const LINE: usize = 64;

/// The sizes in bytes of a group's header and of a page's near, far and rare parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) header: usize,
    pub(crate) near: usize,
    pub(crate) far: usize,
    pub(crate) rare: usize,
}

/// The largest number of slots in a page: at most 63, because the topmost bit of a page's word says
/// whether the page is listed. Models use fewer slots and pages.
pub(crate) const SLOTS: usize = if cfg!(ephemera_loom) { 2 } else { 63 };

/// The largest number of pages in a group.
const PAGES: usize = if cfg!(ephemera_loom) { 2 } else { 256 };

/// The minimum number of pages in a type's largest group, unless a group with this number of pages
/// needs a larger alignment than [`LARGEST`].
const GOAL: usize = if cfg!(ephemera_loom) { 2 } else { 8 };

/// The smallest alignment of a group, in bytes.
const SMALLEST: usize = 16 << 10;

/// The largest alignment of a group with more than one slot, in bytes. A type that is too large for
/// this alignment has groups with a larger alignment and one slot each.
const LARGEST: usize = 256 << 10;

/// The layout of the groups of one type. It depends only on the type's size and alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArenaGeometry {
    /// The alignment of groups in bytes: a power of two that exceeds the size of every group.
    pub(crate) group: usize,
    /// Offsets of the near, far and rare parts from the group's base, in bytes.
    pub(crate) near: usize,
    pub(crate) far: usize,
    pub(crate) rare: usize,
    /// Offset of the first slot from the group's base, in bytes.
    pub(crate) first: usize,
    /// Distance from one slot to the next, in bytes: a multiple of the type's alignment, and never
    /// zero.
    pub(crate) stride: usize,
    /// The number of slots in a page.
    pub(crate) slots: usize,
    /// The number of pages in the largest group, or 0 if no group has room for a slot.
    pub(crate) pages: usize,
}

/// The page and the slot to which an address belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// The index of the page in its group.
    pub(crate) page: usize,
    /// The index of the slot in its page, and of the slot's bit in the page's word.
    pub(crate) slot: usize,
}

impl ArenaGeometry {
    /// Computes the layout for values of this size and alignment.
    pub(crate) const fn new(size: usize, align: usize, sizes: Sizes) -> Self {
        let stride = if size == 0 { align } else { size };
        let per_page = stride.saturating_mul(SPACING).saturating_add(sizes.near + sizes.far + sizes.rare);
        let mut group = SMALLEST;
        while group < LARGEST && group / GOAL < per_page {
            group *= 2;
        }
        while group <= isize::MAX as usize {
            if let Some(geometry) = Self::within(group, stride, align, sizes) {
                return geometry;
            }
            group *= 2;
        }
        // The type is too large for any group.
        Self { group: SMALLEST, near: 0, far: 0, rare: 0, first: 0, stride, slots: SLOTS, pages: 0 }
    }

    /// Returns the layout of groups with the alignment `group`, or `None` if such a group has no
    /// room for a slot.
    const fn within(group: usize, stride: usize, align: usize, sizes: Sizes) -> Option<Self> {
        let room = group - SLACK;
        let mut pages = room / stride.saturating_mul(SPACING) + 1;
        if pages > PAGES {
            pages = PAGES;
        }
        loop {
            let it = Self::lay_out(group, pages, stride, align, sizes);
            let fitting = room.saturating_sub(it.first) / stride;
            if fitting >= it.strides(pages) {
                return Some(it);
            }
            if fitting == 0 && pages == 1 {
                return None;
            }
            if pages == 1 {
                // Limit the memory for a first value to `LARGEST` bytes, or to the bytes that one
                // value needs if these are more.
                let slots = if group > LARGEST { 1 } else { fitting };
                return Some(Self { slots, ..it });
            }
            pages -= 1;
        }
    }

    /// Lays out a group of `pages` pages, whether or not its slots have room in the group.
    const fn lay_out(group: usize, pages: usize, stride: usize, align: usize, sizes: Sizes) -> Self {
        let near = sizes.header.next_multiple_of(LINE);
        let far = (near + pages * sizes.near).next_multiple_of(LINE);
        let rare = (far + pages * sizes.far).next_multiple_of(LINE);
        // This cannot overflow, because the parts are small and `align` is a power of two.
        let first = (rare + pages * sizes.rare).next_multiple_of(if align > LINE { align } else { LINE });
        Self { group, near, far, rare, first, stride, slots: SLOTS, pages }
    }

    /// Returns the distance from slot 0 of a group of `pages` pages to the end of its last slot, in
    /// strides.
    const fn strides(&self, pages: usize) -> usize {
        (pages - 1) * SPACING + self.slots
    }

    /// Returns the size in bytes of a group of `pages` pages: at least one, and no more than the
    /// largest group has.
    pub(crate) const fn bytes(&self, pages: usize) -> usize {
        self.first + self.strides(pages) * self.stride
    }

    /// Returns the total size in bytes of the fewest groups that together have `pages` pages.
    /// Returns `None` if the size overflows, or if `pages` is not 0 and no group has room for a
    /// slot.
    pub(crate) fn bytes_in_groups(&self, pages: usize) -> Option<usize> {
        if pages == 0 {
            return Some(0);
        }
        let largest = pages.checked_div(self.pages)?;
        let rest = match pages % self.pages {
            0 => 0,
            rest => self.bytes(rest),
        };
        self.bytes(self.pages).checked_mul(largest)?.checked_add(rest)
    }

    /// Returns the word in which the bit of each slot of a page is set.
    #[inline]
    pub(crate) const fn all(&self) -> u64 {
        (1 << self.slots) - 1
    }

    /// Returns the position of the slot at `addr` in its group.
    #[inline]
    pub(crate) const fn position(&self, addr: usize) -> Position {
        let strides = ((addr & (self.group - 1)) - self.first) / self.stride;
        Position { page: strides / SPACING, slot: strides % SPACING }
    }

    /// Returns the offset in bytes from the group's base to slot 0 of a page.
    #[inline]
    pub(crate) const fn page_offset(&self, page: usize) -> usize {
        self.first + page * SPACING * self.stride
    }

    /// Returns the number of pages that `slots` slots need, or `usize::MAX` if `slots` is not 0 and
    /// no group has room for a slot.
    pub(crate) const fn pages_for(&self, slots: usize) -> usize {
        if slots != 0 && self.pages == 0 { usize::MAX } else { slots.div_ceil(self.slots) }
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::{ArenaGeometry, LARGEST, LINE, Position, SLACK, Sizes};

    const SIZES: Sizes = Sizes { header: 64, near: 16, far: 16, rare: 16 };

    fn of(size: usize, align: usize) -> ArenaGeometry {
        ArenaGeometry::new(size, align, SIZES)
    }

    /// Asserts the properties that every layout with pages must have.
    fn check(it: &ArenaGeometry, size: usize, align: usize) {
        assert!(it.group.is_power_of_two() && it.pages > 0);
        assert!((1..=63).contains(&it.slots) && it.all().count_ones() as usize == it.slots);
        let bytes = it.bytes(it.pages);
        assert!(bytes <= it.group - SLACK, "{it:?}");
        assert!(it.near >= SIZES.header && it.near % LINE == 0);
        assert!(it.near + it.pages * SIZES.near <= it.far && it.far % LINE == 0);
        assert!(it.far + it.pages * SIZES.far <= it.rare && it.rare % LINE == 0);
        assert!(it.rare + it.pages * SIZES.rare <= it.first);
        assert!(it.first % align == 0 && it.stride % align == 0 && it.stride >= size.max(1));
        assert!(it.pages == 1 || it.slots == 63, "only a lone page has fewer slots");
        for page in [0, it.pages / 2, it.pages - 1] {
            for slot in [0, it.slots / 2, it.slots - 1] {
                let offset = it.page_offset(page) + slot * it.stride;
                let position = it.position(offset);
                assert_eq!((position.page, position.slot), (page, slot));
                assert!(offset + size <= bytes);
            }
        }
    }

    #[test]
    fn every_size_and_alignment_has_a_layout() {
        /// The largest size that the test uses. A larger type may have no layout.
        const MOST: usize = if usize::BITS == 64 { usize::MAX >> 30 } else { usize::MAX >> 6 };
        let step = if cfg!(miri) { 7 } else { 1 };
        for align_shift in (0..30).step_by(step) {
            let align = 1_usize << align_shift;
            for factor in [0, 1, 2, 3, 5, 8, 13, 40, 100, 1_000, 10_000, 100_000] {
                let Some(size) = align.checked_mul(factor) else { continue };
                if size <= MOST {
                    check(&of(size, align), size, align);
                }
            }
        }
    }

    #[test]
    fn usual_types_have_the_documented_groups() {
        let word = of(8, 8);
        assert_eq!((word.group, word.slots), (16 << 10, 63));
        // These are the numbers of the worked example in `DESIGN.md`.
        assert_eq!((word.pages, word.near, word.far, word.first), (28, 0x40, 0x200, 0x580));
        assert_eq!(word.position(0xa98), Position { page: 2, slot: 35 });
        // A value of 8 bytes takes less than 9.5 bytes of memory.
        assert!(word.group * 2 / (word.pages * word.slots) < 19, "{word:?}");
        let forty = of(40, 8);
        assert_eq!((forty.group, forty.pages), (32 << 10, 12));
        let kilobyte = of(1 << 10, 8);
        assert_eq!((kilobyte.group, kilobyte.pages, kilobyte.slots), (256 << 10, 4, 63));
        assert_eq!((of(4 << 10, 8).pages, of(4_156, 4).slots, of(4_157, 1).slots), (1, 63, 62));
        let large = of(64 << 10, 64);
        assert_eq!((large.group, large.pages, large.slots), (256 << 10, 1, 3));
        let huge = of(3 << 20, 8);
        assert_eq!((huge.group, huge.pages, huge.slots), (4 << 20, 1, 1));
        assert_eq!(of(0, 1).stride, 1);
        assert_eq!(of(0, 256).stride, 256);
    }

    #[test]
    fn a_group_with_more_than_the_largest_alignment_has_one_slot() {
        for align in (0..28).map(|shift| 1_usize << shift) {
            for size in [0, 1, 65 << 10, 150 << 10, (256 << 10) - 144, (256 << 10) - 72, 3 << 20] {
                let size = usize::next_multiple_of(size, align);
                let it = of(size, align);
                let bytes = it.bytes(it.pages);
                let one = size.max(align) + align.max(256);
                assert!(bytes <= LARGEST.max(one), "{size} bytes, aligned to {align}: {it:?}");
                assert!(it.group <= LARGEST || it.slots == 1, "{it:?}");
            }
        }
    }

    #[test]
    fn a_type_beyond_the_address_space_has_no_pages() {
        for size in [isize::MAX as usize, isize::MAX as usize / 2 + 1] {
            let it = of(size, 1);
            assert_eq!(it.pages, 0);
            assert_eq!((it.pages_for(0), it.pages_for(1)), (0, usize::MAX));
        }
        assert_eq!(of(0, 1 << (usize::BITS - 2)).pages, 0);
    }

    #[test]
    fn capacities_are_rounded_up_to_pages() {
        let it = of(8, 8);
        assert_eq!([0, 1, 63, 64, 1_000].map(|slots| it.pages_for(slots)), [0, 1, 1, 2, 16]);
        assert_eq!(it.pages_for(usize::MAX), usize::MAX / 63 + 1);
    }

    #[test]
    fn bytes_in_groups_is_the_sum_over_the_groups() {
        for it in [of(8, 8), of(40, 8), of(64 << 10, 64), of(3 << 20, 8)] {
            for pages in [0, 1, 2, it.pages - 1, it.pages, it.pages + 1, 7 * it.pages + 3, 64 * it.pages] {
                let (mut left, mut bytes) = (pages, 0);
                while left != 0 {
                    let some = left.min(it.pages);
                    bytes += it.bytes(some);
                    left -= some;
                }
                assert_eq!(it.bytes_in_groups(pages), Some(bytes), "{pages} pages of {it:?}");
            }
            assert_eq!(it.bytes_in_groups(usize::MAX / 8), None);
        }
        let none = of(isize::MAX as usize, 1);
        assert_eq!((none.bytes_in_groups(0), none.bytes_in_groups(1)), (Some(0), None));
    }
}
