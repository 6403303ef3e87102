//! Bundles: remote frees that the freeing thread has not published yet.
//!
//! A remote free is one read-modify-write on the foreign word of a group. A thread that frees
//! several slots of one group in a row collects their bits in its bundle and publishes them by one
//! read-modify-write.
//!
//! Until then the slots count as live in their unit. So a bundle is sound for the same reason as a
//! program that frees the slots a little later: whatever the owner does, the unit stays.
//!
//! ```text
//!   free of       A1      A2      A3       B1        B2
//!   word of A     1       1       1        1,2,3     1,2,3
//!   word of B                              1         1
//!   the bundle    closed  A: 2    A: 2,3   closed    B: 2
//! ```
//!
//! A bundle opens at the second free in a row to a group whose owner has not booked the first one.
//! So frees in random order cost one read-modify-write each, as without bundles. A thread publishes
//! its bundle with its first free to another group, in its slow path, when it trims, and when it
//! ends.
//!
//! The bundles of threads are in records of their own. The holder of a record with heaps has to
//! drain the heaps' inboxes, but a thread that only frees takes no slow path in which to do so.

use core::ptr::{self, NonNull};

#[cfg(not(ephemera_loom))]
use ephemera_prim::local::{self, Tenant};
#[cfg(not(ephemera_loom))]
use ephemera_prim::record::{FIRST, Lease, Record, Registry};
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use super::remote::give_bits;
use super::state::ThreadHeap;
use crate::unit::UnitPtr;
use crate::unit_header::SlotGroup;

/// The bundle of a thread, which alone changes it. Other threads read it for statistics.
///
/// # Invariant
/// **B1** While `group` is not null, `bits` are slots of that group, which belongs to `heap`. The
/// program freed each of them once, and no foreign word has them, so the unit is live (F3). A
/// bundle that no thread holds is closed.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Bundle {
    /// The group whose slots wait, or null if the bundle is closed.
    group: OwnerPtr<SlotGroup>,
    bits: OwnerU64,
    heap: OwnerPtr<ThreadHeap>,
    /// The address of the group to which the thread last freed. The group may be gone.
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

    /// Adds a slot if the bundle is open for its group, and returns whether it is. The caller frees
    /// the slot, and the bundle is its own.
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

    /// Notes a free to this group. Returns whether the free before it was to the same group. The
    /// bundle is the caller's own.
    pub(super) fn follows(&self, group: NonNull<SlotGroup>) -> bool {
        let last = self.last.get();
        self.last.set(group.addr().get());
        last == group.addr().get()
    }

    /// Opens the closed bundle with one slot. The caller frees the slot, and the bundle is its own.
    pub(super) fn open(&self, heap: &ThreadHeap, group: NonNull<SlotGroup>, bit: u64) {
        self.heap.set(ptr::from_ref(heap).cast_mut());
        self.bits.set(bit);
        self.group.set(group.as_ptr());
    }

    /// Closes the bundle and frees its slots to their heap. The bundle is the caller's own.
    #[inline]
    pub(super) fn publish(&self) {
        if let Some(group) = NonNull::new(self.group.get()) {
            self.publish_to(group);
        }
    }

    #[cold]
    #[inline(never)]
    fn publish_to(&self, group: NonNull<SlotGroup>) {
        if !cfg!(ephemera_weaken = "bundle_stays_open") {
            self.group.set(ptr::null_mut());
        }
        // SAFETY: T1: `open` stored a heap, and heaps are never freed.
        let heap = unsafe { &*self.heap.get() };
        // SAFETY: B1: the slots of the group are freed, and no word has them. The bundle is closed,
        // so they are published once.
        unsafe { give_bits(heap, group, self.bits.get()) };
    }

    /// Returns whether slots wait here. The answer may be out of date.
    pub(super) fn is_open(&self) -> bool {
        !self.group.get().is_null()
    }

    /// Returns the number of slots of a unit that wait here, given the alignment of the unit. Exact
    /// at rest.
    pub(super) fn slots_of(&self, unit: UnitPtr, unit_size: usize) -> usize {
        let is_of_unit = self.group.get().addr() & !(unit_size - 1) == unit.as_ptr().addr();
        if is_of_unit { self.bits.get().count_ones() as usize } else { 0 }
    }
}

