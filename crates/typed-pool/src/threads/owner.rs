//! `HeapOwner`: a thread as the owner of one heap.

use core::ptr;

use ephemera_prim::account::SharedAccount;
use ephemera_prim::pages::Pages;

use super::ledger::Ledger;
use super::state::{FamilyKind, PoolRecord, ThreadHeap};
use super::table::Heaps;
use crate::class::CLASSES;
use crate::heap::selection::RecentFrees;
use crate::heap::{self, PoolEnv, UnitHeap};
use crate::slot_group::SlotGroupPtr;
use crate::unit::{self, UnitPtr};

/// The calling thread as the owner of one heap.
///
/// # Invariant
/// The thread holds the heap's record, or the heap belongs to the static heaps for threads that own
/// nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeapOwner<'w> {
    pub(super) heap: &'w ThreadHeap,
}

impl<'w> HeapOwner<'w> {
    /// Creates the owner.
    ///
    /// # Safety
    /// The invariant of [`HeapOwner`] holds.
    #[inline]
    pub(super) unsafe fn new(heap: &'w ThreadHeap) -> Self {
        Self { heap }
    }
}

/// Tells all heaps of a record whether their frees select, and lets them host if they do.
///
/// # Safety
/// The calling thread holds the record.
#[cold]
#[inline(never)]
pub(super) unsafe fn apply_selection(data: &PoolRecord) {
    for heap in Heaps::of(data).flat_map(Heaps::used) {
        heap.heap.set_selects(data.selection.selects());
        // SAFETY: L1: the caller holds the record of these heaps.
        heap.heap.open_to_guests(unsafe { HeapOwner::new(heap) });
    }
}

impl<'w> Heaps<'w> {
    /// Returns the [`HeapOwner`] of the heap with this index, for the calling thread.
    ///
    /// # Safety
    /// The family has more than `heap` heaps. The calling thread holds the record, or these are the
    /// heaps of threads that own nothing.
    #[inline]
    pub(crate) unsafe fn owner(self, heap: usize) -> HeapOwner<'w> {
        // SAFETY: the caller passes the index of one of the family's heaps.
        let heap = unsafe { self.heap(heap) };
        // SAFETY: the calling thread holds the record, or the heap is one for threads that own
        // nothing.
        unsafe { HeapOwner::new(heap) }
    }

    /// Returns the [`HeapOwner`] of a unit's heap, for the calling thread, if that heap is in this
    /// table and the unit's owner word has no tag. Returns `None` for any other unit, for example
    /// an abandoned one.
    ///
    /// # Safety
    /// These are the heaps of an allocator with size classes. They are a table on a record that the
    /// calling thread holds, or the heaps of threads that own nothing.
    #[inline]
    pub(crate) unsafe fn owner_of(self, unit: UnitPtr) -> Option<HeapOwner<'w>> {
        let heap = unit.owner_word().get().cast_const().cast::<ThreadHeap>();
        let offset = heap.addr().wrapping_sub(self.as_ptr().addr());
        // An owner word with a tag is not the address of a heap.
        let is_heap = offset < CLASSES * size_of::<ThreadHeap>() && offset % size_of::<ThreadHeap>() == 0;
        if !is_heap && !weakened!("known_units_are_own") {
            return None;
        }
        // SAFETY: T1: `heap` is the address of a heap of this table, and the table is never freed.
        let heap = unsafe { &*heap };
        // SAFETY: the caller holds the record of this table, or the heap is one for threads that
        // own nothing.
        Some(unsafe { HeapOwner::new(heap) })
    }

    /// Books the remote frees of these heaps, and frees all empty units. Returns `false` if some of
    /// them stay, because a walker protects them.
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

// SAFETY: the thread holds the heap's record and thus owns the heap (L1), or the heap is one that
// has no units and is never written. An owner word without a tag is the address of the unit's heap.
// All units come from `Pages`.
unsafe impl PoolEnv for HeapOwner<'_> {
    type Backing = Pages;
    type Account = SharedAccount;

    const MAY_SELECT: bool = true;

    #[inline]
    fn heap(&self) -> &UnitHeap {
        &self.heap.heap
    }

    fn backing(&self) -> &Pages {
        &Pages
    }

    fn account(&self) -> &SharedAccount {
        self.heap.family().account()
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

    /// Returns `false` for the units of other scopes if the heap belongs to a counting scope. A
    /// slot has no birth, so a counting scope allocates only from its own units, whose birth tells
    /// which scope a freed slot counts for.
    #[inline]
    fn serves(&self, birth: u64) -> bool {
        let shared = weakened!("counting_scopes_share_units");
        self.heap.ledger().is_none_or(|ledger| shared || !ledger.is_counting() || ledger.is_current(birth))
    }

    #[inline]
    fn frees_to(&self, unit: UnitPtr) -> bool {
        unit.is_owned_by(ptr::from_ref(self.heap).cast())
    }

    #[inline]
    fn selects(&self) -> bool {
        self.heap.record().data().selection.selects()
    }

    /// Notes the frees for the decision of the record. If the decision changes, applies it to all
    /// heaps of the record.
    #[inline]
    fn note_frees(&self, frees: RecentFrees) {
        if self.heap.record().data().selection.note(ptr::from_ref(self.heap).addr(), frees) {
            // SAFETY: this thread holds the record (the invariant of `HeapOwner`).
            unsafe { apply_selection(self.heap.record().data()) };
        }
    }

    /// Returns `false` under a limit, because another thread's request may depend on the unit that
    /// a guest would pin.
    #[inline]
    fn may_host(&self) -> bool {
        !self.account().is_limited() || weakened!("limited_heaps_host")
    }

    /// Returns `true` for an allocator with size classes, except under a limit or in a scope, which
    /// count the bytes of units. [`Pages`] serves each unit with a span that is at least as
    /// long as the unit's alignment. Only the pages that the program uses become resident, so a
    /// short unit would not save memory.
    #[inline]
    fn requests_whole_units(&self) -> bool {
        let has_classes = matches!(self.heap.family().kind, FamilyKind::Classes);
        has_classes && !self.heap.is_watched() && !weakened!("units_grow_slowly")
    }

    /// Returns `false` under a limit or in a scope, because a limit and the figures of a scope
    /// depend on the units that the heap holds. Also returns `false` if no running thread is bound
    /// to the record, because a thread that leases the record for a moment does not allocate from
    /// the record's heaps.
    #[inline]
    fn may_rest(&self) -> bool {
        (!self.heap.is_watched() || weakened!("limited_heaps_rest")) && self.heap.record().is_bound()
    }

    /// Books the remote frees of the heap. If the thread leases the record only for a moment, no
    /// later slow path frees the units that became empty here, so the release frees them.
    fn book_mail(self) {
        let mut emptied = false;
        for (group, given) in self.mail() {
            emptied |= !heap::supply::book(self, group, given);
        }
        if emptied && self.heap.ledger().is_none() && !self.heap.record().is_bound() {
            self.heap.record().data().leftovers.set(1);
        }
    }

    fn mail(self) -> impl Iterator<Item = (SlotGroupPtr, u64)> {
        // SAFETY: this thread holds the record (the invariant of `HeapOwner`).
        let taken = unsafe { self.heap.mail.take() };
        // SAFETY: U1: the mail of this heap has only groups of its units, by pointers from
        // `as_non_null`. A unit with unbooked remote frees is not freed (F3).
        taken.map(move |(group, given)| (unsafe { SlotGroupPtr::new(group, self.heap().spec().unit) }, given))
    }
}
