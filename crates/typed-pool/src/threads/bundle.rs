//! Bundles: remote frees that the freeing thread has not published yet.
//!
//! A remote free is one read-modify-write on the foreign word of a group. A thread that frees
//! several slots of one group in a row collects their bits in its bundle and publishes them with
//! one read-modify-write.
//!
//! Until the thread publishes its bundle, the slots in the bundle count as live in their unit, so
//! the owner cannot free the unit. To the owner, it is as if the program freed the slots a little
//! later. In this example, a thread frees three slots of group A, then two of group B. Each column
//! shows the state after one free:
//!
//! ```text
//!   free of       A1      A2      A3       B1        B2
//!   word of A     1       1       1        1,2,3     1,2,3
//!   word of B                              1         1
//!   the bundle    closed  A: 2    A: 2,3   closed    B: 2
//! ```
//!
//! A bundle opens at the second remote free in a row to one group, if the owner has not booked the
//! first one and the slots may wait (`remote`). Frees in random order therefore cost one
//! read-modify-write each, as without bundles. A thread publishes its bundle with its first remote
//! free to another group, in its slow path, when it trims, and when it ends.
//!
//! Bundles have their own records. The holder of a record with heaps must drain the inboxes of
//! these heaps in its slow path, and a thread that only frees never takes that slow path.

use core::ptr::{self, NonNull};

#[cfg(not(ephemera_loom))]
use ephemera_prim::local;
#[cfg(not(ephemera_loom))]
use ephemera_prim::record::{FIRST, Record, Registry};
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use super::state::ThreadHeap;
use crate::unit::UnitPtr;
use crate::unit_header::SlotGroup;

/// The slots that a thread freed remotely and has not published yet. Only that thread changes its
/// bundle. Other threads read it for statistics.
///
/// # Invariant
/// **B1** While `group` is not null, `bits` are slots of that group, which belongs to `heap`. The
/// program freed each of these slots once, and no foreign word has their bits, so the unit is not
/// freed (F3). A bundle that no thread holds is closed.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Bundle {
    /// The group of the waiting slots, or null if the bundle is closed.
    group: OwnerPtr<SlotGroup>,
    bits: OwnerU64,
    heap: OwnerPtr<ThreadHeap>,
    /// The address of the group to which the thread's last remote free went. It is only compared,
    /// never dereferenced, because the group's unit may have been freed.
    last: OwnerUsize,
}

impl Bundle {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new() -> Self {
            Self {
                group: OwnerPtr::null(),
                bits: OwnerU64::new(0),
                heap: OwnerPtr::null(),
                last: OwnerUsize::new(0),
            }
        }
    }

    /// Adds a slot that the caller is freeing, if the bundle is open for the slot's group. Returns
    /// whether the slot was added. If it was not, the caller must free it in another way. The
    /// bundle must be that of the calling thread.
    #[inline]
    pub(super) fn add(&self, group: NonNull<SlotGroup>, bit: u64) -> bool {
        if !ptr::eq(self.group.get(), group.as_ptr()) {
            return false;
        }
        let bits = self.bits.get();
        ephemera_prim::invariant!(bits & bit == 0, "a slot is freed twice");
        self.bits.set(bits | bit);
        true
    }

    /// Notes a free to this group, and returns whether the thread's previous remote free was to the
    /// same group. The bundle must be that of the calling thread.
    pub(super) fn follows(&self, group: NonNull<SlotGroup>) -> bool {
        let last = self.last.get();
        self.last.set(group.addr().get());
        last == group.addr().get() || weakened!("bundle_opens_for_each_group")
    }

    /// Opens the closed bundle with a slot that the caller is freeing. The bundle must be that of
    /// the calling thread.
    pub(super) fn open(&self, heap: &ThreadHeap, group: NonNull<SlotGroup>, bit: u64) {
        self.heap.set(ptr::from_ref(heap).cast_mut());
        self.bits.set(bit);
        self.group.set(group.as_ptr());
    }

    /// Closes the bundle and returns its heap, its group and the bits of its slots. The caller must
    /// publish these slots. Returns `None` if the bundle is already closed. The bundle must be that
    /// of the calling thread.
    #[inline]
    pub(super) fn take(&self) -> Option<(&'static ThreadHeap, NonNull<SlotGroup>, u64)> {
        let group = NonNull::new(self.group.get())?;
        if !weakened!("bundle_stays_open") {
            self.group.set(ptr::null_mut());
        }
        // SAFETY: T1: `open` stored a heap, and heaps are never freed.
        Some((unsafe { &*self.heap.get() }, group, self.bits.get()))
    }

    pub(super) fn is_open(&self) -> bool {
        !self.group.get().is_null()
    }

    /// Returns whether slots of this heap wait in this bundle. The answer may be out of date.
    pub(super) fn is_open_for(&self, heap: &ThreadHeap) -> bool {
        self.is_open() && ptr::eq(self.heap.get(), heap)
    }

    /// Returns the number of slots of a unit that wait in this bundle. `unit_size` is the alignment
    /// of the unit. The number is exact only while the bundle does not change.
    pub(super) fn slots_of(&self, unit: UnitPtr, unit_size: usize) -> usize {
        let is_of_unit = self.group.get().addr() & !(unit_size - 1) == unit.as_ptr().addr();
        if is_of_unit { self.bits.get().count_ones() as usize } else { 0 }
    }
}

#[cfg(not(ephemera_loom))]
pub(super) static REGISTRY: Registry<Bundle> =
    Registry::new([const { Record::new(Bundle::new()) }; FIRST], Bundle::new);

/// Returns the bundle of this thread. For a thread without a bundle, returns one that is never
/// open, or `None` in a model.
#[inline]
pub(super) fn current() -> Option<&'static Bundle> {
    #[cfg(not(ephemera_loom))]
    return Some(local::current::<Bundle>().data());
    #[cfg(ephemera_loom)]
    model::current()
}

/// Returns the bundles of all threads, or only that of the calling thread in a model.
pub(super) fn all() -> impl Iterator<Item = &'static Bundle> {
    #[cfg(not(ephemera_loom))]
    return REGISTRY.records().map(Record::data);
    #[cfg(ephemera_loom)]
    model::current().into_iter()
}

/// The bundles of a model's threads. Models do not use the records of bundles, because loom has no
/// statics.
#[cfg(ephemera_loom)]
pub(super) mod model {
    use core::cell::Cell;
    use core::ptr;

    use super::Bundle;

    loom::thread_local! {
        static CURRENT: Cell<*const Bundle> = Cell::new(ptr::null());
    }

    pub(super) fn current() -> Option<&'static Bundle> {
        // SAFETY: `set` received null, or a bundle that lives until the next call to `set`.
        CURRENT.with(|current| unsafe { current.get().as_ref() })
    }

    /// Stores the bundle of this thread, or null.
    ///
    /// # Safety
    /// The bundle lives until the thread calls this function again.
    #[cfg(test)]
    pub(in crate::threads) unsafe fn set(bundle: *const Bundle) {
        CURRENT.with(|current| current.set(bundle));
    }
}
