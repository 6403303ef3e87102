//! The queue of this crate's heaps whose owners may be idle. A thread that *looks* at the queue
//! purges units of idle owners that have no live slot.

use ephemera_prim::idle::{self, IdleBy, IdleHeaps, IdleQueue, Purged, PushedBytes};

use super::idle_owner::purge_units;
use super::lease_end;
use super::state::{HeapMail, ThreadHeap};
use crate::unit_header::SlotGroup;

/// The time without a slow path, in milliseconds, after which an owner is idle. In unit tests and
/// under Miri, an owner is idle at once.
pub(super) const IDLE_MS: usize = if cfg!(any(test, miri)) { 0 } else { idle::IDLE_MS };

/// The queue for the heaps of all families.
pub(super) static QUEUE: IdleQueue<ThreadHeap> = IdleQueue::new(IDLE_MS);

/// The operations on heaps that [`QUEUE`] needs, for the heaps of all families.
struct ThreadHeaps;

impl IdleHeaps for ThreadHeaps {
    type Heap = ThreadHeap;
    type Unit = SlotGroup;

    fn mail<'h>(&self, heap: &'h ThreadHeap) -> &'h HeapMail {
        &heap.mail
    }

    fn pushed<'h>(&self, heap: &'h ThreadHeap) -> &'h PushedBytes {
        &heap.record().data().pushed
    }

    fn visits(&self, heap: &ThreadHeap) -> usize {
        heap.record().data().visits.get()
    }

    fn is_held(&self, heap: &ThreadHeap) -> bool {
        !heap.record().is_free()
    }

    fn purge_units(&self, heap: &ThreadHeap, by: IdleBy) -> Purged {
        purge_units(heap, by)
    }

    fn drain_free_record(&self, heap: &ThreadHeap) {
        lease_end::drain_free_record(heap);
    }
}

/// Makes sure that a heap to which this thread has pushed is in the queue. Some calls also look at
/// the heap or at the queue.
#[inline]
pub(super) fn note_push(heap: &ThreadHeap) {
    // SAFETY: T1: heaps are parts of tables, which are never freed. `mail` always returns the
    // heap's own mail.
    unsafe { QUEUE.note_push(&ThreadHeaps, heap, heap.group_bytes) };
}

/// Looks at a few heaps of the queue, and purges units of the heaps whose owners are idle. Does
/// nothing while another thread looks, or if it is too early for the next look.
#[inline]
pub(super) fn look() {
    QUEUE.look(&ThreadHeaps);
}
