//! Memory of idle owners: other threads purge the units that ran empty by remote frees.
//!
//! The slots that other threads free wait in the heap's inbox until the owner takes a slow path. An
//! owner that sleeps never does. So heaps with mail stand in a queue, and every thread looks at a
//! few of them now and then, as part of its own slow paths and pushes. If the owner took no slow
//! path for [`IDLE_MS`], the thread purges the slots of those units that have no live slot.
//!
//! ```text
//!   remote free --> inbox --lend--> looks at groups --put back--> seen       (one thread at a time)
//!                     ^             unit empty? claim, purge       |
//!                     '-------------- after IDLE_MS ---------------'
//!                  owner: takes the groups of both, and books them
//! ```
//!
//! A purged unit stays what it was for its owner: a unit whose frees are to be booked. Its header
//! stays resident, and with it the page that the header is on. `ephemera_prim::claim` has the
//! protocol between the purging thread and an owner that wakes up.

use ephemera_prim::barrier;
use ephemera_prim::foreign::Inbox;
use ephemera_prim::gate::Gate;
use ephemera_prim::pages;
use ephemera_prim::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence, push};
use ephemera_prim::word::OwnerUsize;

use super::ends;
use super::table::ThreadHeap;
use crate::heap::UnitHeap;
use crate::slot_group::SlotGroupPtr;
use crate::unit::UnitPtr;
use crate::unit_header::SlotGroup;

/// An owner that took no slow path for this time is idle. Purging and touching 32 KiB again takes a
/// few microseconds, so an owner that wakes up after each such pause loses little.
const IDLE_MS: usize = if cfg!(any(miri, ephemera_loom)) { 0 } else { 100 };

/// A thread looks at the queue in one of this number of visits to the slow path.
pub(super) const LOOK_EVERY: usize = 16;

/// A thread looks at the queue after one of this number of pushes to a heap.
#[cfg_attr(ephemera_loom, expect(dead_code, reason = "models look on their own"))]
const LOOK_EVERY_PUSHES: usize = 64;

/// The most heaps, groups and units of one look.
#[cfg_attr(ephemera_loom, expect(dead_code, reason = "models look on their own"))]
const HEAPS: usize = 4;
const GROUPS: usize = 512;
const UNITS: usize = if cfg!(any(miri, ephemera_loom)) { 2 } else { 32 };

/// The number of looks after one that purged. Other heaps of the queue may come in between.
#[cfg(not(ephemera_loom))]
const LOOKS: usize = 64;

/// What a heap has for the threads that look whether its owner is idle.
#[derive(Debug)]
#[repr(C)]
pub(super) struct IdleMark {
    /// Groups with remote frees, as in the inbox, at which a thread has looked.
    pub(super) seen: Inbox<SlotGroup>,
    /// The next heap in the queue.
    below: AtomicPtr<ThreadHeap>,
    /// Whether the heap is in the queue.
    queued: AtomicBool,
    /// About the number of pushes to the inbox.
    pushes: AtomicUsize,
    /// The owner's visits to the slow path, at the last look. This word and the next belong to the
    /// thread that adds the heap to the queue, then to the thread behind the queue's gate.
    visits: OwnerUsize,
    /// The time at which a thread first found this number of visits.
    since: OwnerUsize,
}

impl IdleMark {
    ephemera_prim::const_unless_loom! {
        /// Creates the mark of a heap that is not in the queue.
        pub(super) fn new() -> Self {
            Self {
                seen: Inbox::new(),
                below: AtomicPtr::new(core::ptr::null_mut()),
                queued: AtomicBool::new(false),
                pushes: AtomicUsize::new(0),
                visits: OwnerUsize::new(0),
                since: OwnerUsize::new(0),
            }
        }
    }
}

