//! Purges a chunk, or ends the use of an evicted one, on a thread other than the owner. A purge
//! returns the whole pages after the chunk's header to the operating system. The chunk counts as
//! purged until its remote frees are booked.

use core::ptr::NonNull;

use ephemera_prim::foreign::COMPLETE;
use ephemera_prim::sync::Ordering;

use super::ChunkPtr;
use crate::live::LiveCount;

impl ChunkPtr {
    /// Returns whether all blocks of this chunk are freed, counting unbooked remote frees. If so,
    /// all accesses to the blocks happen before the return.
    ///
    /// The calling thread must have borrowed the chunk and then seen that the owner replaced it as
    /// the front (B2). `taken` is therefore exact. `back` and the foreign word only grow. If this
    /// thread reads an old value of either, a freed block counts as live, and the thread neither
    /// evicts nor purges the chunk.
    pub(crate) fn is_free_to_purge(self) -> bool {
        let word = self.foreign().observe();
        let back = self.back().observe();
        // A countdown is complete only after the last free in an abandoned chunk, so no block is
        // live.
        word == COMPLETE || back.wrapping_add(word) == self.taken()
    }

    /// Returns whether the chunk is purged. This is the case if a thread has returned the whole
    /// pages after the chunk's header to the operating system, and no thread has booked the chunk's
    /// remote frees since.
    pub(crate) fn is_purged(self) -> bool {
        self.purged().load(Ordering::Relaxed)
    }

    /// Books the foreign word of a chunk that came out of the inbox: remote frees, or a complete
    /// countdown. Returns whether the chunk ran empty. If so, the caller must rewind the chunk.
    pub(crate) fn book_word(self, word: u64) -> bool {
        if self.is_purged() {
            self.purged().store(false, Ordering::Relaxed);
        }
        if word == COMPLETE {
            self.back().set(self.taken());
            return true;
        }
        self.book(LiveCount(word))
    }

    /// Ends the use of a chunk that this thread has borrowed and evicted, and returns its memory,
    /// which only this thread may access.
    pub(crate) fn end_of_loan(self) -> NonNull<u8> {
        self.foreign().reuse();
        self.whole().contents.write();
        self.foreign().end_lent();
        self.header().end();
        self.as_non_null().cast()
    }

    /// Marks the chunk as purged, and returns the whole pages after its header to the operating
    /// system. Without the feature `std`, and in models, returns no pages.
    ///
    /// # Safety
    /// The calling thread has borrowed the chunk, which came from `Pages`. No block of the chunk is
    /// live, and the chunk is not the front.
    pub(crate) unsafe fn purge(self) {
        self.foreign().reuse();
        self.whole().contents.write();
        #[cfg(ephemera_loom)]
        if self.is_divided() {
            self.sections().cursor.contents.write();
        }
        self.purged().store(true, Ordering::Relaxed);
        #[cfg(all(feature = "std", not(ephemera_loom)))]
        {
            let (start, len) = (self.at(self.first()), self.whole().end.get() - self.first());
            // SAFETY: the range ends at the end of the chunk. The chunk is a live block of `Pages`,
            // and only this thread may free it while it is lent. No block is live (B1), so nothing
            // needs these bytes, and the owner does not access them before it dequeues the chunk.
            unsafe { ephemera_prim::pages::purge_tail(start, len) };
        }
    }
}