#[cfg(not(ephemera_loom))]
static REGISTRY: Registry<Bundle> = Registry::new([const { Record::new(Bundle::new()) }; FIRST], Bundle::new);

#[cfg(not(ephemera_loom))]
impl Tenant for Bundle {
    type Near = ();

    fn near(_: &'static Record<Self>) {}

    ephemera_prim::tenant_statics!(Bundle, registry: &REGISTRY, nowhere: Bundle::new(), near: ());

    fn enter(&self) {}

    fn leave(record: &'static Record<Self>) {
        if !cfg!(ephemera_weaken = "ended_thread_keeps_its_bundle") {
            record.data().publish();
        }
    }

    fn release(lease: Lease<'static, Self>) {
        lease.release(|_| false, |_| ());
    }
}

/// Returns the bundle of this thread. A thread without one gets a bundle that is never open, or in
/// a model none.
#[inline]
pub(super) fn current() -> Option<&'static Bundle> {
    #[cfg(not(ephemera_loom))]
    return Some(local::current::<Bundle>().data());
    #[cfg(ephemera_loom)]
    model::current()
}

/// Returns the bundle of this thread. Makes one, unless the thread ends or there is no memory.
pub(super) fn find_or_make() -> Option<&'static Bundle> {
    #[cfg(not(ephemera_loom))]
    return local::bound::<Bundle>().or_else(make).map(Record::data);
    #[cfg(ephemera_loom)]
    model::current()
}

#[cfg(not(ephemera_loom))]
#[cold]
#[inline(never)]
fn make() -> Option<&'static Record<Bundle>> {
    if !ptr::eq(local::current::<Bundle>(), Bundle::statics().gone) {
        local::hold::<Bundle>()?.release();
    }
    local::bound()
}

/// Publishes the remote frees of this thread that wait in its bundle.
#[inline]
pub(super) fn publish() {
    if let Some(bundle) = current().filter(|_| !cfg!(ephemera_weaken = "slow_path_publishes_nothing")) {
        bundle.publish();
    }
}

/// Returns the bundles of all threads, or in a model that of this thread.
pub(super) fn all() -> impl Iterator<Item = &'static Bundle> {
    #[cfg(not(ephemera_loom))]
    return REGISTRY.records().map(Record::data);
    #[cfg(ephemera_loom)]
    model::current().into_iter()
}

/// The bundles of a model's threads. Loom has no statics.
#[cfg(ephemera_loom)]
pub(super) mod model {
    use core::cell::Cell;
    use core::ptr;
    #[cfg(test)]
    use std_alloc::boxed::Box;

    use super::Bundle;

    loom::thread_local! {
        static CURRENT: Cell<*const Bundle> = Cell::new(ptr::null());
    }

    pub(super) fn current() -> Option<&'static Bundle> {
        // SAFETY: the bundle lives until its `Bundled` ends, which also clears the pointer.
        CURRENT.with(|current| unsafe { current.get().as_ref() })
    }

    /// A part of a thread's life in which it has a bundle.
    #[cfg(test)]
    pub(in crate::threads) struct Bundled(Box<Bundle>);

    #[cfg(test)]
    impl Bundled {
        pub(in crate::threads) fn start() -> Self {
            let bundled = Self(Box::new(Bundle::new()));
            CURRENT.with(|current| current.set(ptr::from_ref(&*bundled.0)));
            bundled
        }
    }

    #[cfg(test)]
    impl Drop for Bundled {
        fn drop(&mut self) {
            self.0.publish();
            CURRENT.with(|current| current.set(ptr::null()));
        }
    }
}
