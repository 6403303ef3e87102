//! The queue of heaps whose owners may be idle.
//!
//! A heap to which a thread pushes enters the queue and stays while it has mail: remote frees that
//! are not booked. Some slow paths and pushes of each thread *look* at a few heaps of the queue. If
//! the owner of a heap took no slow path for [`IDLE_MS`], the look purges some of the heap's empty
//! units. So a bounded number of these operations, of any threads, purges all of them. No operation
//! makes more than one look.
//!
//! Heaps are permanent memory, so the queue needs none of its own. In a forked child, a heap that
//! another thread of the parent was looking at is not in the queue; its units keep their pages.

use core::ptr;

use ephemera_prim::gate::Gate;
use ephemera_prim::pages;
use ephemera_prim::sync::{AtomicPtr, Ordering, fence, push};
use ephemera_prim::word::OwnerUsize;

use super::idle_owner::purge_units;
use super::lease_end;
use super::table::ThreadHeap;

/// An owner that took no slow path for this time is idle. Purging and touching 32 KiB again takes a
/// few microseconds, so an owner that wakes up after each such pause loses little.
pub(super) const IDLE_MS: usize = if cfg!(any(test, miri)) { 0 } else { 100 };

/// A thread looks at the queue in one of this number of visits to the slow path.
pub(super) const LOOK_EVERY: usize = 16;

/// A thread looks at the queue after one of this number of pushes to a heap.
const LOOK_EVERY_PUSHES: usize = 64;

/// The number of heaps that one look visits at most.
const HEAPS: usize = 4;

/// The number of looks that do not wait for the clock after a look that left units to purge. Other
/// heaps of the queue may come in between.
pub(super) const LOOKS: usize = if cfg!(miri) { 4 } else { 64 };

/// The heaps that have mail, or had some when a thread last looked at them.
#[derive(Debug)]
struct IdleQueue {
    /// Heaps that threads pushed.
    arrived: AtomicPtr<ThreadHeap>,
    /// Heaps that were taken from `arrived`. Only the thread at the gate uses this word, and only
    /// it writes the next two.
    taken: AtomicPtr<ThreadHeap>,
    /// The time of the last look.
    looked: OwnerUsize,
    /// The number of further looks that do not wait for the clock, because a look did not finish a
    /// heap's mail.
    more: OwnerUsize,
    gate: Gate,
}

/// The queue of all families.
static QUEUE: IdleQueue = IdleQueue {
    arrived: AtomicPtr::new(ptr::null_mut()),
    taken: AtomicPtr::new(ptr::null_mut()),
    looked: OwnerUsize::new(0),
    more: OwnerUsize::new(0),
    gate: Gate::new(),
};

/// Makes sure that a heap to which this thread has pushed is in the queue. One in
/// [`LOOK_EVERY_PUSHES`] pushes also looks at the queue.
///
/// A fence separates the push from this call. So either this thread sees that the heap left the
/// queue, or the thread that removes the heap sees the push.
#[inline]
pub(super) fn note_push(heap: &ThreadHeap) {
    if !heap.mail.queued.load(Ordering::Relaxed) && heap.has_mail() {
        QUEUE.add(heap, true);
    }
    // Two threads may count one push. The count decides nothing but the time of a look.
    let pushes = heap.mail.pushes.load(Ordering::Relaxed).wrapping_add(1);
    heap.mail.pushes.store(pushes, Ordering::Relaxed);
    if pushes % LOOK_EVERY_PUSHES == 0 {
        look();
    }
}

/// Looks at a few heaps of the queue, and purges units of one whose owner is idle.
#[cold]
#[inline(never)]
pub(super) fn look() {
    if !cfg!(ephemera_weaken = "idle_owners_keep_pages") {
        QUEUE.look();
    }
}

/// Returns the number of looks that will not wait for the clock.
#[cfg(test)]
pub(super) fn looks_without_a_pause() -> usize {
    QUEUE.more.get()
}

impl IdleQueue {
    /// Adds a heap, unless it is in the queue. If it is `new` there, its owner's pause starts now.
    #[cold]
    fn add(&self, heap: &ThreadHeap, new: bool) {
        let mark = &heap.mail;
        if mark.queued.compare_exchange(false, true, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            if new {
                mark.visits.set(heap.record().data().visits.get());
                mark.since.set(pages::now_ms());
            }
            let link = |below| mark.below.store(below, Ordering::Relaxed);
            // ORDERING: Release. Pairs with the Acquire in `IdleQueue::pop`. Publishes: the link.
            push(&self.arrived, ptr::from_ref(heap).cast_mut(), None, Ordering::Release, link);
        }
    }

    fn is_empty(&self) -> bool {
        self.arrived.load(Ordering::Relaxed).is_null() && self.taken.load(Ordering::Relaxed).is_null()
    }

    /// Takes a heap out of the queue. Only the thread at the gate calls this.
    fn pop(&self) -> Option<&'static ThreadHeap> {
        let mut first = self.taken.load(Ordering::Relaxed);
        if first.is_null() {
            // ORDERING: Acquire. Pairs with the Release in `IdleQueue::add`.
            first = self.arrived.swap(ptr::null_mut(), Ordering::Acquire);
        }
        // SAFETY: T1: the queue has heaps of tables only, which are never freed.
        let heap = unsafe { first.as_ref() }?;
        self.taken.store(heap.mail.below.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(heap)
    }

    /// Returns a heap to the queue, unless it has no mail.
    fn put_back(&self, heap: &'static ThreadHeap) {
        heap.mail.queued.store(false, Ordering::Relaxed);
        // ORDERING: SeqCst fence. Pairs with the one in `Inbox::push`: either this thread sees the
        // push, or the pusher sees that the heap is not in the queue.
        fence(Ordering::SeqCst);
        if heap.has_mail() {
            self.add(heap, false);
        }
    }

    /// Does what [`look`] says, at most once for each tick of the clock unless a heap has more to
    /// purge.
    fn look(&self) {
        if self.is_empty() {
            return;
        }
        let (now, more) = (pages::now_ms(), self.more.get());
        if now != 0 && now == self.looked.get() && more == 0 {
            return;
        }
        let Some(_pass) = self.gate.try_enter() else { return };
        self.looked.set(now);
        self.more.set(more.saturating_sub(1));
        for _ in 0..HEAPS {
            let Some(heap) = self.pop() else { return };
            let more = visit_heap(heap, now);
            self.put_back(heap);
            if more {
                self.more.set(LOOKS);
                return;
            }
        }
    }
}

/// Purges units of a heap if its owner is idle. Returns whether there may be more to purge. Only
/// the thread at the gate calls this.
fn visit_heap(heap: &ThreadHeap, now: usize) -> bool {
    let (mark, visits) = (&heap.mail, heap.record().data().visits.get());
    // A record without a holder is drained by the threads that push to it.
    if heap.record().is_free() {
        return false;
    }
    if mark.visits.get() != visits {
        mark.visits.set(visits);
        mark.since.set(now);
        return false;
    }
    // A heap that came to the queue after this look read the clock has a pause just below zero.
    let pause = now.wrapping_sub(mark.since.get());
    if !(IDLE_MS..usize::MAX / 2).contains(&pause) {
        return false;
    }
    if heap.mail.inbox.is_empty() {
        // A unit may have run empty since its groups were looked at.
        mark.since.set(now);
        mark.seen.lend().put_back(&mark.seen, &heap.mail.inbox);
        lease_end::drain_free_record(heap);
        return false;
    }
    purge_units(heap)
}
