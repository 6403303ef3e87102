//! Frees or purges the chunks of an idle owner, on another thread.
//!
//! A *look* (one visit to an idle owner's record) borrows the chunks in that record's inbox, so no
//! thread can book their frees. The owner makes an undivided chunk its front only if it is empty,
//! and a chunk with unbooked frees is not empty. A divided chunk may become the front while it has
//! live blocks, but not while it has unbooked frees: a fence on both sides ensures this (B3). Once
//! the owner has replaced a borrowed chunk as the front, the chunk therefore does not become the
//! front again during the loan. So the loan keeps the owner out of the memory after the header
//! (B1).
//!
//! A look *evicts* a chunk without live blocks, that is, removes it from the owner's list and frees
//! it. It cannot evict a divided chunk or the newest chunk of a class (B4). It cannot evict any
//! chunk while the owner or a walker uses the list, or if the kernel refuses the fence. It purges a
//! chunk that it cannot evict, and leaves the header to the owner.

use ephemera_prim::account::{Account, SharedAccount};
use ephemera_prim::barrier;
use ephemera_prim::idle::{IdleBy, Mail, Purged};
use ephemera_prim::pages::Pages;
use ephemera_prim::raw;

use crate::chunk::{Chunk, ChunkPtr};
use crate::geometry::Geometry;
use crate::heap::{ChunkHeap, Evictions};

/// The largest number of chunks that one look examines. This number and [`PURGES`] are smaller in
/// unit tests and under Miri, so that one look does not examine all chunks.
const CHUNKS: usize = if cfg!(any(test, miri)) { 4 } else { 512 };
/// The largest number of chunks that one look frees or purges.
const PURGES: usize = if cfg!(any(test, miri)) { 2 } else { 32 };

/// Frees or purges chunks of this heap that have unbooked remote frees and no live block. `by` says
/// why the owner is idle. Returns how many chunks this call freed or purged, whether another look
/// probably finds more, and whether this look reached the last chunk. After this call, the caller
/// must check whether a thread holds the heap's record, and drain the record's mail if none does.
/// Only one thread at a time may call this function for a heap. `evictions` is the heap's lock, and
/// `account` counts the heap's chunks.
pub(super) fn purge_chunks<G: Geometry, H>(
    heap: &ChunkHeap,
    evictions: &Evictions,
    mail: &Mail<Chunk, H>,
    account: &SharedAccount,
    by: IdleBy,
) -> Purged {
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
        let Some(unit) = lent.take() else { break };
        // SAFETY: the chunk is lent, so no thread books its frees, and it is not freed (C1).
        let chunk = unsafe { ChunkPtr::new(unit) };
        chunks += 1;
        // Skip a divided chunk that is already purged, because no look can evict it. Examine an
        // undivided one again: an earlier look purged it only because it could not evict it. B2:
        // load the front first. The store of the new front published `taken`, which must equal the
        // sum of all frees.
        if !(chunk.is_purged() && chunk.is_divided())
            && ordered(chunk)
            && heap.has_replaced(chunk)
            && (chunk.is_free_to_purge() || weakened!("ring_live_chunk_is_purged"))
        {
            empty[empties] = Some(chunk);
            empties += 1;
        } else {
            // SAFETY: the chunk is from this loan, and is neither freed nor set aside yet.
            unsafe { lent.set_aside(unit) };
        }
    }
    // Put the unexamined chunks back at once, because the owner may need them soon.
    lent.put_rest_back();
    let weak = weakened!("ring_idle_owners_keep_chunks");
    // SAFETY: the chunks are lent to this thread, which saw above that the owner had replaced each
    // of them as the front and that none of their blocks is live (B2).
    let evicted = if weak { [false; PURGES] } else { unsafe { heap.evict(evictions, &empty) } };
    let mut units = 0;
    for (chunk, evicted) in empty.into_iter().flatten().zip(evicted) {
        units += usize::from(evicted || !chunk.is_purged());
        if evicted {
            continue;
        }
        if !chunk.is_purged() {
            // SAFETY: the chunk is lent, it is not the front, and none of its blocks is live (B2).
            // The chunks of all records come from `Pages`.
            unsafe { chunk.purge() };
        }
        // SAFETY: the chunk is from this loan. It was not evicted, so it is not freed, and it is
        // not set aside yet.
        unsafe { lent.set_aside(chunk.as_non_null()) };
    }
    lent.put_back();
    for (chunk, _) in empty.into_iter().flatten().zip(evicted).filter(|(_, evicted)| *evicted) {
        let layout = chunk.class().chunk_layout::<G>();
        let memory = chunk.end_of_loan();
        // SAFETY: none of the chunk's blocks is live. The chunk was lent to this thread, evicted,
        // and not put back, so no other thread uses it (B4). All chunks come from `Pages`, with
        // this layout.
        unsafe { raw::release(&Pages, memory, layout) };
        account.release(layout.size());
    }
    let ended = empties < PURGES && chunks < CHUNKS;
    Purged { units, more: units != 0 && !ended, ended }
}
