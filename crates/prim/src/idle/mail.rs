//! The mail of a heap: its inboxes, and its words in the queue of idle owners.

use core::ptr;

use crate::foreign::{ForeignHeader, Inbox, LentUnits};
use crate::gate::Gate;
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize};
use crate::witness::Witness;
use crate::word::OwnerUsize;

/// The inboxes of a heap, with the heap's words in an `IdleQueue`. These inboxes are never closed.
/// Other threads write all of these words, so keep the value on its own cache line.
#[derive(Debug)]
#[repr(C)]
pub struct Mail<U, H> {
    /// The inbox to which threads that free blocks push.
    pub inbox: Inbox<U>,
    /// The units that a thread has borrowed from `inbox`, examined and put back here. They still
    /// have unbooked remote frees.
    pub seen: Inbox<U>,
    /// The next heap in the queue, or null.
    pub(super) below: AtomicPtr<H>,
    /// Tells the model checker which thread uses `below`.
    pub(super) linked: Witness,
    /// Whether the heap is in the queue.
    pub(super) queued: AtomicBool,
    /// The approximate number of pushes to the inbox.
    pub(super) pushes: AtomicUsize,
    /// The approximate number of pushed bytes that have not been added to the owner's `PushedBytes`
    /// yet.
    pub(super) bytes: AtomicUsize,
    /// The number of the owner's visits to the slow path when a thread added the heap to the queue,
    /// or when a look at the queue last visited the heap. Only the thread that adds the heap to the
    /// queue, and then the thread inside the queue's gate, writes `visits` and `since`.
    pub(super) visits: OwnerUsize,
    /// The start of the owner's pause, in milliseconds: the time at which a thread first saw this
    /// number of visits. A look that found the owner idle by time restarts the pause when it puts
    /// the seen units back into the inbox.
    pub(super) since: OwnerUsize,
    /// Shut while a thread looks at the heap.
    pub(super) gate: Gate,
    /// The number of looks that found the owner idle by bytes, since such a look last put the seen
    /// units back. A look counts once a round has examined the whole inbox, and so do the missed
    /// looks until then. Only the thread inside the heap's gate writes it.
    pub(super) looks: OwnerUsize,
    /// The number of missed looks whose work no round has begun yet. A missed look found the owner
    /// idle by bytes and the gate shut.
    pub(super) missed: AtomicUsize,
    /// Not zero if rounds have begun the work of missed looks and further rounds must continue it.
    /// Only the thread inside the heap's gate writes it.
    pub(super) is_behind: OwnerUsize,
}

impl<U, H> Mail<U, H> {
    crate::const_unless_loom! {
        /// Creates the mail of a heap that is not in a queue.
        pub fn new() -> Self {
            Self {
                inbox: Inbox::new(),
                seen: Inbox::new(),
                below: AtomicPtr::new(ptr::null_mut()),
                linked: Witness::new(),
                queued: AtomicBool::new(false),
                pushes: AtomicUsize::new(0),
                bytes: AtomicUsize::new(0),
                visits: OwnerUsize::new(0),
                since: OwnerUsize::new(0),
                gate: Gate::new(),
                looks: OwnerUsize::new(0),
                missed: AtomicUsize::new(0),
                is_behind: OwnerUsize::new(0),
            }
        }
    }

    /// Returns whether one of the two inboxes contains a unit. Lent units are in neither. The
    /// answer may be out of date.
    #[inline]
    pub fn is_some(&self) -> bool {
        !self.inbox.is_empty() || !self.seen.is_empty()
    }
}

#[cfg(all(test, ephemera_loom))]
impl<U, H> Mail<U, H> {
    /// Returns the number of missed looks whose work no round has begun yet.
    pub(crate) fn missed_looks(&self) -> usize {
        self.missed.load(crate::sync::Ordering::Relaxed)
    }
}

impl<U: ForeignHeader, H> Mail<U, H> {
    /// Takes all units with remote frees. The iterator yields each unit with its frees, which the
    /// caller must book.
    ///
    /// # Safety
    /// The caller holds the lease of the record, so no other thread calls this for the same mail.
    #[inline]
    pub unsafe fn take(&self) -> impl Iterator<Item = (ptr::NonNull<U>, u64)> + use<U, H> {
        // SAFETY: the caller holds the lease of the record, and no thread closes this inbox.
        let pushed = unsafe { self.inbox.take() };
        // SAFETY: as above.
        let seen = unsafe { self.seen.take() };
        pushed.chain(seen)
    }

    /// Borrows all units of `inbox`, for a thread that examines them and does not book their frees.
    /// The units that the thread examines go to `seen`. The caller must put the units back, then
    /// check whether the record is free, and drain the mail if it is.
    pub fn lend(&self) -> LentUnits<'_, U> {
        // SAFETY: both inboxes belong to one heap, and no thread closes them.
        unsafe { self.inbox.lend(&self.seen, &self.inbox) }
    }

    /// Moves all units of `seen` to `inbox`. Any thread may call this, also while another one looks
    /// at the heap. The caller must then check whether the record is free, and drain the mail if it
    /// is.
    pub(super) fn put_seen_back(&self) {
        // SAFETY: both inboxes belong to one heap, and no thread closes them.
        unsafe { self.seen.lend(&self.seen, &self.inbox) }.put_back();
    }
}
