//! Tables: the heaps of one family on one record.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr;

use crossbeam_utils::CachePadded;
use ephemera_prim::account::{Account, Booked};
use ephemera_prim::pages::{self, SpanCache};
use ephemera_prim::record::Record;
use ephemera_prim::sync::AtomicUsize;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use super::Family;
use super::idle_owner::HeapMail;
use super::ledger::Ledger;
use super::tally::LargeTally;
use crate::geometry::UnitSpec;
use crate::heap::{ChunkLen, UnitHeap};
use crate::stats::Stats;
#[cfg(not(ephemera_loom))]
use crate::unit::UnitPtr;

/// The part of a record that belongs to this crate: its tables.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PoolRecord {
    tables: OwnerPtr<ThreadHeap>,
    /// The number of visits to the slow path.
    pub(super) visits: OwnerUsize,
    /// Not zero if the last holder of the record left empty units because a walker protected them.
    pub(super) rest: OwnerUsize,
    /// The number of walks by statistics over these heaps while another thread held the record.
    pub(super) walks: AtomicUsize,
    /// The ledger of the scope that has this record, or null if it is a record of threads. It never
    /// changes after the record was made.
    ledger: OwnerPtr<Ledger>,
    /// The table that the holder of a scope's record allocated from before it entered the scope, or
    /// null. That thread holds the table's record for as long as this one.
    outer: OwnerPtr<ThreadHeap>,
    /// Not zero if the record's scope ended while another thread held the record. That thread then
    /// trims it.
    pub(super) ended: AtomicUsize,
    /// Freed large blocks that the record's thread keeps for itself, of all families. That of a
    /// scope's record stays empty: a thread in a scope uses the cache of its own record.
    pub(super) spans: SpanCache,
}

impl PoolRecord {
    ephemera_prim::const_unless_loom! {
        /// Creates the data of a record without tables, for threads.
        pub(crate) fn new() -> Self {
            Self {
                tables: OwnerPtr::null(),
                visits: OwnerUsize::new(0),
                rest: OwnerUsize::new(0),
                walks: AtomicUsize::new(0),
                ledger: OwnerPtr::null(),
                outer: OwnerPtr::null(),
                ended: AtomicUsize::new(0),
                spans: SpanCache::new(),
            }
        }
    }

    /// Creates the data of a record without tables, for a scope.
    ///
    /// # Safety
    /// The ledger outlives the record (S1).
    pub(super) unsafe fn of_scope(ledger: *const Ledger) -> Self {
        Self { ledger: OwnerPtr::new(ledger.cast_mut()), ..Self::new() }
    }

    /// Returns the ledger of the scope that has this record.
    #[inline]
    pub(super) fn ledger(&self) -> Option<&Ledger> {
        // SAFETY: S1: the ledger of a scope's record outlives the record.
        unsafe { self.ledger.get().as_ref() }
    }

    /// Stores the table that a thread allocated from before it entered this record's scope.
    #[cfg(not(ephemera_loom))]
    #[inline]
    pub(super) fn set_outer(&self, table: *const ThreadHeap) {
        self.outer.set(table.cast_mut());
    }

    /// Returns the record of the scope in which the holder of this record entered this one's scope,
    /// if there is one. The calling thread holds both.
    #[cfg(not(ephemera_loom))]
    pub(super) fn outer(&self) -> Option<&Record<Self>> {
        self.ledger()?;
        // SAFETY: T1: the pointer is null or names a table, which is never freed.
        Some(unsafe { self.outer.get().as_ref() }?.record())
    }
}

/// One heap of a record. The heaps of one family are adjacent and form a table.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadHeap {
    pub(super) heap: UnitHeap,
    family: *const Family,
    pub(super) record: *const Record<PoolRecord>,
    /// The next table. Only the first heap of a table uses it.
    later: OwnerPtr<ThreadHeap>,
    /// The trim epoch that the table's holder last obeyed. Only the first heap of a table uses it.
    epoch_seen: OwnerUsize,
    /// The account's `spares` at the last search for room beyond this table; zero before the first.
    /// Only the first heap of a table uses it.
    pub(super) looked: OwnerUsize,
    /// Not zero if the last refusal waited for a walker that did not move on. Only the first heap
    /// of a table uses it.
    pub(super) waited: OwnerUsize,
    /// Only the first heap of a table uses it.
    tally: LargeTally,
    /// A bit for each heap of the table that may have had a unit. Only the first heap of a table
    /// uses it.
    used: OwnerU64,
    /// The number of times that a thread leased the record to drain this heap.
    #[cfg(all(test, not(ephemera_loom)))]
    pub(super) drains: OwnerUsize,
    /// The mail has its own cache line, because other threads push here while the owner allocates.
    pub(super) mail: CachePadded<HeapMail>,
}