/// The heaps that have mail, or had some when a thread last looked at them.
#[derive(Debug)]
struct IdleQueue {
    /// Heaps that threads pushed.
    arrived: AtomicPtr<ThreadHeap>,
    /// Heaps that were taken from `arrived`. Only the thread behind the gate uses this word and the
    /// next two.
    taken: AtomicPtr<ThreadHeap>,
    /// The time of the last look.
    looked: OwnerUsize,
    /// The number of further looks that do not wait for the clock, since one did not get to the end
    /// of a heap's mail.
    more: OwnerUsize,
    gate: Gate,
}

/// The queue of all families. Models have none, because loom has no statics.
#[cfg(not(ephemera_loom))]
static QUEUE: IdleQueue = IdleQueue {
    arrived: AtomicPtr::new(core::ptr::null_mut()),
    taken: AtomicPtr::new(core::ptr::null_mut()),
    looked: OwnerUsize::new(0),
    more: OwnerUsize::new(0),
    gate: Gate::new(),
};

/// Makes sure that a heap to which this thread has pushed is in the queue, and looks at the queue
/// now and then.
///
/// A fence separates the push from this call. So either this thread sees that the heap left the
/// queue, or the thread that removes the heap sees the push.
#[inline]
pub(super) fn note_push(heap: &ThreadHeap) {
    #[cfg(not(ephemera_loom))]
    {
        if !heap.idle.queued.load(Ordering::Relaxed) && heap.has_mail() {
            QUEUE.add(heap, true);
        }
        // Two threads may count one push. The count decides nothing but the time of a look.
        let pushes = heap.idle.pushes.load(Ordering::Relaxed).wrapping_add(1);
        heap.idle.pushes.store(pushes, Ordering::Relaxed);
        if pushes % LOOK_EVERY_PUSHES == 0 {
            look();
        }
    }
    #[cfg(ephemera_loom)]
    let _ = heap;
}

/// Looks at a few heaps of the queue, and purges units of one whose owner is idle.
#[cold]
#[inline(never)]
pub(super) fn look() {
    #[cfg(not(ephemera_loom))]
    if !cfg!(ephemera_weaken = "idle_owners_keep_pages") {
        QUEUE.look();
    }
}

#[cfg(not(ephemera_loom))]
impl IdleQueue {
    /// Adds a heap, unless it is in the queue. If it is `new` there, its owner's pause starts now.
    #[cold]
    fn add(&self, heap: &ThreadHeap, new: bool) {
        let mark = &heap.idle;
        if mark.queued.compare_exchange(false, true, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            if new {
                mark.visits.set(heap.record().data().visits.get());
                mark.since.set(pages::now_ms());
            }
            let link = |below| mark.below.store(below, Ordering::Relaxed);
            // ORDERING: Release. Pairs with the Acquire in `IdleQueue::pop`. Publishes: the link.
            push(&self.arrived, core::ptr::from_ref(heap).cast_mut(), None, Ordering::Release, link);
        }
    }

    fn is_empty(&self) -> bool {
        self.arrived.load(Ordering::Relaxed).is_null() && self.taken.load(Ordering::Relaxed).is_null()
    }

    /// Takes a heap out of the queue. Only the thread behind the gate calls this.
    fn pop(&self) -> Option<&'static ThreadHeap> {
        let mut first = self.taken.load(Ordering::Relaxed);
        if first.is_null() {
            // ORDERING: Acquire. Pairs with the Release in `IdleQueue::add`.
            first = self.arrived.swap(core::ptr::null_mut(), Ordering::Acquire);
        }
        // SAFETY: T1: the queue has heaps of tables only, which are never freed.
        let heap = unsafe { first.as_ref() }?;
        self.taken.store(heap.idle.below.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(heap)
    }

    /// Returns a heap to the queue, unless it has no mail.
    fn put_back(&self, heap: &'static ThreadHeap) {
        heap.idle.queued.store(false, Ordering::Relaxed);
        // ORDERING: SeqCst fence. Pairs with the one in `Inbox::push`: either this thread sees the
        // push, or the pusher sees that the heap is not in the queue.
        fence(Ordering::SeqCst);
        if heap.has_mail() {
            self.add(heap, false);
        }
    }

