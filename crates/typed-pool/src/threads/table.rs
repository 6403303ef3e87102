//! Tables: the heaps of one family on one record.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::{iter, ptr};

use ephemera_prim::pages;
use ephemera_prim::record::Record;

use super::books::Books;
use super::bundle;
use super::state::{Family, PoolRecord, ThreadHeap};
use crate::stats::Stats;

/// The heaps of one family on one record: a table, or the static heaps of threads that own nothing.
///
/// # Invariant
/// **T1** `first` points to the first of the family's heaps, which never move and are never freed.
/// All of these heaps name their family and their record, except the heaps of threads that own
/// nothing.
///
/// `first` is a pointer, because a reference to the first heap could not access the other heaps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heaps<'w> {
    first: *const ThreadHeap,
    heaps: PhantomData<&'w ThreadHeap>,
}

impl<'w> Heaps<'w> {
    /// Creates the value from a pointer to the first heap.
    ///
    /// # Safety
    /// T1: `first` is the first heap of a table, or of the heaps of threads that own nothing.
    #[inline]
    pub(crate) unsafe fn new(first: *const ThreadHeap) -> Self {
        Self { first, heaps: PhantomData }
    }

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

    /// Returns the record of these heaps if it belongs to a scope. The heaps must be a table.
    #[cfg(not(ephemera_loom))]
    pub(super) fn scope_record(self) -> Option<&'w Record<PoolRecord>> {
        let record = self.first().record();
        record.data().ledger().is_some().then_some(record)
    }

    /// Returns the family's account, together with the tally of these heaps. The heaps must be a
    /// table on a record that the calling thread holds.
    #[inline]
    pub(super) fn books(self) -> Books<'w> {
        Books { account: self.family().account(), tally: Some(&self.first().tally) }
    }

    /// Returns the heaps that may have units, in ascending order of their slot sizes. The other
    /// heaps never had a unit, so they have no mail.
    pub(super) fn used(self) -> impl Iterator<Item = &'w ThreadHeap> {
        let mut used = self.first().used.get();
        iter::from_fn(move || {
            if used == 0 {
                return None;
            }
            let heap = used.trailing_zeros();
            used &= used - 1;
            // SAFETY: only indices of the family's heaps are marked.
            Some(unsafe { self.heap(heap as usize) })
        })
    }

    /// Marks a heap that may be about to get a unit. Only the holder of the record may call this.
    #[inline]
    pub(super) fn mark_used(self, heap: usize) {
        let used = &self.first().used;
        if !weakened!("heaps_are_not_marked") {
            used.set(used.get() | 1 << heap);
        }
    }

    pub(super) fn family(self) -> &'w Family {
        self.first().family()
    }

    /// Returns the tables of the record with this data.
    #[inline]
    pub(super) fn of(data: &'w PoolRecord) -> impl Iterator<Item = Self> {
        // SAFETY: T1: the links of a record's data are null or point to tables.
        let table = |link: *mut ThreadHeap| (!link.is_null()).then(|| unsafe { Self::new(link) });
        iter::successors(table(data.tables.observe()), move |heaps| table(heaps.first().next.get()))
    }

    /// Returns the table of a family on a record, if the record has one.
    #[inline]
    pub(super) fn find(record: &'w Record<PoolRecord>, family: &Family) -> Option<Self> {
        Self::of(record.data()).find(|heaps| ptr::eq(heaps.first().family, family))
    }

    /// Returns the table of a family on a record, and makes the table if the record has none.
    /// Returns `None` if there is no memory for the table.
    ///
    /// # Safety
    /// The calling thread holds the record. The record and the family outlive all use of the table.
    #[inline]
    pub(super) unsafe fn find_or_make(record: &'w Record<PoolRecord>, family: &'w Family) -> Option<Self> {
        // SAFETY: the caller holds the record, which has no table of the family. Record and family
        // outlive all use of the table.
        Self::find(record, family).or_else(|| unsafe { Self::make(record, family) })
    }

    /// Makes the table of a family on a record. Returns `None` if there is no memory for the table.
    ///
    /// # Safety
    /// The calling thread holds the record, which has no table of the family. The record and the
    /// family outlive all use of the table.
    #[cold]
    #[inline(never)]
    unsafe fn make(record: &'w Record<PoolRecord>, family: &'w Family) -> Option<Self> {
        let layout = Layout::array::<ThreadHeap>(family.heaps()).ok()?;
        let first = pages::permanent(layout).ok()?.cast::<ThreadHeap>();
        for heap in 0..family.heaps() {
            let new = ThreadHeap::new(family.spec(heap), family.chunk_len, family, record);
            // SAFETY: the memory has room for all heaps of the family.
            let place = unsafe { first.add(heap) };
            // SAFETY: the place is aligned and in the new memory, which nothing else uses.
            unsafe { place.write(new) };
        }
        // SAFETY: T1: all heaps were just written, and the memory is never freed.
        let heaps = unsafe { Self::new(first.as_ptr()) };
        heaps.first().next.set(record.data().tables.get());
        record.data().tables.publish(first.as_ptr());
        Some(heaps)
    }

    /// Returns whether a trim has been requested since the last call for this table.
    pub(super) fn take_trim_request(self) -> bool {
        self.family().epoch.turned(&self.first().epoch_seen)
    }

    /// Asks the other threads to trim. This thread has just trimmed, so it need not obey this
    /// request, but it still obeys requests of other threads.
    pub(super) fn ask_others_to_trim(self) {
        self.family().epoch.raise_for_others(&self.first().epoch_seen);
    }

    /// Adds the units and live slots of these heaps to `stats`. `owned` says whether the calling
    /// thread holds the record. Only then can it count the live slots of fronts.
    pub(super) fn gather(self, stats: &mut Stats, owned: bool) {
        self.used().for_each(|heap| {
            let bundles = || bundle::all().filter(|bundle| bundle.is_open_for(heap));
            let any = bundles().next().is_some() && !weakened!("statistics_ignore_bundles");
            let size = heap.heap.spec().unit;
            let in_bundles = |unit| bundles().map(|bundle| bundle.slots_of(unit, size)).sum();
            let waiting = |unit| if any { in_bundles(unit) } else { 0 };
            stats.add_heap(&heap.heap, owned, waiting);
        });
    }
}
