//! Purges the chunks of an idle owner, on another thread.
//!
//! A *look* (one visit to an idle owner's record) borrows the chunks in that record's inbox, so no
//! thread can book their frees. The owner makes an undivided chunk its front only if it is empty,
//! and a chunk with unbooked frees is not empty. A divided chunk may become the front while it has
//! live blocks, but not while it has unbooked frees: a fence on both sides ensures this (B3). Once
//! the owner has replaced a borrowed chunk as the front, the chunk therefore does not become the
//! front again during the loan. So the loan keeps the owner out of the memory after the header
//! (B1).

use ephemera_prim::barrier;
use ephemera_prim::foreign::LentUnits;
use ephemera_prim::idle::{IdleBy, Mail, Purged};

use crate::chunk::{Chunk, ChunkPtr};
use crate::heap::ChunkHeap;

/// The largest number of chunks that one look examines. This number and [`PURGES`] are smaller in
/// unit tests and under Miri, so that one look does not examine all chunks.
const CHUNKS: usize = if cfg!(any(test, miri)) { 4 } else { 512 };
/// The largest number of chunks that one look purges.
const PURGES: usize = if cfg!(any(test, miri)) { 2 } else { 32 };

/// Purges chunks of this heap that have unbooked remote frees and no live block. `by` says why the
/// owner is idle. Returns the number of purged chunks, whether another look probably finds more,
/// and whether this look reached the last chunk. After this call, the caller must check whether a
/// thread holds the heap's record, and drain the record's mail if none does. Only one thread at a
/// time may call this function for a heap.
pub(super) fn purge_chunks<H>(heap: &ChunkHeap, mail: &Mail<Chunk, H>, by: IdleBy) -> Purged {
    if weakened!("ring_idle_owners_keep_pages") {
        return Purged::default();
    }
    let mut lent = mail.lend();
    if by == IdleBy::Bytes {
        lent.put_newest_back();
    }
    // ORDERING: heavy fence, between the loan of the chunks and the load of the front. Pairs with
    // `light` in `heap/holes.rs`: this thread sees that a divided chunk is the front again, or the
    // owner sees the remote frees of the chunk (B3). One fence suffices for all lent chunks.
    let mut fenced = None;
    let mut ordered = |chunk: ChunkPtr| !chunk.is_divided() || *fenced.get_or_insert_with(barrier::heavy);
    let mut empty = [const { None }; PURGES];
    let (mut chunks, mut empties) = (0, 0);
    while empties < PURGES && chunks < CHUNKS {
        let Some(chunk) = look(&mut lent) else { break };
        chunks += 1;
        let weak = weakened!("ring_live_chunk_is_purged");
        // B2: load the front first. The store of the new front published `taken`, which must equal
        // the sum of all frees.
        if !chunk.is_purged()
            && ordered(chunk)
            && heap.has_replaced(chunk)
            && (chunk.is_free_to_purge() || weak)
        {
            empty[empties] = Some(chunk);
            empties += 1;
        }
    }
    // Put the unexamined chunks back at once, because the owner may need them soon.
    lent.put_rest_back();
    for chunk in empty.into_iter().flatten() {
        // SAFETY: the chunk is lent, it is not the front, and none of its blocks is live (B2). The
        // chunks of all records come from `Pages`.
        unsafe { chunk.purge() };
    }
    lent.put_back();
    let ended = empties < PURGES && chunks < CHUNKS;
    Purged { units: empties, more: empties != 0 && !ended, ended }
}

/// Returns the next lent chunk, or `None` if there are no more.
fn look(lent: &mut LentUnits<'_, Chunk>) -> Option<ChunkPtr> {
    let chunk = lent.look()?;
    // SAFETY: the chunk is lent, so no thread books its frees, and it is not freed (C1).
    Some(unsafe { ChunkPtr::new(chunk) })
}
