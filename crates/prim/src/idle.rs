//! The queue of heaps whose owners may be idle.
//!
//! When other threads free blocks, the units of these blocks wait in the inbox of their heap until
//! the heap's owner takes a slow path. A sleeping owner never takes one. Therefore a heap to which
//! a thread pushes enters a queue, and stays there while it *has mail*: remote frees that are not
//! booked. In some of its slow paths and pushes, every thread *looks* at a few heaps of the queue.
//! If the owner of a heap is *idle*, the looking thread purges some of the heap's empty units, or
//! frees them. A thread makes at most one look in each slow path or push. After a bounded number of
//! slow paths, pushes and clock ticks, on any threads, the looks have tried to purge or free all
//! empty units in the inboxes of idle owners. The bound depends on the number of heaps in the queue
//! and of units in their inboxes.
//!
//! An owner is idle *by time* if it has not taken a slow path for [`IDLE_MS`]. It is idle *by
//! bytes* if the bytes that other threads have pushed to its heaps since its last slow path exceed
//! a bound ([`PushedBytes`]). After some pushes to a heap whose owner is idle by bytes, the pushing
//! thread looks at that heap instead of the queue.
//!
//! A heap has two stacks of units with unbooked remote frees: its inbox, and *seen*, which holds
//! the units that a look has examined. Only one thread at a time looks at a heap.
//!
//! ```text
//!   remote free --> inbox --borrow--> look: purges or frees  --put back--> seen
//!                     ^                                                       |
//!                     '------ after a pause, or after 16 looks by bytes ------'
//!                  owner: takes the units of inbox and seen, and books them
//! ```
//!
//! Heaps are permanent memory and are linked through their own words, so the queue does not
//! allocate. If a process forks while another thread looks at the queue, the child's queue lacks
//! the heaps that the looking thread had taken out. It also lacks a heap that another thread was
//! adding. In the child, looks at the queue never purge or free the units of these heaps.

mod heap_look;
mod mail;
mod pushed;
#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests;

pub use mail::Mail;
pub use pushed::{IDLE_BYTES, PushedBytes};

use core::ptr;

use crate::barrier;
use crate::foreign::ForeignHeader;
use crate::gate::Gate;
use crate::pages;
use crate::sync::{AtomicPtr, Ordering, fence, push};
use crate::word::OwnerUsize;

/// The number of milliseconds without a slow path after which an owner is idle. A purge of 32 KiB
/// and the page faults that follow take a few microseconds, so an owner that wakes up after each
/// idle period loses little.
pub const IDLE_MS: usize = 100;

/// The interval between a thread's looks at the queue, in visits of this thread to the slow path.
pub const LOOK_EVERY: usize = 16;

/// After one in this many pushes to a heap, the pushing thread looks at the queue, unless it has
/// just looked at the heap.
const LOOK_EVERY_PUSHES: usize = 64;

/// The largest number of heaps that one look visits.
const HEAPS: usize = 4;

/// The number of further looks that may run in the same clock tick after a look that left units to
/// purge. Some of these looks may visit other heaps of the queue.
pub const LOOKS: usize = if cfg!(miri) { 4 } else { 64 };

// ORDERING: Release. Pairs with the Acquire in `IdleQueue::pop`. Publishes: the heap's link.
ordering!(add_order = Release, Relaxed if "queue_add_relaxed");
// ORDERING: Acquire. Pairs with the Release in `IdleQueue::add`.
ordering!(pop_order = Acquire, Relaxed if "queue_pop_relaxed");
// ORDERING: Acquire. Pairs with the Release in `IdleQueue::put_back`: the thread that took the heap
// out of the queue has read the link that this thread writes.
ordering!(reuse_order = Acquire, Relaxed if "queue_reuse_relaxed");

/// The reason why an owner counts as idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleBy {
    /// The owner has not taken a slow path for [`IDLE_MS`].
    Time,
    /// Since the owner's last slow path, other threads have pushed more bytes than the bound
    /// allows. These threads are probably still freeing the blocks of the unit that was pushed
    /// last, so the look leaves that unit alone.
    Bytes,
}

/// The result of one look at a heap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// The number of units that the look purged or freed.
    pub units: usize,
    /// Whether the heap probably has more units to purge, so that the next look need not wait for
    /// the next clock tick.
    pub more: bool,
    /// Whether the look examined all units of the inbox.
    pub ended: bool,
}

/// The operations on an allocator's heaps that an [`IdleQueue`] needs.
pub trait IdleHeaps {
    /// A heap, or the record that contains it.
    type Heap;
    /// A unit of a heap.
    type Unit: ForeignHeader + 'static;

