//! Divides a chunk of small blocks into sections, so that a heap can reuse the memory between
//! blocks that live long.
//!
//! A *divided* chunk counts the freed bytes of each of its 32 sections. A section whose bytes are
//! all freed is *free*. Three or more free sections side by side are a *hole*: the chunk's second
//! cursor can run through it again, although blocks in other sections are live.
//!
//! ```text
//!  section   0 ... 9        10     11 ... 17   18     19, 20   21     22 ... 31
//!          | header, free | live | free      | live | free   | live | free, slack |
//!          <--- hole ----->      <-- hole -->                       <--- hole ---->
//! ```
//!
//! The header and the slack count as freed. So do the gap before an aligned block, and the rest of
//! a hole after the heap has moved to another front. The bytes of a remote free count once the
//! owner has collected them (see `remote`).
//!
//! A heap searches a chunk for holes when it needs one, when it leaves the chunk, and after it has
//! booked remote frees in the chunk. If a search finds none, the chunk joins the list of chunks
//! with holes once half of the bytes that were live at the search have been freed. Frees therefore
//! need not check whether they complete a hole.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::ops::Range;

use ephemera_prim::sync::Ordering;

use super::ChunkPtr;
use super::counts::{SECTIONS, section_bytes};
use super::header::{Chunk, DIVIDED, LISTED, NEVER, WHOLE};
use crate::geometry::Geometry;
use crate::live::LiveCount;

impl ChunkPtr {
    /// Returns whether the chunk is divided. Threads other than the owner may call this method.
    #[inline]
    pub(crate) fn is_divided(self) -> bool {
        self.header().touch();
        self.state().get() != WHOLE
    }

