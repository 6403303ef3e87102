//! Tables: the heaps of one family on one record.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr;

use allocator_api2::alloc::Global;
use ephemera_prim::foreign::Inbox;
use ephemera_prim::raw;
use ephemera_prim::record::Record;
use ephemera_prim::sync::AtomicUsize;
use ephemera_prim::word::{OwnerPtr, OwnerUsize};

use super::Family;
use super::owner::Owner;
use super::tally::Tally;
use crate::geometry::Spec;
use crate::group::Group;
use crate::heap::{self, ChunkLen, Heap};
use crate::stats::Stats;

/// What hangs on a record: its tables.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Shard {
    tables: OwnerPtr<ThreadHeap>,
    /// How often the slow path was taken.
    pub(super) visits: OwnerUsize,
    /// Not zero if the last thread that had the record left empty units, because a walker stood on them.
    pub(super) rest: OwnerUsize,
    /// How often statistics walked along the units of these heaps while another thread had the record.
    pub(super) walks: AtomicUsize,
}

impl Shard {
    ephemera_prim::const_unless_loom! {
        /// A shard without tables.
        pub(crate) fn new() -> Self {
            Self {
                tables: OwnerPtr::null(),
                visits: OwnerUsize::new(0),
                rest: OwnerUsize::new(0),
                walks: AtomicUsize::new(0),
            }
        }
    }
}

/// One heap of a record. Those of one family stand in a row, a table.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadHeap {
    pub(super) heap: Heap,
    family: *const Family,
    pub(super) record: *const Record<Shard>,
    /// The next table. Of the first heap of each table only.
    later: OwnerPtr<ThreadHeap>,
    /// The trim epoch that the table's holder obeyed last. Of the first heap of each table only.
    epoch_seen: OwnerUsize,
    /// The account's `spares` at the last look for room beyond this table; zero before the first.
    /// Of the first heap of each table only.
    pub(super) looked: OwnerUsize,
    /// Not zero if the last refusal waited for a walker that did not move on. Of the first heap of each table only.
    pub(super) waited: OwnerUsize,
    /// Of the first heap of each table only.
    tally: Tally,
    /// How often a thread that held the record for a moment drained this heap.
    #[cfg(all(test, not(ephemera_loom)))]
    pub(super) drains: OwnerUsize,
    pub(super) remote: Remote,
}

/// On a line of its own: other threads push here while the owner allocates.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Remote {
    pub(super) inbox: Inbox<Group>,
}

// SAFETY: cells are the owner's alone (H1), who is one thread at a time, each ordered behind the one before it by the record's lease
// (L2); other threads use the atomics, and fields that never change.
unsafe impl Sync for ThreadHeap {}

impl ThreadHeap {
    ephemera_prim::const_unless_loom! {
        fn new(spec: Spec, chunk_len: ChunkLen, family: *const Family, record: *const Record<Shard>) -> Self {
            Self {
                heap: Heap::new(spec, chunk_len),
                family,
                record,
                later: OwnerPtr::null(),
                epoch_seen: OwnerUsize::new(0),
                looked: OwnerUsize::new(0),
                waited: OwnerUsize::new(0),
                tally: Tally::new(),
                #[cfg(all(test, not(ephemera_loom)))]
                drains: OwnerUsize::new(0),
                remote: Remote { inbox: Inbox::new() },
            }
        }
    }

    ephemera_prim::const_unless_loom! {
        /// A heap of threads that own nothing: without units for ever.
        pub(super) fn nowhere() -> Self {
            Self::new(Spec::NONE, ChunkLen::Grows, ptr::null(), ptr::null())
        }
    }

    pub(super) fn family(&self) -> &Family {
        // SAFETY: T1: a heap of a table has a family, which outlives it.
        unsafe { &*self.family }
    }

    pub(super) fn record(&self) -> &Record<Shard> {
        // SAFETY: T1: a heap of a table is on a record, which is never freed (L3).
        unsafe { &*self.record }
    }

    fn is_of(&self, family: &Family) -> bool {
        ptr::eq(self.family, family)
    }
}

/// The heaps of one family on one record: a table, or the one of threads that own nothing.
///
/// # Invariant
/// **T1** It points at the first of as many heaps as its family has, which are never freed nor moved. All but those of threads that own
/// nothing name their family and their record.
///
/// A pointer, since a reference would be one to the first heap alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heaps<'w> {
    first: *const ThreadHeap,
    heaps: PhantomData<&'w ThreadHeap>,
}

impl<'w> Heaps<'w> {
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