// SAFETY: only the owner uses the cells (H1). There is one owner at a time, ordered after the last
// one by the record's lease (L2). Other threads use atomics, and fields that never change.
unsafe impl Sync for ThreadHeap {}

impl ThreadHeap {
    ephemera_prim::const_unless_loom! {
        fn new(spec: UnitSpec, chunk_len: ChunkLen, family: *const Family, record: *const Record<PoolRecord>) -> Self {
            Self {
                heap: UnitHeap::new(spec, chunk_len),
                family,
                record,
                later: OwnerPtr::null(),
                epoch_seen: OwnerUsize::new(0),
                looked: OwnerUsize::new(0),
                waited: OwnerUsize::new(0),
                tally: LargeTally::new(),
                used: OwnerU64::new(0),
                #[cfg(all(test, not(ephemera_loom)))]
                drains: OwnerUsize::new(0),
                mail: CachePadded::new(HeapMail::new()),
            }
        }
    }

    ephemera_prim::const_unless_loom! {
        /// Creates a heap for threads that own nothing. It never has units.
        pub(super) fn nowhere() -> Self {
            Self::new(UnitSpec::NONE, ChunkLen::Grows, ptr::null(), ptr::null())
        }
    }

    pub(super) fn family(&self) -> &Family {
        // SAFETY: T1: a heap of a table has a family, which outlives it.
        unsafe { &*self.family }
    }

    pub(super) fn record(&self) -> &Record<PoolRecord> {
        // SAFETY: T1: a heap of a table has a record, which is never freed (L3).
        unsafe { &*self.record }
    }

    /// Returns whether remote frees wait to be booked. The answer may be out of date.
    pub(super) fn has_mail(&self) -> bool {
        self.mail.is_some()
    }

    fn is_of(&self, family: &Family) -> bool {
        ptr::eq(self.family, family)
    }

    /// Returns the ledger of the scope that has this heap.
    #[inline]
    pub(super) fn ledger(&self) -> Option<&Ledger> {
        self.record().data().ledger()
    }
}

/// A heap books its units on the account of its family.
impl Account for ThreadHeap {
    fn reserve(&self, bytes: usize) -> bool {
        self.family().account().reserve(bytes)
    }

    fn reserve_beyond(&self, bytes: usize) {
        self.family().account().reserve_beyond(bytes);
    }

    fn release(&self, bytes: usize) {
        self.family().account().release(bytes);
    }

    fn large(&self, blocks: usize, bytes: usize, adds: bool) {
        self.family().account().large(blocks, bytes, adds);
    }

    fn now(&self) -> Booked {
        self.family().account().now()
    }

    fn spare(&self) {
        self.family().account().spare();
    }
}

/// Returns the layout of the slots in a unit.
///
/// # Safety
/// The unit belongs to a heap of a table and is not freed.
#[cfg(not(ephemera_loom))]
#[inline]
pub(crate) unsafe fn spec_of(unit: UnitPtr) -> UnitSpec {
    // SAFETY: T1: a unit's owner word names its heap, which is never freed.
    unsafe { &*unit.owner().cast::<ThreadHeap>() }.heap.spec()
}

/// The heaps of one family on one record: a table, or the static heaps of threads that own nothing.
///
/// # Invariant
/// **T1** It points at the first heap of the family's heaps, which never move and are never freed.
/// All of them name their family and their record, except the heaps of threads that own nothing.
///
/// It is a pointer because a reference could access the first heap only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heaps<'w> {
    first: *const ThreadHeap,
    heaps: PhantomData<&'w ThreadHeap>,
}

impl<'w> Heaps<'w> {
    /// Creates the pointer.
    ///
    /// # Safety
    /// T1.
    #[inline]
    pub(crate) unsafe fn new(first: *const ThreadHeap) -> Self {
        Self { first, heaps: PhantomData }
    }

    #[cfg(not(ephemera_loom))]
    #[inline]
    pub(super) fn as_ptr(self) -> *const ThreadHeap {
        self.first
    }

