//! Divides a chunk of small blocks into sections, so that a heap can reuse the memory between
//! blocks that live long.
//!
//! A *divided* chunk counts the freed bytes of each section. A section whose bytes are all freed is
//! *free*: the chunk's second cursor can run through it again, although blocks in other sections
//! are live. Free sections side by side are one *hole*.
//!
//! ```text
//!  section   0        1        2        3        4        5        6        7
//!          | header   |        | live   |        |        | live   |        |        |
//!  freed     4,096     4,096    2,048    4,096    4,096    3,000    4,096    4,096
//!            <--- hole ------>           <--- hole ------>          <--- hole ------>
//! ```
//!
//! The header and the slack count as freed. So do the gap before an aligned block, and the bytes
//! between the cursor and the end of a hole that the heap leaves. The bytes of remote frees do not.
//! A section with such bytes becomes free only when the whole chunk is empty.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::ops::Range;

use super::ChunkPtr;
use super::header::{Chunk, DIVIDED, LISTED, SECTIONS, Sections, WHOLE, WITH_SECTIONS, section_bytes};
use crate::cursor::GRANULE;
use crate::geometry::{Geometry, SLACK};
use crate::live::LiveCount;

impl Sections {
    /// Counts granules of a section as freed. Returns whether the section is then free.
    #[inline]
    fn add<G: Geometry>(&self, section: usize, granules: usize) -> bool {
        let freed = self.freed[section].get() + granules as u16;
        self.freed[section].set(freed);
        let full = usize::from(freed) == section_bytes::<G>() / GRANULE;
        if full {
            self.free.set(self.free.get() | 1 << section);
        }
        full
    }

    /// Returns the first hole, and counts only the header and the slack in it as freed. The result
    /// is empty if there is no hole.
    fn take_hole(&self) -> Range<usize> {
        let free = self.free.get();
        let start = free.trailing_zeros() as usize;
        let end = start + (free >> start).trailing_ones() as usize;
        for section in start..end {
            self.freed[section].set(match section {
                0 => (WITH_SECTIONS / GRANULE) as u16,
                last if last == SECTIONS - 1 => (SLACK / GRANULE) as u16,
                _ => 0,
            });
        }
        self.free.set(free & free.wrapping_add(1 << start));
        start..end
    }
}

impl ChunkPtr {
    /// Returns whether the chunk is divided. Threads other than the owner may call this method.
    #[inline]
    pub(crate) fn is_divided(self) -> bool {
        self.state().get() != WHOLE
    }

    /// Divides an empty chunk that was rewound, or restarts an empty divided chunk. All of its
    /// sections are then free.
    pub(crate) fn divide(self) {
        self.sections().free.set((1 << SECTIONS) - 1);
        self.sections().cursor.taken.set(LiveCount::NONE.word());
        self.back().set(LiveCount::NONE.word());
        if !self.is_divided() {
            self.state().set(DIVIDED);
        }
    }

    /// Makes a divided chunk undivided: copies the sum of all allocations to the first cursor. This
    /// cursor stays at the start of the chunk, so the chunk must be rewound before it becomes a
    /// front. Does nothing to an undivided chunk. The chunk must not be on the list of chunks with
    /// holes.
    pub(crate) fn unite(self) {
        ephemera_prim::invariant!(!self.is_listed(), "a listed chunk loses its sections");
        if self.is_divided() {
            self.whole().taken.set(self.sections().cursor.taken.get());
            self.state().set(WHOLE);
        }
    }

    /// Counts `room` bytes from `start` on as freed, if all of them are in one section. Returns
    /// whether this section became free, or `None` if the bytes are in several sections.
    #[inline]
    pub(crate) fn cover_within_section<G: Geometry>(self, start: usize, room: usize) -> Option<bool> {
        let offset = start - self.addr();
        let is_within = offset % section_bytes::<G>() + room <= section_bytes::<G>();
        let section = offset / section_bytes::<G>() % SECTIONS;
        is_within.then(|| self.sections().add::<G>(section, room / GRANULE))
    }

    /// Counts the bytes between two addresses as freed. Returns whether a section became free.
    pub(crate) fn cover<G: Geometry>(self, addresses: Range<usize>) -> bool {
        let mut at = addresses.start - self.addr();
        let (end, mut free) = (addresses.end - self.addr(), false);
        while at < end {
            let section = at / section_bytes::<G>();
            let stop = end.min((section + 1) * section_bytes::<G>());
            free |= self.sections().add::<G>(section, (stop - at) / GRANULE);
            at = stop;
        }
        free
    }

    /// Returns whether a section is free.
    pub(crate) fn has_hole(self) -> bool {
        self.sections().free.get() != 0
    }

    /// Moves the second cursor to the start of the first hole. The chunk must have a hole.
    pub(crate) fn open_hole<G: Geometry>(self) {
        ephemera_prim::invariant!(self.has_hole(), "a chunk without a hole is on the list");
        let sections = self.sections();
        let hole = sections.take_hole();
        sections.cursor.next.set(self.first().max(self.addr() + hole.start * section_bytes::<G>()));
        sections.cursor.end.set(self.whole().end.get().min(self.addr() + hole.end * section_bytes::<G>()));
    }

    /// Moves the second cursor to the end of its hole, so that no block fits. Returns the addresses
    /// that the cursor passed over.
    pub(crate) fn close(self) -> Range<usize> {
        let cursor = &self.sections().cursor;
        let (next, end) = (cursor.next.get(), cursor.end.get());
        cursor.next.set(end);
        next..end
    }

    /// Moves the second cursor back from `end` to `start` and returns `true`, if it is at `end`.
    /// The bytes between the two, which the caller freed, then do not count as freed.
    pub(crate) fn move_back(self, start: usize, end: usize) -> bool {
        let next = &self.sections().cursor.next;
        let is_top = next.get() == end && !weakened!("hole_cursor_never_moves_back");
        if is_top {
            next.set(start);
        }
        is_top
    }

    /// Returns whether the chunk is on its heap's list of chunks with holes.
    pub(crate) fn is_listed(self) -> bool {
        self.state().get() == LISTED
    }

    /// Notes whether the chunk, which is divided, is on that list.
    pub(crate) fn set_listed(self, listed: bool) {
        self.state().set(if listed { LISTED } else { DIVIDED });
    }

    /// Returns the links of that list: to the next chunk and the previous one.
    pub(crate) fn hole_links(&self) -> [&Cell<*mut Chunk>; 2] {
        let sections = self.sections();
        [&sections.next, &sections.prev]
    }
}

#[cfg(test)]
impl ChunkPtr {
    /// Checks that no section has more freed bytes than it has bytes, and that the free sections
    /// are known.
    pub(crate) fn check_sections<G: Geometry>(self) {
        for (section, freed) in self.sections().freed.iter().map(Cell::get).map(usize::from).enumerate() {
            let (full, free) = (section_bytes::<G>() / GRANULE, self.sections().free.get() >> section & 1);
            assert!(freed <= full, "section {section} has {freed} freed granules");
            assert_eq!(freed == full, free == 1, "section {section}");
        }
    }
}