    /// Returns the heap's mail.
    fn mail<'h>(&self, heap: &'h Self::Heap) -> &'h Mail<Self::Unit, Self::Heap>;

    /// Returns the count of the bytes that other threads pushed to the heaps of this heap's owner.
    fn pushed<'h>(&self, heap: &'h Self::Heap) -> &'h PushedBytes;

    /// Returns the number of visits of the heap's owner to the slow path.
    fn visits(&self, heap: &Self::Heap) -> usize;

    /// Returns whether a thread holds the heap's record. If no thread does, the threads that push
    /// to the heap drain it.
    fn is_held(&self, heap: &Self::Heap) -> bool;

    /// Purges or frees some of the units in this heap's inbox whose blocks are all free. `by` says
    /// why the owner counts as idle. Only one thread at a time calls this for a heap.
    fn purge_units(&self, heap: &Self::Heap, by: IdleBy) -> Purged;

    /// Drains the heap's mail if no thread holds its record. The calling thread has just put units
    /// back.
    fn drain_free_record(&self, heap: &Self::Heap);
}

/// The heaps that have mail, or had some when a thread added or last looked at them.
#[derive(Debug)]
pub struct IdleQueue<H> {
    /// The newest of the heaps that no thread inside the gate has taken yet, or null.
    arrived: AtomicPtr<H>,
    /// The next of the heaps that were taken from `arrived`, or null. Only the thread inside the
    /// gate writes `taken`, `looked` and `more`.
    taken: AtomicPtr<H>,
    /// The time of the last look at the queue, in milliseconds.
    looked: OwnerUsize,
    /// The number of further looks that need not wait for the next clock tick. A look that left
    /// units to purge sets this number.
    more: OwnerUsize,
    /// The number of milliseconds without a slow path after which an owner is idle.
    idle_ms: usize,
    gate: Gate,
}

impl<H> IdleQueue<H> {
    crate::const_unless_loom! {
        /// Creates an empty queue. `idle_ms` is [`IDLE_MS`], or less in tests.
        pub fn new(idle_ms: usize) -> Self {
            Self {
                arrived: AtomicPtr::new(ptr::null_mut()),
                taken: AtomicPtr::new(ptr::null_mut()),
                looked: OwnerUsize::new(0),
                more: OwnerUsize::new(0),
                idle_ms,
                gate: Gate::new(),
            }
        }
    }

    /// Returns the number of looks that will not wait for the next clock tick.
    pub fn looks_without_a_pause(&self) -> usize {
        self.more.get()
    }

    /// Adds a heap to the queue if it has mail and is not queued yet. This thread has just pushed a
    /// unit of `bytes` bytes to the heap. After every 64 KiB of pushed units, a call looks at the
    /// heap if its owner is idle by bytes. One in 64 calls for a heap looks at the queue, unless
    /// the call has already looked at the heap.
    ///
    /// The push ended with a fence, so either this thread sees that the heap has left the queue, or
    /// the thread that removes the heap sees the push.
    ///
    /// # Safety
    /// The heap is not freed while the queue is used. `heaps` returns the same mail for the heap at
    /// every call.
    #[inline]
    pub unsafe fn note_push<E: IdleHeaps<Heap = H>>(&self, heaps: &E, heap: &H, bytes: usize) {
        let mail = heaps.mail(heap);
        if !mail.queued.load(Ordering::Relaxed) && mail.is_some() {
            self.add(heaps, heap, true);
        }
        // Two simultaneous pushes may count as one. The counts decide only when a thread looks.
        let pushes = mail.pushes.load(Ordering::Relaxed).wrapping_add(1);
        mail.pushes.store(pushes, Ordering::Relaxed);
        let bytes = mail.bytes.load(Ordering::Relaxed) + bytes;
        mail.bytes.store(bytes, Ordering::Relaxed);
        let looked = bytes >= pushed::STEP && self.note_bytes(heaps, heap, bytes);
        if pushes % LOOK_EVERY_PUSHES == 0 && !looked {
            self.look(heaps);
        }
    }

    /// Adds a heap, unless it is in the queue already. If `new` is true, starts the owner's pause.
    /// A look that returns a heap to the queue passes `false`.
    #[cold]
    fn add<E: IdleHeaps<Heap = H>>(&self, heaps: &E, heap: &H, new: bool) {
        let mail = heaps.mail(heap);
        // ORDERING: `reuse_order`. Pairs with `IdleQueue::put_back`.
        if mail.queued.compare_exchange(false, true, reuse_order(), Ordering::Relaxed).is_ok() {
            mail.linked.write();
            if new {
                mail.visits.set(heaps.visits(heap));
                mail.since.set(pages::now_ms());
            }
            let link = |below| mail.below.store(below, Ordering::Relaxed);
            // ORDERING: `add_order`. Pairs with `IdleQueue::pop`.
            push(&self.arrived, ptr::from_ref(heap).cast_mut(), None, add_order(), link);
        }
    }