    /// Returns the heap with this index.
    ///
    /// # Safety
    /// The family has more than `heap` heaps.
    #[inline]
    pub(super) unsafe fn heap(self, heap: usize) -> &'w ThreadHeap {
        // SAFETY: T1: the index is within the table.
        unsafe { &*self.first.wrapping_add(heap) }
    }

    #[inline]
    pub(super) fn first(self) -> &'w ThreadHeap {
        // SAFETY: each family has at least one heap.
        unsafe { self.heap(0) }
    }

    /// Returns the tally of the table, which is not that of threads that own nothing.
    #[cfg(not(ephemera_loom))]
    pub(super) fn tally(self) -> &'w LargeTally {
        &self.first().tally
    }

    /// Returns all heaps of the table.
    #[cfg(test)]
    pub(super) fn all(self) -> impl Iterator<Item = &'w ThreadHeap> {
        // SAFETY: the index is less than the number of the family's heaps.
        (0..self.first().family().heaps()).map(move |heap| unsafe { self.heap(heap) })
    }

    /// Returns the heaps that may have units, those of the smallest slots first. The others never
    /// had a unit, so they have no mail.
    pub(super) fn used(self) -> impl Iterator<Item = &'w ThreadHeap> {
        let mut used = self.first().used.get();
        core::iter::from_fn(move || {
            if used == 0 {
                return None;
            }
            let heap = used.trailing_zeros();
            used &= used - 1;
            // SAFETY: only indices of the family's heaps are marked.
            Some(unsafe { self.heap(heap as usize) })
        })
    }

    /// Marks a heap that is about to have units. Only the holder of the record calls this.
    #[inline]
    pub(super) fn mark_used(self, heap: usize) {
        let used = &self.first().used;
        if !cfg!(ephemera_weaken = "heaps_are_not_marked") {
            used.set(used.get() | 1 << heap);
        }
    }

    pub(super) fn family(self) -> &'w Family {
        self.first().family()
    }

    /// Returns the tables of a record.
    pub(super) fn of_record(record: &'w Record<PoolRecord>) -> impl Iterator<Item = Self> {
        Self::of_data(record.data())
    }

    /// Returns the tables of a record, given its data.
    pub(super) fn of_data(data: &'w PoolRecord) -> impl Iterator<Item = Self> {
        let mut at = data.tables.follow().cast_const();
        core::iter::from_fn(move || {
            if at.is_null() {
                return None;
            }
            // SAFETY: T1: the links of a record's data lead to tables.
            let heaps = unsafe { Self::new(at) };
            at = heaps.first().later.get().cast_const();
            Some(heaps)
        })
    }

    /// Returns the table of a family on a record, if it has one.
    pub(super) fn find(record: &'w Record<PoolRecord>, family: &Family) -> Option<Self> {
        Self::of_record(record).find(|heaps| heaps.first().is_of(family))
    }

    /// Returns the table of a family on a record, and makes it if there is none.
    ///
    /// # Safety
    /// The calling thread holds the record. The record and the family outlive all use of the table.
    pub(super) unsafe fn find_or_make(record: &'w Record<PoolRecord>, family: &'w Family) -> Option<Self> {
        if let Some(heaps) = Self::find(record, family) {
            return Some(heaps);
        }
        let layout = Layout::array::<ThreadHeap>(family.heaps()).ok()?;
        let first = pages::permanent(layout).ok()?.cast::<ThreadHeap>();
        for heap in 0..family.heaps() {
            let new = ThreadHeap::new(family.spec(heap), family.chunk_len(), family, record);
            // SAFETY: the memory has room for all heaps of the family.
            let place = unsafe { first.add(heap) };
            // SAFETY: the place is aligned, and the caller has exclusive access to it.
            unsafe { place.write(new) };
        }
        // SAFETY: T1: all heaps were just written, and the memory is never freed.
        let heaps = unsafe { Self::new(first.as_ptr()) };
        heaps.first().later.set(record.data().tables.get());
        record.data().tables.publish(first.as_ptr());
        Some(heaps)
    }

    /// Returns whether a trim was requested since the holder of this table last asked.
    pub(super) fn take_trim_request(self) -> bool {
        let first = self.first();
        first.family().epoch.turned(&first.epoch_seen)
    }

    /// Returns the number of unbooked remote frees.
    #[cfg(all(test, ephemera_loom))]
    pub(super) fn unbooked(self) -> usize {
        let mut sum = 0;
        self.all().for_each(|heap| _ = heap.heap.walk(|unit| sum += unit.unbooked()));
        sum
    }

    /// Adds the units and live slots of these heaps. `owned` says whether the calling thread holds
    /// the record and so may count the slots of fronts.
    pub(super) fn gather(self, stats: &mut Stats, owned: bool) {
        let large = (stats.large_blocks, stats.large_bytes);
        (stats.large_blocks, stats.large_bytes) = self.first().tally.add_to(large);
        self.used().for_each(|heap| stats.add_heap(&heap.heap, owned));
    }
}