    /// As [`look`]. At most one look for each tick of the clock, unless a heap has more to purge.
    fn look(&self) {
        if self.is_empty() {
            return;
        }
        let Some(_pass) = self.gate.try_enter() else { return };
        let now = pages::now_ms();
        let more = self.more.get();
        if now != 0 && now == self.looked.get() && more == 0 {
            return;
        }
        self.looked.set(now);
        self.more.set(more.saturating_sub(1));
        for _ in 0..HEAPS {
            let Some(heap) = self.pop() else { return };
            let more = look_at(heap, now);
            self.put_back(heap);
            if more {
                self.more.set(LOOKS);
                return;
            }
        }
    }
}

/// Purges units of a heap if its owner is idle. Returns whether there may be more to purge. Only
/// the thread behind the gate calls this.
#[cfg_attr(ephemera_loom, expect(dead_code, reason = "models look on their own"))]
fn look_at(heap: &ThreadHeap, now: usize) -> bool {
    let (mark, visits) = (&heap.idle, heap.record().data().visits.get());
    // A record without a holder is drained by the threads that push to it.
    if heap.record().is_free() {
        return false;
    }
    if mark.visits.get() != visits {
        mark.visits.set(visits);
        mark.since.set(now);
        return false;
    }
    if now.wrapping_sub(mark.since.get()) < IDLE_MS {
        return false;
    }
    if heap.inbox.is_empty() {
        // A unit may have run empty since its groups were looked at.
        mark.since.set(now);
        mark.seen.lend().put_back(&mark.seen, &heap.inbox);
        ends::after_push(heap);
        return false;
    }
    purge_some(heap)
}

/// Purges units of this heap that have no live slot, and have remote frees that their owner did not
/// book. Returns whether there may be more of them. Only one thread at a time calls this.
pub(super) fn purge_some(heap: &ThreadHeap) -> bool {
    let mut lent = heap.inbox.lend();
    let mut claimed = [const { None }; UNITS];
    let (mut units, mut groups) = (0, 0);
    while units < UNITS && groups < GROUPS {
        let Some(group) = lent.look() else { break };
        groups += 1;
        // SAFETY: U1: the group is lent, so its unit is not freed. The inbox has groups only.
        let unit = unsafe { SlotGroupPtr::new(group, heap.heap.spec().unit) }.unit();
        if unit.claim().is_kept() && unit.all_free() && unit.claim().claim() {
            claimed[units] = Some(unit);
            units += 1;
        }
    }
    // C3: the fence comes after the claims and before the checks that count.
    let fenced = units != 0 && barrier::heavy();
    for unit in claimed.into_iter().flatten() {
        let purges = fenced && unit.all_free();
        if purges {
            // SAFETY: the unit has no live slot and is not the front. Its owner sees the claim
            // before it uses the slots (C2), because this thread did not see it use them (C3).
            unsafe { purge(&heap.heap, unit) };
        }
        unit.claim().leave(purges);
    }
    lent.put_back(&heap.idle.seen, &heap.inbox);
    ends::after_push(heap);
    units == UNITS || groups == GROUPS
}

/// Returns the pages of a unit's slots to the operating system. If it refuses, they stay, but the
/// unit counts as purged: a part of them may have left.
///
/// # Safety
/// The calling thread has claimed the slots. None of them is live, and the owner does not use them.
unsafe fn purge(heap: &UnitHeap, unit: UnitPtr) {
    unit.note_purge();
    let (start, len) = unit.slot_bytes(heap.spec());
    // SAFETY: the caller ensures that nothing uses or needs the slots, which are the last part of a
    // live block of `Pages`.
    unsafe { pages::purge_tail(start, len) };
}
