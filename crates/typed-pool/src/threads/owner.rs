//! A thread as the owner of a heap on its record, and the operations of other threads on that heap.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;
#[cfg(not(ephemera_loom))]
use ephemera_prim::idle::LOOK_EVERY;
use ephemera_prim::pages::Pages;
use ephemera_prim::record::Record;

#[cfg(not(ephemera_loom))]
use super::idle_queue;
use super::lease_end;
use super::ledger::Ledger;
use super::table::{Heaps, PoolRecord, ThreadHeap};
use crate::heap::{self, AllocEnv, PoolEnv, UnitHeap};
use crate::slot_group::SlotGroupPtr;
use crate::unit::{self, Reach, Unit, UnitPtr};

/// In one of this number of visits to the slow path, a thread serves all heaps of its record.
const ROUND: usize = 64;

/// A thread as the owner of one heap.
///
/// # Invariant
/// The thread holds the heap's record, or the heap is one of threads that own nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeapOwner<'w> {
    heap: &'w ThreadHeap,
}

impl<'w> HeapOwner<'w> {
    /// Creates the owner.
    ///
    /// # Safety
    /// The invariant of [`HeapOwner`].
    #[inline]
    pub(super) unsafe fn new(heap: &'w ThreadHeap) -> Self {
        Self { heap }
    }
}

impl<'w> Heaps<'w> {
    /// Returns the heap with this index, for a thread that owns it.
    ///
    /// # Safety
    /// The family has more than `heap` heaps. The calling thread holds the record, or these are the
    /// heaps of threads that own nothing.
    #[inline]
    pub(crate) unsafe fn owner(self, heap: usize) -> HeapOwner<'w> {
        // SAFETY: the family has more than `heap` heaps.
        let heap = unsafe { self.heap(heap) };
        // SAFETY: the calling thread holds the record, or the heap belongs to no thread.
        unsafe { HeapOwner::new(heap) }
    }

    /// Frees all empty units. Returns `false` if some stayed because a walker protected them for
    /// long.
    ///
    /// # Safety
    /// The calling thread holds the record.
    pub(super) unsafe fn trim(self) -> bool {
        let mut all = true;
        for heap in self.used() {
            // SAFETY: the caller holds the record.
            all &= heap::trim(unsafe { HeapOwner::new(heap) });
        }
        all
    }
}

// SAFETY: the holder of a record owns its heaps (L1). Units carry the address of their heap as
// identity, and all of them come from the operating system's pages.
unsafe impl PoolEnv for HeapOwner<'_> {
    type Backing = Pages;
    type Account = ThreadHeap;

    #[inline]
    fn heap(&self) -> &UnitHeap {
        &self.heap.heap
    }

    fn backing(&self) -> &Pages {
        &Pages
    }

    fn account(&self) -> &ThreadHeap {
        self.heap
    }

    fn identity(&self) -> *const () {
        let heap = ptr::from_ref(self.heap).cast();
        if self.heap.ledger().is_some_and(Ledger::is_counting) { unit::counted(heap) } else { heap }
    }

    fn count_unit(&self, bytes: usize) -> u64 {
        self.heap.ledger().map_or(0, |ledger| {
            ledger.add(bytes);
            ledger.birth()
        })
    }

    fn uncount_unit(&self, bytes: usize, birth: u64) {
        if let Some(ledger) = self.heap.ledger() {
            ledger.sub(bytes, birth);
        }
    }

    #[inline]
    fn is_current(&self, birth: u64) -> bool {
        self.heap.ledger().is_none_or(|ledger| ledger.is_current(birth))
    }

    /// A slot has no birth of its own. So a counting scope allocates from its own units only, and
    /// the birth of a unit tells whose block was freed.
    #[inline]
    fn serves(&self, birth: u64) -> bool {
        let shared = cfg!(ephemera_weaken = "counting_scopes_share_units");
        self.heap.ledger().is_none_or(|ledger| shared || !ledger.is_counting() || ledger.is_current(birth))
    }

    #[inline]
    fn owns(&self, unit: UnitPtr) -> bool {
        unit.is_owned_by(ptr::from_ref(self.heap).cast())
    }

    fn settle(self) {
        for (group, given) in self.mail() {
            heap::supply::book(self, group, given);
        }
    }

    fn mail(self) -> impl Iterator<Item = (SlotGroupPtr, u64)> {
        // SAFETY: this thread holds the record (the invariant of `HeapOwner`).
        let taken = unsafe { self.heap.mail.take() };
        // SAFETY: U1: the inboxes are this heap's, so the groups are too. A unit whose frees are
        // not all booked is not freed (F3).
        taken.map(move |(group, given)| (unsafe { SlotGroupPtr::new(group, self.heap().spec().unit) }, given))
    }
}