    /// The heap of this index.
    ///
    /// # Safety
    /// The family has more heaps than that.
    #[inline]
    unsafe fn heap(self, heap: usize) -> &'w ThreadHeap {
        // SAFETY: T1: within the table.
        unsafe { &*self.first.wrapping_add(heap) }
    }

    #[inline]
    pub(super) fn first(self) -> &'w ThreadHeap {
        // SAFETY: each family has a heap.
        unsafe { self.heap(0) }
    }

    /// The heap of this index, for a thread that owns it.
    ///
    /// # Safety
    /// The family has more heaps than that; the calling thread holds the record, or these are the heaps of threads that own
    /// nothing.
    #[inline]
    pub(crate) unsafe fn owner(self, heap: usize) -> Owner<'w> {
        // SAFETY: the caller's.
        let heap = unsafe { self.heap(heap) };
        // SAFETY: the caller's.
        unsafe { Owner::new(heap) }
    }

    /// The tally of the table; none where these are the heaps of threads that own nothing.
    #[cfg(not(ephemera_loom))]
    pub(super) fn tally(self) -> Option<&'w Tally> {
        Some(self.first()).filter(|heap| !heap.family.is_null()).map(|heap| &heap.tally)
    }

    /// All heaps of the table.
    pub(super) fn all(self) -> impl Iterator<Item = &'w ThreadHeap> {
        // SAFETY: fewer than the family has.
        (0..self.first().family().heaps()).map(move |heap| unsafe { self.heap(heap) })
    }

    pub(super) fn family(self) -> &'w Family {
        self.first().family()
    }

    /// The tables of a record.
    pub(super) fn of_record(record: &'w Record<Shard>) -> impl Iterator<Item = Self> {
        Self::of_shard(record.shard())
    }

    /// The tables of a record, by its shard.
    pub(super) fn of_shard(shard: &'w Shard) -> impl Iterator<Item = Self> {
        let mut at = shard.tables.follow().cast_const();
        core::iter::from_fn(move || {
            if at.is_null() {
                return None;
            }
            // SAFETY: T1: what is linked is a table.
            let heaps = unsafe { Self::new(at) };
            at = heaps.first().later.get().cast_const();
            Some(heaps)
        })
    }

    /// The table of a family on a record, if it has one.
    pub(super) fn find(record: &'w Record<Shard>, family: &Family) -> Option<Self> {
        Self::of_record(record).find(|heaps| heaps.first().is_of(family))
    }

    /// The table of a family on a record, made where there is none yet.
    ///
    /// # Safety
    /// The calling thread holds the record. Both outlive all use of the table.
    pub(super) unsafe fn find_or_make(record: &'w Record<Shard>, family: &'w Family) -> Option<Self> {
        if let Some(heaps) = Self::find(record, family) {
            return Some(heaps);
        }
        let layout = Layout::array::<ThreadHeap>(family.heaps()).ok()?;
        let first = raw::acquire(&Global, layout).ok()?.cast::<ThreadHeap>();
        // The global heap may be above this one, and have come here meanwhile.
        if let Some(heaps) = Self::find(record, family) {
            // SAFETY: just acquired with this layout.
            unsafe { raw::release(&Global, first.cast(), layout) };
            return Some(heaps);
        }
        for heap in 0..family.heaps() {
            let new = ThreadHeap::new(family.spec(heap), family.chunk_len(), family, record);
            // SAFETY: within the memory, which has room for so many.
            let place = unsafe { first.add(heap) };
            // SAFETY: as above, aligned for it, and the caller's alone.
            unsafe { place.write(new) };
        }
        // SAFETY: T1: just written, never freed.
        let heaps = unsafe { Self::new(first.as_ptr()) };
        heaps.first().later.set(record.shard().tables.get());
        record.shard().tables.publish(first.as_ptr());
        Some(heaps)
    }

    /// Gives back all empty units. Returns `false` if some stayed because a walker stood on them for long.
    ///
    /// # Safety
    /// The calling thread holds the record.
    pub(super) unsafe fn trim(self) -> bool {
        let mut all = true;
        for heap in self.all() {
            // SAFETY: the caller holds the record.
            all &= heap::trim(unsafe { Owner::new(heap) });
        }
        all
    }

    /// Whether somebody asked for a trim since the holder of this table was last asked.
    pub(super) fn trim_asked(self) -> bool {
        let first = self.first();
        first.family().epoch.turned(&first.epoch_seen)
    }

    /// What other threads gave back that is not booked yet.
    #[cfg(all(test, ephemera_loom))]
    pub(super) fn unbooked(self) -> usize {
        let mut sum = 0;
        self.all().for_each(|heap| _ = heap.heap.walk(|unit| sum += unit.unbooked()));
        sum
    }

    /// Adds what these heaps hold. `owned` says whether the calling thread holds the record, so that fronts can be counted.
    pub(super) fn gather(self, stats: &mut Stats, owned: bool) {
        let large = (stats.large_blocks, stats.large_bytes);
        (stats.large_blocks, stats.large_bytes) = self.first().tally.add_to(large);
        self.all().for_each(|heap| stats.add_heap(&heap.heap, owned));
    }
}
