//! The operations of a heap's owner on other heaps: frees of slots that other threads own, and the
//! search for memory before a refusal.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use ephemera_prim::record::Record;

use super::bundle;
use super::last_resort::make_room;
use super::owner::HeapOwner;
use super::publish::{find_or_make_bundle, publish_bits, publish_bundle};
use super::state::{PoolRecord, ThreadHeap};
use super::table::Heaps;
use super::visit::visit;
use crate::geometry::{UNIT_MAX, UNIT_MIN};
use crate::heap::{self, AllocEnv};
use crate::local_frees::Reach;
use crate::slot_group::SlotGroupPtr;
use crate::unit::{Unit, UnitPtr};

impl AllocEnv for HeapOwner<'_> {
    fn is_at_limit(&self, bytes: usize) -> bool {
        self.heap.ledger().is_some_and(|ledger| ledger.may_trim_for(bytes))
    }

    fn trim_all(self) {
        Heaps::of(self.heap.record().data()).for_each(|heaps| {
            // SAFETY: this thread holds the record (the invariant of `HeapOwner`).
            unsafe { heaps.trim() };
        });
    }

    fn visit(self) {
        if let Some(heaps) = Heaps::find(self.heap.record(), self.heap.family()) {
            // SAFETY: this thread holds the record (the invariant of `HeapOwner`).
            unsafe { visit(heaps) };
        }
    }

    fn last_resort(self) {
        if let Some(heaps) = Heaps::find(self.heap.record(), self.heap.family()) {
            // SAFETY: this thread holds the record (the invariant of `HeapOwner`).
            unsafe { make_room(heaps) };
        }
    }

    #[inline(never)]
    unsafe fn give_back(self, unit: UnitPtr, block: NonNull<u8>, _: (usize, Reach)) {
        // SAFETY: the caller frees a live slot of this unit, which belongs to a heap of a table.
        unsafe { give_to_owner(unit, block) };
    }
}

/// Publishes the free of a slot to the heap of its unit, or adds the slot to this thread's bundle.
///
/// # Safety
/// `unit` belongs to a heap of a table. `block` is a live slot of `unit`, and nothing uses it after
/// this call.
#[inline(never)]
unsafe fn give_to_owner(unit: UnitPtr, block: NonNull<u8>) {
    let (group, bit) = unit.group_of(block);
    if bundle::current().is_some_and(|bundle| bundle.add(group.as_non_null(), bit)) {
        return;
    }
    // SAFETY: the unit belongs to a heap of a table. The caller frees a live slot of this group,
    // and the bundle has not taken the slot.
    unsafe { give_past_bundle(group, bit) };
}

/// Frees a slot of a group for which this thread's bundle is not open.
///
/// # Safety
/// The unit of the group belongs to a heap of a table. The slot `bit` of the group is live, and
/// nothing uses it after this call.
#[inline(never)]
unsafe fn give_past_bundle(group: SlotGroupPtr, bit: u64) {
    let unit = group.unit();
    // SAFETY: T1: a unit's owner word names its heap, which is never freed.
    let heap = unsafe { &*unit.owner().cast::<ThreadHeap>() };
    if let Some(bundle) = find_or_make_bundle() {
        publish_bundle(bundle);
        if bundle.follows(group.as_non_null()) && may_wait(heap, group) {
            bundle.open(heap, group.as_non_null(), bit);
            return;
        }
    }
    if unit.is_counted() {
        if let Some(ledger) = heap.ledger() {
            ledger.count_gone(1, heap.heap.spec().stride, unit.birth());
        }
    }
    // SAFETY: the caller frees a live slot of this group, which no other free names.
    unsafe { publish_bits(heap, group.as_non_null(), bit) };
}

/// The size, in bytes, of the largest unit whose freed slots may wait in a bundle. Models allow
/// every unit, because their slots are large.
const LARGEST_UNIT: usize = if cfg!(ephemera_loom) { UNIT_MAX } else { UNIT_MIN };

/// Returns whether slots of this group may wait in a bundle. They may wait if an earlier free to
/// the group still waits for a running owner, the unit is not large, and neither a limit nor a
/// figure of a scope depends on the slots.
///
/// An owner that has already booked the earlier free probably waits for the next one too, so this
/// thread publishes the next free at once.
fn may_wait(heap: &ThreadHeap, group: SlotGroupPtr) -> bool {
    let is_small = heap.heap.spec().unit <= LARGEST_UNIT || weakened!("bundle_of_any_size");
    let awaits = heap.record().is_bound() && group.awaits_owner();
    let is_served = awaits || weakened!("slots_of_ended_threads_wait");
    is_small && is_served && (!heap.is_watched() || weakened!("limited_slots_wait"))
}

/// Frees a slot of any family of one type, given the layout of the value. `own` is the calling
/// thread's record, or null.
///
/// # Safety
/// `block` is a live slot of such a family's heap, for a value of this layout, and nothing uses it
/// after this call. If `own` is the record of that heap, the calling thread holds it.
#[inline]
pub(crate) unsafe fn give_erased(own: *const Record<PoolRecord>, block: NonNull<u8>, layout: Layout) {
    let unit_size = crate::geometry::unit_of(layout);
    // SAFETY: units are aligned to `unit_size`, start with a `Unit`, and were exposed when they
    // were created. A unit with a live slot is not freed (H4).
    let header = unsafe { ephemera_prim::raw::header_of::<Unit>(block, unit_size) };
    // SAFETY: U1: the unit has a live slot, and the exposed pointer may access the whole unit.
    let unit = unsafe { UnitPtr::new(header) };
    // SAFETY: T1: a unit's owner word names its heap, which is never freed.
    let heap = unsafe { &*unit.owner().cast::<ThreadHeap>() };
    if ptr::eq(heap.record, own) {
        // SAFETY: `own` is the heap's record, so the calling thread holds that record.
        let owner = unsafe { HeapOwner::new(heap) };
        // SAFETY: the caller frees a live slot of this heap, whose values have one type, and the
        // calling thread holds the record.
        unsafe { heap::give(owner, block, unit_size, layout.size(), Reach::Slot) };
        return;
    }
    // SAFETY: the caller frees the slot, which is on no list yet, so nothing else uses it.
    unsafe { heap::fast::mark_free(block, layout.size()) };
    // SAFETY: the caller frees a live slot of this unit, whose heap is in a table.
    unsafe { give_to_owner(unit, block) };
}