impl AllocEnv for HeapOwner<'_> {
    fn is_at_limit(&self, bytes: usize) -> bool {
        self.heap.ledger().is_some_and(|ledger| ledger.may_trim_for(bytes))
    }

    fn trim_all(self) {
        Heaps::of_record(self.heap.record()).for_each(|heaps| {
            // SAFETY: this thread holds the record (the invariant of `HeapOwner`).
            unsafe { heaps.trim() };
        });
    }

    fn last_resort(self) {
        if let Some(heaps) = Heaps::find(self.heap.record(), self.heap.family()) {
            // SAFETY: this thread holds the record (the invariant of `HeapOwner`).
            unsafe { super::last_resort::make_room(heaps) };
        }
    }

    #[inline(never)]
    unsafe fn give_back(self, unit: UnitPtr, block: NonNull<u8>) {
        // SAFETY: the caller frees a slot of this unit.
        unsafe { give_to_owner(unit, block) };
    }
}

/// Frees a slot to the heap of its unit.
///
/// # Safety
/// `block` is a slot of `unit`, which belongs to a heap of a table. The caller frees the slot.
#[inline(never)]
unsafe fn give_to_owner(unit: UnitPtr, block: NonNull<u8>) {
    // SAFETY: T1: a unit's owner word names its heap, which is never freed.
    let heap = unsafe { &*unit.owner().cast::<ThreadHeap>() };
    if unit.is_counted() {
        count_free(heap, unit.birth());
    }
    let (group, bit) = unit.group_of(block);
    // SAFETY: the caller frees a live slot of this heap, so no other free sets its bit.
    let pushed = unsafe { heap.mail.inbox.give_back_bits(group.as_non_null(), bit) };
    if pushed {
        lease_end::drain_free_record(heap);
        #[cfg(not(ephemera_loom))]
        idle_queue::note_push(heap);
    }
}

/// Counts a free of a counting scope's slot.
#[cold]
#[inline(never)]
fn count_free(heap: &ThreadHeap, birth: u64) {
    if let Some(ledger) = heap.ledger() {
        ledger.count_free(heap.heap.spec().stride, birth);
    }
}

/// Frees a slot by its layout alone, on a thread that holds the record `own`, if any.
///
/// # Safety
/// `block` is a live slot of a family's heap for a value of this layout, and the caller frees it.
#[inline]
pub(crate) unsafe fn give_erased(own: *const Record<PoolRecord>, block: NonNull<u8>, layout: Layout) {
    let unit_size = crate::geometry::unit_of(layout);
    // SAFETY: units are aligned to their mask, start with a `Unit`, and were exposed when they were
    // created; a unit with a live slot is not freed (H4).
    let header = unsafe { ephemera_prim::header::header_of::<Unit>(block, unit_size) };
    // SAFETY: U1: the unit has a live slot, and the exposed pointer may access the whole unit.
    let unit = unsafe { UnitPtr::new(header) };
    // SAFETY: T1: a unit's owner word names its heap, which is never freed.
    let heap = unsafe { &*unit.owner().cast::<ThreadHeap>() };
    if ptr::eq(heap.record, own) {
        // SAFETY: the caller frees a live slot, and its thread holds the record.
        unsafe { heap::give(HeapOwner { heap }, block, unit_size, layout.size(), Reach::Slot) };
        return;
    }
    // SAFETY: the caller frees the slot, which is on no list yet.
    unsafe { heap::fast::mark_free(block, layout.size()) };
    // SAFETY: the caller frees a live slot of this unit.
    unsafe { give_to_owner(unit, block) };
}

