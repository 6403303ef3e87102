//! The records of `OneRingAlloc` as a thread that looks for idle owners sees them.

use ephemera_prim::foreign::LentUnits;
use ephemera_prim::idle::{IdleBy, IdleHeaps, Mail, Purged, PushedBytes};

use super::record::{HeapRecord, Realm, drain_free_record};
use crate::chunk::{Chunk, ChunkPtr};

/// The bounds of one look: the chunks that it borrows and looks at, and the chunks that it purges.
/// They are smaller in tests, so that one look does not see all chunks.
const CHUNKS: usize = if cfg!(any(test, miri)) { 4 } else { 512 };
const PURGES: usize = if cfg!(any(test, miri)) { 2 } else { 32 };

/// The records of a realm, as a thread that looks for idle owners sees them.
///
/// The look borrows the chunks of a record's inbox, so that nobody can book their frees. The owner
/// makes only empty chunks the front, and a chunk is not empty before its frees are booked. So a
/// borrowed chunk that the owner replaced as the front does not become the front again. The loan
/// alone keeps the owner out of the memory behind the header (B1), and the owner needs no fence.
#[derive(Debug)]
pub(super) struct IdleRings<R>(pub(super) R);

impl<R: Realm> IdleHeaps for IdleRings<R> {
    type Heap = HeapRecord<R::Geometry>;
    type Unit = Chunk;

    fn mail<'h>(&self, record: &'h Self::Heap) -> &'h Mail<Chunk, Self::Heap> {
        &record.data().mail
    }

    fn pushed<'h>(&self, record: &'h Self::Heap) -> &'h PushedBytes {
        &record.data().pushed
    }

    fn visits(&self, record: &Self::Heap) -> usize {
        record.data().visits.get()
    }

    fn is_held(&self, record: &Self::Heap) -> bool {
        !record.is_free()
    }

    fn purge_units(&self, record: &Self::Heap, by: IdleBy) -> Purged {
        if cfg!(ephemera_weaken = "ring_idle_owners_keep_pages") {
            return Purged::default();
        }
        let data = record.data();
        let mut lent = data.mail.inbox.lend();
        if by == IdleBy::Bytes {
            lent.put_newest_back(&data.mail.inbox);
        }
        let mut empty = [const { None }; PURGES];
        let (mut chunks, mut empties) = (0, 0);
        while empties < PURGES && chunks < CHUNKS {
            let Some(chunk) = look(&mut lent) else { break };
            chunks += 1;
            let weak = cfg!(ephemera_weaken = "ring_live_chunk_is_purged");
            // B2: the front first, since it publishes what the sums are compared with.
            if !chunk.is_purged() && data.heap.has_replaced(chunk) && (chunk.is_free_to_purge() || weak) {
                empty[empties] = Some(chunk);
                empties += 1;
            }
        }
        // The owner may need the other chunks soon.
        lent.put_rest_back(&data.mail.inbox);
        for chunk in empty.into_iter().flatten() {
            // SAFETY: the chunk is lent, is not the front, and has no live block (B2).
            unsafe { chunk.purge() };
        }
        data.mail.put_back(lent);
        self.drain_free_record(record);
        Purged { units: empties, more: empties != 0 && (empties == PURGES || chunks == CHUNKS) }
    }

    fn drain_free_record(&self, record: &Self::Heap) {
        drain_free_record(self.0, record);
    }
}

/// Returns the next lent chunk.
fn look(lent: &mut LentUnits<Chunk>) -> Option<ChunkPtr> {
    let chunk = lent.look()?;
    // SAFETY: C1: the chunk is lent, so nobody books its frees and it is not freed.
    Some(unsafe { ChunkPtr::new(chunk) })
}