    /// Returns whether no heap is in the queue. The answer may be out of date.
    pub(crate) fn is_empty(&self) -> bool {
        self.arrived.load(Ordering::Relaxed).is_null() && self.taken.load(Ordering::Relaxed).is_null()
    }

    /// Takes a heap out of the queue, or returns `None` if there is none. Only the thread inside
    /// the gate may call this.
    fn pop<E: IdleHeaps<Heap = H>>(&self, heaps: &E) -> Option<&H> {
        let mut first = self.taken.load(Ordering::Relaxed);
        if first.is_null() {
            // ORDERING: `pop_order`. Pairs with `IdleQueue::add`.
            first = self.arrived.swap(ptr::null_mut(), pop_order());
        }
        // SAFETY: the pointer is null or names a heap that was passed to `note_push`, so the heap
        // is not freed while the queue is used.
        let heap = unsafe { first.as_ref() }?;
        let mail = heaps.mail(heap);
        mail.linked.touch();
        self.taken.store(mail.below.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(heap)
    }

    /// Returns a heap to the queue if it still has mail.
    fn put_back<E: IdleHeaps<Heap = H>>(&self, heaps: &E, heap: &H) {
        let mail = heaps.mail(heap);
        // ORDERING: Release. Pairs with `reuse_order` in `IdleQueue::add`: the thread that adds the
        // heap again writes the link after this thread has read it.
        mail.queued.store(false, Ordering::Release);
        if !weakened!("queue_without_fence") {
            // ORDERING: SeqCst fence. Pairs with the one in `Inbox::push`: either this thread sees
            // the push, or the pusher sees that the heap is not in the queue.
            fence(Ordering::SeqCst);
        }
        if mail.is_some() {
            self.add(heaps, heap, false);
        }
    }

    /// Visits a few heaps of the queue, and purges units of the heaps whose owners are idle by
    /// time. Stops at a heap that has more to purge. As long as no heap has more to purge, all
    /// threads together make about one look per clock tick. Without a clock, each call looks.
    #[cold]
    #[inline(never)]
    pub fn look<E: IdleHeaps<Heap = H>>(&self, heaps: &E) {
        if self.is_empty() || weakened!("idle_owners_keep_pages") {
            return;
        }
        let now = pages::now_ms();
        if now != 0 && now == self.looked.get() && self.more.get() == 0 {
            return;
        }
        barrier::prepare();
        let Some(_pass) = self.gate.try_enter() else { return };
        self.looked.set(now);
        self.more.set(self.more.get().saturating_sub(1));
        for _ in 0..HEAPS {
            let Some(heap) = self.pop(heaps) else { return };
            let more = self.visit_heap(heaps, heap, now);
            self.put_back(heaps, heap);
            if more {
                self.more.set(LOOKS);
                return;
            }
        }
    }

    /// If the owner of a heap is idle by time, purges units in the heap's inbox. If this call has
    /// examined all of them, it puts the seen units back into the inbox for the look after the next
    /// pause. Then does the work of looks by bytes that found the heap's gate shut. Returns whether
    /// the next look need not wait for the next clock tick. Only the thread inside the queue's gate
    /// may call this.
    fn visit_heap<E: IdleHeaps<Heap = H>>(&self, heaps: &E, heap: &H, now: usize) -> bool {
        let (mail, visits) = (heaps.mail(heap), heaps.visits(heap));
        if !heaps.is_held(heap) {
            return false;
        }
        let pause = now.wrapping_sub(mail.since.get());
        // The owner took a slow path, or the heap was added after this look read the clock, or too
        // long ago to tell.
        if mail.visits.get() != visits || pause > usize::MAX / 2 {
            mail.visits.set(visits);
            mail.since.set(now);
            return false;
        }
        if pause < self.idle_ms {
            return false;
        }
        let Some(pass) = mail.gate.try_enter() else { return false };
        let purged = heaps.purge_units(heap, IdleBy::Time);
        if purged.ended {
            // Any seen unit may have become empty since a thread examined it.
            mail.since.set(now);
            mail.put_seen_back();
            heaps.drain_free_record(heap);
        }
        drop(pass);
        if weakened!("looks_by_time_catch_up_nothing") {
            return purged.more;
        }
        let Some(pass) = Self::enter_again(mail, false) else { return purged.more };
        let more = self.look_inside(heaps, heap, pass).more;
        // These rounds have examined units that the look after the next pause must examine again.
        mail.put_seen_back();
        heaps.drain_free_record(heap);
        more
    }
}