/// The slow path of a thread that holds the table's record: allocates a slot from the heap with
/// this index.
///
/// # Safety
/// The calling thread holds the record, and the family has more than `heap` heaps.
pub(super) unsafe fn refill(heaps: Heaps<'_>, heap: usize, size: usize) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: the caller holds the record.
    unsafe { visit(heaps) };
    heaps.mark_used(heap);
    // SAFETY: the caller holds the record, and the index is in the table.
    heap::refill(unsafe { heaps.owner(heap) }, size)
}

/// Counts a visit to the slow path, and does the work that other threads leave to this one. Each
/// visit obeys a requested trim. One in [`ROUND`] books the remote frees of all heaps of the
/// record, and one in `LOOK_EVERY` looks for idle owners.
///
/// # Safety
/// The calling thread holds the table's record.
#[inline]
pub(super) unsafe fn visit(heaps: Heaps<'_>) {
    let record = heaps.first().record();
    let visits = record.data().visits.get().wrapping_add(1);
    record.data().visits.set(visits);
    if visits % ROUND == 0 {
        look_after_all(record);
    }
    #[cfg(not(ephemera_loom))]
    if visits % LOOK_EVERY == 0 {
        idle_queue::look();
    }
    if heaps.take_trim_request() {
        // SAFETY: the caller holds the record.
        unsafe { trim_on_request(heaps) };
    }
}

/// Frees the empty units of this table, and the spans that the thread keeps.
///
/// # Safety
/// The calling thread holds the table's record.
#[cold]
#[inline(never)]
unsafe fn trim_on_request(heaps: Heaps<'_>) {
    // SAFETY: the caller holds the record.
    unsafe { heaps.trim() };
    #[cfg(not(ephemera_loom))]
    super::spans::clear_spans();
}

/// Does what [`refill`] does, for a block that shrinks: if the limit refuses, it uses a unit that
/// exceeds the limit.
///
/// # Safety
/// As [`refill`].
#[cfg(not(ephemera_loom))]
pub(super) unsafe fn refill_beyond(
    heaps: Heaps<'_>,
    heap: usize,
    size: usize,
) -> Result<NonNull<u8>, AllocError> {
    // SAFETY: this function has the same contract.
    unsafe { refill(heaps, heap, size) }.or_else(|AllocError| {
        // SAFETY: the caller holds the record, and the index is in the table.
        heap::slow::refill_beyond(unsafe { heaps.owner(heap) }, size)
    })
}

/// The number of outer scopes that a thread looks after.
#[cfg(not(ephemera_loom))]
const OUTER: usize = 8;

/// Books the remote frees of all heaps of the record. If the thread is in scopes, also books those
/// of the next outer scopes and of its own record. The thread takes no slow path there while it is
/// in the inner scope.
#[cold]
pub(super) fn look_after_all(record: &Record<PoolRecord>) {
    look_after(record);
    #[cfg(not(ephemera_loom))]
    if record.data().ledger().is_some() {
        if !cfg!(ephemera_weaken = "outer_scopes_are_not_looked_after") {
            let outer = core::iter::successors(record.data().outer(), |record| record.data().outer());
            outer.take(OUTER).filter(|record| record.data().ledger().is_some()).for_each(look_after);
        }
        super::binding::look_after_own();
    }
}

/// Books the remote frees of all heaps of the record, and trims the tables for which a trim was
/// requested. The thread may use only some of them: earlier holders of the record made the others.
fn look_after(record: &Record<PoolRecord>) {
    for heaps in Heaps::of_record(record) {
        if heaps.take_trim_request() {
            // SAFETY: this thread holds the record.
            unsafe { heaps.trim() };
        } else {
            heaps.used().for_each(|heap| HeapOwner { heap }.settle());
        }
    }
    // If the record is only leased for a moment, no other thread frees the units that ran empty
    // here. A scope keeps its empty units while it is alive.
    if record.data().ledger().is_none() {
        record.data().rest.set(1);
    }
}
