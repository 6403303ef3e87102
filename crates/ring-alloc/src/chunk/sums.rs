//! The two sums of blocks and bytes of a chunk (see `live`): `taken` counts all allocations, and
//! `back` all frees that the owner has *booked*, that is, added to this sum. A chunk whose sums are
//! equal is *empty*: none of its blocks is live.
#![forbid(unsafe_code)]

use super::ChunkPtr;
use crate::cursor::room_of;
use crate::live::LiveCount;

impl ChunkPtr {
    /// Frees a block of the front, as the chunk's owner. The front is this chunk's first cursor. If
    /// the chunk is then empty, rewinds it, so that short-lived blocks reuse the same cache lines.
    /// Otherwise, if the block was the top block, moves the cursor back.
    ///
    /// This code branches, and `rewind` loads `first` instead of deriving it from the block's
    /// address. With conditional moves or that arithmetic, every allocation would wait for the
    /// previous free, and that free would wait for the allocation of its block.
    #[inline]
    pub(crate) fn free_front(self, start: usize, size: usize) {
        self.touch();
        let back = self.back().get().wrapping_add(LiveCount::block(size).0);
        if back == self.whole().taken.get() {
            return self.rewind();
        }
        // A plain store suffices, because the owner publishes this sum when it replaces the front.
        self.back().set(back);
        if start + room_of(size) == self.whole().next.get() {
            self.whole().next.set(start);
        }
    }

    /// Books `given` if one comparison shows that the chunk is undivided and does not run empty.
    /// Otherwise, books nothing, and returns the sum of the booked frees that includes `given`.
    ///
    /// The comparison fails for every divided chunk, because its first cursor has the sum 0. It
    /// also fails while only one of the two sums has wrapped around.
    #[inline]
    pub(crate) fn book_quickly(self, given: LiveCount) -> Result<(), u64> {
        self.touch();
        let back = self.back().get().wrapping_add(given.0);
        if back >= self.whole().taken.get() {
            return Err(back);
        }
        self.publish_back(back);
        Ok(())
    }

    /// Books `given`: freed blocks, or the bytes that a block lost. Returns whether the chunk ran
    /// empty. If so, the sum is not written, and the caller must rewind the chunk.
    #[must_use]
    pub(crate) fn book(self, given: LiveCount) -> bool {
        let back = self.back().get().wrapping_add(given.0);
        if back == self.taken() {
            return true;
        }
        self.publish_back(back);
        false
    }

    /// Stores the sum of the booked frees, and publishes accesses to the freed memory to a thread
    /// that purges the chunk.
    #[inline]
    pub(super) fn publish_back(self, back: u64) {
        let weak = weakened!("ring_local_free_relaxed");
        if weak { self.back().set(back) } else { self.back().publish(back) }
    }

    /// Tells the model checker that this thread accesses the memory of blocks.
    #[inline]
    fn touch(self) {
        self.whole().contents.touch();
        #[cfg(ephemera_loom)]
        if self.is_divided() {
            self.sections().cursor.contents.touch();
        }
    }

    /// Returns the `LiveCount` of all allocations since the chunk was last empty.
    #[inline]
    pub(crate) fn taken(self) -> u64 {
        self.current().taken().get()
    }

    /// Returns whether no block is live according to the booked frees.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.back().get() == self.taken()
    }

    /// Returns the count of the live blocks and their bytes. Blocks and bytes with an unbooked
    /// remote free count as freed. The result is exact while no thread runs an operation.
    pub(crate) fn live_now(self) -> LiveCount {
        self.header().touch();
        self.live()
    }

    /// Returns the same count as [`ChunkPtr::live_now`], but does not tell the model checker about
    /// the access. The owner may call this method even while another thread purges the chunk.
    pub(crate) fn live(self) -> LiveCount {
        let unbooked = self.foreign().unbooked();
        if let Some(live) = LiveCount::of_countdown(unbooked) {
            return live;
        }
        let [taken, back, unbooked] = [self.taken(), self.back().get(), unbooked].map(LiveCount);
        taken.minus(back, unbooked)
    }

    /// Rewinds an empty undivided chunk: moves its cursor to its start and sets its sums to zero.
    /// No written value depends on an earlier allocation or free, so neither delays the next
    /// allocation.
    #[inline]
    pub(crate) fn rewind(self) {
        self.whole().next.set(self.first());
        self.whole().taken.set(0);
        // This check saves a store if each block is freed before the next is allocated.
        if self.back().get() != 0 {
            self.back().set(0);
        }
    }

    /// Shrinks the block at `start`: books the bytes that the block loses. If the first cursor is
    /// the front (`front`) and the block is its top block, also moves this cursor back.
    #[inline]
    pub(crate) fn shrink(self, start: usize, old: usize, new: usize, front: bool) {
        if front && start + room_of(old) == self.whole().next.get() {
            self.whole().next.set(start + room_of(new));
        }
        let bytes = LiveCount::resized(old - new);
        let emptied = self.book_quickly(bytes).is_err() && self.book(bytes);
        ephemera_prim::invariant!(!emptied, "a chunk ran empty although a block in it was only shrunk");
    }
}
