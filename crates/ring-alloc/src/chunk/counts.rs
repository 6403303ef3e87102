//! Defines [`FreedCounts`], the numbers of freed bytes of the sections of a chunk.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::ops::Range;

use crate::cursor::GRANULE;
use crate::geometry::Geometry;

/// The number of sections of a chunk.
pub(super) const SECTIONS: usize = 32;

/// The number of sections of the shortest hole. Every small block fits into each hole.
pub(super) const SHORTEST: usize = 3;

/// The number of freed granules of each section of a chunk.
#[derive(Debug)]
pub(super) struct FreedCounts([Cell<u8>; SECTIONS]);

impl FreedCounts {
    pub(super) fn new() -> Self {
        Self([const { Cell::new(0) }; SECTIONS])
    }

    /// Sets the counts of these sections to zero.
    pub(super) fn reset(&self, sections: Range<usize>) {
        self.0[sections].iter().for_each(|freed| freed.set(0));
    }

    /// Counts the `room` bytes from `start` on as freed and returns `true`, if they end before the
    /// end of their second section. Otherwise, returns `false` without a change. `start` is an
    /// address in the chunk.
    ///
    /// Whether a block lies in one section or in two is hard to predict, so this code does not
    /// branch on it. If all bytes lie in one section, one of the two additions adds zero.
    #[inline]
    pub(super) fn add_short<G: Geometry>(&self, start: usize, room: usize) -> bool {
        let end = start + room;
        let tail = room.min(end % section_bytes::<G>());
        let head = room - tail;
        let is_short = head <= section_bytes::<G>();
        if is_short {
            self.add_within::<G>(start, head);
            self.add_within::<G>(end, tail);
        }
        is_short
    }

    /// Counts the bytes between two addresses in the chunk as freed.
    pub(super) fn add<G: Geometry>(&self, addresses: Range<usize>) {
        for (section, granules) in parts::<G>(addresses) {
            self.add_to(section, granules);
        }
    }

    /// Counts granules in eight sections as freed.
    pub(super) fn add_to_eight(&self, eight: usize, granules: [u8; 8]) {
        for (granules, section) in granules.into_iter().zip(8 * eight..) {
            self.add_to(section, usize::from(granules));
        }
    }

    /// Counts `bytes` bytes in the section of `address` as freed. If `bytes` is 0, `address` may be
    /// the end of the chunk.
    #[inline]
    fn add_within<G: Geometry>(&self, address: usize, bytes: usize) {
        self.add_to(address / section_bytes::<G>() % SECTIONS, bytes / GRANULE);
    }

    #[inline]
    fn add_to(&self, section: usize, granules: usize) {
        let freed = &self.0[section];
        freed.set(freed.get() + granules as u8);
    }

    /// Returns a bit for each section whose bytes all count as freed.
    #[inline]
    fn free<G: Geometry>(&self) -> u32 {
        // The largest count is a power of two, so its bit shows whether a section is free. The
        // multiplication gathers the bits of eight sections in the highest byte.
        let of_eight = |eight: usize| {
            let counts = u64::from_le_bytes(core::array::from_fn(|at| self.0[8 * eight + at].get()));
            let bits = counts >> granules::<G>().trailing_zeros() & 0x0101_0101_0101_0101;
            (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
        };
        (0..SECTIONS / 8).fold(0, |free, eight| free | of_eight(eight) << (8 * eight))
    }

    /// Returns the sections of the first hole: the first run of free sections that is not shorter
    /// than [`SHORTEST`].
    #[inline]
    pub(super) fn hole<G: Geometry>(&self) -> Option<Range<usize>> {
        let free = self.free::<G>();
        let starts = (1..SHORTEST).fold(free, |starts, next| starts & free >> next);
        let start = starts.trailing_zeros();
        (starts != 0).then(|| start as usize..(start + (free >> start).trailing_ones()) as usize)
    }
}

/// Returns the number of bytes of a section.
pub(super) const fn section_bytes<G: Geometry>() -> usize {
    G::SMALL_CHUNK / SECTIONS
}

/// Divides the bytes between two addresses in a chunk by section. Returns each section, with the
/// number of granules in it.
pub(super) fn parts<G: Geometry>(addresses: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let Range { mut start, end } = addresses;
    core::iter::from_fn(move || {
        let bytes = (end - start).min(section_bytes::<G>() - start % section_bytes::<G>());
        let section = start / section_bytes::<G>() % SECTIONS;
        start += bytes;
        (bytes != 0).then_some((section, bytes / GRANULE))
    })
}

/// Returns the number of granules of a section.
const fn granules<G: Geometry>() -> usize {
    section_bytes::<G>() / GRANULE
}

/// Returns whether a `u8` can count the granules of a section.
pub(super) const fn countable<G: Geometry>() -> bool {
    matches!(granules::<G>(), 1..=128)
}

#[cfg(all(test, not(ephemera_loom)))]
impl FreedCounts {
    /// Checks that no section has more freed bytes than it has bytes.
    pub(super) fn check<G: Geometry>(&self) {
        for (section, freed) in self.0.iter().map(Cell::get).enumerate() {
            assert!(usize::from(freed) <= granules::<G>(), "section {section} has {freed} freed granules");
        }
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::{FreedCounts, GRANULE, Range, SECTIONS, SHORTEST};
    use crate::geometry::Standard;

    const BYTES: usize = super::section_bytes::<Standard>();

    /// Returns counts in which these sections are free.
    fn with_free(sections: &[Range<usize>]) -> FreedCounts {
        let counts = FreedCounts::new();
        sections.iter().for_each(|free| counts.add::<Standard>(free.start * BYTES..free.end * BYTES));
        counts
    }

    #[test]
    fn hole_is_the_first_run_of_free_sections_that_is_long_enough() {
        const STEP: usize = if cfg!(miri) { 5 } else { 1 };
        for start in (0..=SECTIONS - SHORTEST).step_by(STEP) {
            for end in (start + SHORTEST..=SECTIONS).step_by(STEP) {
                let hole = start..end;
                assert_eq!(with_free(core::slice::from_ref(&hole)).hole::<Standard>(), Some(hole));
            }
        }
        assert_eq!(with_free(&[]).hole::<Standard>(), None);
        assert_eq!(with_free(&[0..SHORTEST - 1, SHORTEST..SHORTEST + 1]).hole::<Standard>(), None);
        let counts = with_free(&[0..SHORTEST - 1, SHORTEST..2 * SHORTEST, SECTIONS - SHORTEST..SECTIONS]);
        assert_eq!(counts.hole::<Standard>(), Some(SHORTEST..2 * SHORTEST));
        counts.reset(0..2 * SHORTEST);
        assert_eq!(counts.hole::<Standard>(), Some(SECTIONS - SHORTEST..SECTIONS));
    }

    #[test]
    fn each_freed_byte_counts_in_its_section() {
        const STEP: usize = if cfg!(miri) { 61 * GRANULE } else { GRANULE };
        for start in (0..2 * BYTES).step_by(STEP) {
            for room in (0..4 * BYTES).step_by(STEP) {
                let (counts, address) = (FreedCounts::new(), 1 << 20 | start);
                if !counts.add_short::<Standard>(address, room) {
                    assert!(start % BYTES + room >= 2 * BYTES, "{room} bytes from {start}");
                    counts.add::<Standard>(address..address + room);
                }
                for (section, freed) in counts.0.iter().enumerate() {
                    let [from, to] = [section, section + 1].map(|at| (at * BYTES).clamp(start, start + room));
                    assert_eq!(usize::from(freed.get()) * GRANULE, to - from, "{room} bytes from {start}");
                }
            }
        }
    }
}