    /// Divides an empty chunk that was rewound, or divides an empty divided chunk again, and moves
    /// the second cursor to the start of the chunk. The chunk must become the front, or be the
    /// front.
    pub(crate) fn divide<G: Geometry>(self) {
        self.sections().cursor.taken.set(0);
        self.back().set(0);
        self.remote_counts().reset();
        self.divided().store(true, Ordering::Relaxed);
        self.set_state(DIVIDED, NEVER);
        self.open::<G>(0..SECTIONS);
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
            self.divided().store(false, Ordering::Relaxed);
        }
    }

    /// If the chunk is divided, counts the bytes between two addresses as freed. The calling thread
    /// is not the owner, and must then free these bytes remotely. Until it does, the chunk is not
    /// empty, so the owner neither divides the chunk again nor resets these counts.
    #[inline]
    pub(crate) fn count_remotely<G: Geometry>(self, addresses: Range<usize>) {
        // Relaxed: the owner divided the chunk before it allocated the block, and the hand-over of
        // the block to this thread published that.
        if self.divided().load(Ordering::Relaxed) && !weakened!("remote_bytes_are_lost") {
            self.remote_counts().add::<G>(addresses);
        }
    }

    /// Adds the bytes that other threads freed since the last call to the counts of the sections.
    pub(crate) fn collect_remote(self) {
        self.remote_counts().collect(&self.sections().freed);
    }

    /// Books the free of the block of `room` bytes at `start` in a divided chunk. `back` is the sum
    /// of the booked frees with this one.
    #[inline]
    pub(crate) fn book_in_section<G: Geometry>(self, back: u64, start: usize, room: usize) -> Booking {
        let taken = self.sections().cursor.taken.get();
        if back == taken {
            return Booking::Emptied;
        }
        self.publish_back(back);
        if self.move_back(start, start + room) {
            return Booking::Done;
        }
        if !self.sections().freed.add_short::<G>(start, room) {
            return Booking::Uncounted;
        }
        if self.is_due(taken, back) { Booking::Due } else { Booking::Done }
    }

    /// Returns whether the chunk, which has these sums and a live block, is to join the list of
    /// chunks with holes. A live block has at least one byte, so the result is `false` if `due` is
    /// [`NEVER`].
    #[inline]
    fn is_due(self, taken: u64, back: u64) -> bool {
        LiveCount(taken.wrapping_sub(back)).bytes() <= self.sections().due.get()
    }

    /// Counts the bytes between two addresses, whose free is booked, as freed. Returns whether the
    /// chunk is to join the list of chunks with holes.
    pub(crate) fn count<G: Geometry>(self, addresses: Range<usize>) -> bool {
        self.cover::<G>(addresses);
        self.is_due(self.taken(), self.back().get())
    }

    /// Counts the bytes between two addresses as freed.
    #[inline]
    pub(crate) fn cover<G: Geometry>(self, addresses: Range<usize>) {
        self.sections().freed.add::<G>(addresses);
    }

    /// Returns the sections of the first hole.
    #[inline]
    pub(crate) fn hole<G: Geometry>(self) -> Option<Range<usize>> {
        self.sections().freed.hole::<G>()
    }

    /// Moves the second cursor to the start of a hole. Only the header and the slack in it then
    /// count as freed.
    pub(crate) fn open<G: Geometry>(self, hole: Range<usize>) {
        let (sections, base) = (self.sections(), self.addr());
        let [mut start, mut end] = [hole.start, hole.end].map(|at| base + at * section_bytes::<G>());
        sections.freed.reset(hole.clone());
        if hole.start == 0 {
            self.cover::<G>(start..self.first());
            start = self.first();
        }
        if hole.end == SECTIONS {
            self.cover::<G>(self.whole().end.get()..end);
            end = self.whole().end.get();
        }
        sections.cursor.next.set(start);
        sections.cursor.end.set(end);
    }

    /// Leaves the hole through which the second cursor runs, so that no block fits. Returns the
    /// addresses between the cursor and the end of the hole.
    pub(crate) fn close(self) -> Range<usize> {
        let cursor = &self.sections().cursor;
        let rest = cursor.next.get()..cursor.end.get();
        cursor.next.set(0);
        cursor.end.set(0);
        rest
    }

    /// Moves the second cursor back from `end` to `start` and returns `true`, if it is at `end`.
    /// After that, the bytes from `start` to `end`, which the caller freed, do not count as freed.
    /// In a chunk that is not the front, the cursor is 0 (see `close`), so no block ends there.
    #[inline]
    fn move_back(self, start: usize, end: usize) -> bool {
        let next = &self.sections().cursor.next;
        let is_top = next.get() == end && !weakened!("hole_cursor_never_moves_back");
        if is_top {
            next.set(start);
        }
        is_top
    }

    /// Frees the tail of a block that shrank: moves the second cursor back if it is at the end of
    /// the tail, and otherwise counts the bytes as freed. Returns whether the chunk is to join the
    /// list of chunks with holes.
    #[inline]
    pub(crate) fn free_tail<G: Geometry>(self, tail: Range<usize>) -> bool {
        !self.move_back(tail.start, tail.end) && !weakened!("shrunk_tails_are_lost") && self.count::<G>(tail)
    }

    /// Lets the chunk join the list of chunks with holes once half of its live bytes have been
    /// freed. The chunk must be neither on the list nor the front.
    pub(crate) fn expect_frees(self) {
        let live = LiveCount(self.taken().wrapping_sub(self.back().get()));
        self.set_state(DIVIDED, if weakened!("chunks_expect_no_frees") { NEVER } else { live.bytes() / 2 });
    }

    /// Returns whether the chunk is on its heap's list of chunks with holes.
    pub(crate) fn is_listed(self) -> bool {
        self.state().get() == LISTED
    }

    /// Notes whether the divided chunk is on its heap's list of chunks with holes. If it is not, no
    /// free puts it there until [`Self::expect_frees`] is called.
    pub(crate) fn set_listed(self, listed: bool) {
        self.set_state(if listed { LISTED } else { DIVIDED }, NEVER);
    }

    fn set_state(self, state: usize, due: usize) {
        self.state().set(state);
        self.sections().due.set(due);
    }

    /// Returns the chunk's links in the list of chunks with holes: next and previous.
    pub(crate) fn hole_links(&self) -> [&Cell<*mut Chunk>; 2] {
        let sections = self.sections();
        [&sections.next, &sections.prev]
    }
}

/// The result of [`ChunkPtr::book_in_section`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Booking {
    /// The free is booked.
    Done,
    /// The free is booked, and the caller must put the chunk on the list of chunks with holes.
    Due,
    /// The free is booked, and the caller must count its bytes by section, because the block
    /// reaches the end of its second section.
    Uncounted,
    /// The chunk ran empty, and the free is not booked. The caller must divide the chunk again or
    /// unite it.
    Emptied,
}

#[cfg(all(test, not(ephemera_loom)))]
impl ChunkPtr {
    /// Checks that no section has more freed bytes than it has bytes. Returns whether the chunk
    /// joins the list of chunks with holes after further frees.
    pub(crate) fn check_sections<G: Geometry>(self) -> bool {
        self.sections().freed.check::<G>();
        self.sections().due.get() != NEVER
    }
}
