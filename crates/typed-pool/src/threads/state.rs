//! The data that threads share (records, heaps and families), and `FamilyCell`, the thread-local
//! that leads a thread to its heaps.
//!
//! ```text
//!   FamilyCell --> ThreadHeap --> PoolRecord --> ThreadHeap ...     the tables of one record
//!                      '--------> Family     --> FamilyCell         of each thread
//! ```
//!
//! These types refer to each other, so one file defines all of them. The other files of `threads`
//! have the functions that use these types.

use core::alloc::Layout;
#[cfg(not(ephemera_loom))]
use core::cell::Cell;
use core::ptr;
#[cfg(not(ephemera_loom))]
use core::ptr::NonNull;

use crossbeam_utils::CachePadded;
use ephemera_prim::account::SharedAccount;
use ephemera_prim::epoch::Epoch;
use ephemera_prim::idle::Mail;
#[cfg(not(ephemera_loom))]
use ephemera_prim::idle::PushedBytes;
use ephemera_prim::pages::SpanCache;
use ephemera_prim::record::Record;
#[cfg(ephemera_loom)]
use ephemera_prim::record::Registry;
use ephemera_prim::sync::AtomicUsize;
use ephemera_prim::word::{OwnerPtr, OwnerU64, OwnerUsize};

use super::books::LargeTally;
use super::ledger::Ledger;
use crate::geometry::UnitSpec;
use crate::heap::selection::Selection;
use crate::heap::{ChunkLen, UnitHeap};
use crate::unit_header::SlotGroup;

/// This crate's data in a record: the tables, and the words that all of these tables share.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PoolRecord {
    /// The newest table, or null. Each table has a link to the table made before it.
    pub(super) tables: OwnerPtr<ThreadHeap>,
    /// The number of visits to the slow path by holders of the record.
    pub(super) visits: OwnerUsize,
    /// Not zero if a holder of the record may have left empty units, for example because a walker
    /// protected them. The next release of the record frees them.
    pub(super) leftovers: OwnerUsize,
    /// Whether the frees to the heaps of this record select their list without a branch.
    pub(super) selection: Selection,
    /// The number of walks over this record's heaps, for statistics, during which another thread
    /// held the record.
    pub(super) walks: AtomicUsize,
    /// The ledger of the scope that has this record, or null in a record for threads. Never changes
    /// after the record has been made.
    pub(super) ledger: OwnerPtr<Ledger>,
    /// The value of `table` in the holder's [`FamilyCell`] before the holder entered the scope of
    /// this record. If that value names a table, the holder also holds the table's record for as
    /// long as it holds this record.
    pub(super) outer: OwnerPtr<ThreadHeap>,
    /// Not zero from the end of the record's scope, or from a trim of the record's family, until a
    /// thread trims the record. A thread that holds the record when the mark is set trims the
    /// record at the release. Only records of scopes use this mark.
    pub(super) ended: AtomicUsize,
    /// Not zero if another thread pushed to a heap of this record since the last drain. Only
    /// records of scopes use this mark. With the mark, a thread that leaves a scope need not check
    /// each heap.
    pub(super) mailed: AtomicUsize,
    /// The freed spans that the record's thread keeps for its next large blocks of all families.
    /// The cache of a scope's record stays empty, because a thread in a scope uses the cache of its
    /// own record.
    pub(super) spans: SpanCache,
    /// The number of bytes that other threads have pushed to the heaps of this record. The pushing
    /// threads write this count, so it has its own cache line.
    #[cfg(not(ephemera_loom))]
    pub(super) pushed: CachePadded<PushedBytes>,
}

impl PoolRecord {
    ephemera_prim::const_unless_loom! {
        /// Creates the data of a record for threads, without tables.
        pub(crate) fn new() -> Self {
            Self {
                tables: OwnerPtr::null(),
                visits: OwnerUsize::new(0),
                leftovers: OwnerUsize::new(0),
                selection: Selection::new(),
                walks: AtomicUsize::new(0),
                ledger: OwnerPtr::null(),
                outer: OwnerPtr::null(),
                ended: AtomicUsize::new(0),
                mailed: AtomicUsize::new(0),
                spans: SpanCache::new(),
                #[cfg(not(ephemera_loom))]
                pushed: CachePadded::new(PushedBytes::new()),
            }
        }
    }

    /// Creates the data of a record for a scope, without tables.
    ///
    /// # Safety
    /// The ledger outlives the record (S1).
    pub(super) unsafe fn of_scope(ledger: *const Ledger) -> Self {
        Self { ledger: OwnerPtr::new(ledger.cast_mut()), ..Self::new() }
    }

    /// Returns the ledger of the scope that has this record, or `None` in a record for threads.
    #[inline]
    pub(super) fn ledger(&self) -> Option<&Ledger> {
        // SAFETY: S1: the ledger of a scope's record outlives the record.
        unsafe { self.ledger.get().as_ref() }
    }
}

// The size is a power of two so that a shift turns an index into an offset in the table.
#[cfg(all(target_arch = "x86_64", not(test), not(ephemera_loom)))]
const _: () = assert!(size_of::<ThreadHeap>().is_power_of_two());

/// One heap of a record, with its mail. The record's heaps of one family are adjacent and form a
/// table.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadHeap {
    pub(super) heap: UnitHeap,
    pub(super) family: *const Family,
    pub(super) record: *const Record<PoolRecord>,
    /// The total size of the slots of one group, in bytes. A push publishes remote frees of at most
    /// this size.
    pub(super) group_bytes: usize,
    /// The table of the same record that was made before this one. Only the first heap of a table
    /// uses it.
    pub(super) next: OwnerPtr<ThreadHeap>,
    /// The trim epoch that the table's holder last obeyed. Only the first heap of a table uses it.
    pub(super) epoch_seen: OwnerUsize,
    /// The value of the account's `spares` at the holder's last search for room in other tables, or
    /// zero before the first search and after a search without a limit. Only the first heap of a
    /// table uses it.
    pub(super) looked: OwnerUsize,
    /// The counts of the large blocks that the record's holders allocated and freed. Only the first
    /// heap of a table uses them.
    pub(super) tally: LargeTally,
    /// A bit for each heap of the table that may have had a unit. Only the first heap of a table
    /// uses it.
    pub(super) used: OwnerU64,
    /// The number of times that a thread leased the record to drain this heap.
    #[cfg(all(test, not(ephemera_loom)))]
    pub(super) drains: OwnerUsize,
    /// The unbooked remote frees. They have their own cache line, because other threads write these
    /// words while the owner allocates.
    pub(super) mail: CachePadded<HeapMail>,
}

// SAFETY: only the owner uses the cells (H1). There is one owner at a time, and the record's lease
// orders its accesses after the accesses of the previous owner (L2). Other threads only use atomics
// and fields that never change.
unsafe impl Sync for ThreadHeap {}

impl ThreadHeap {
    ephemera_prim::const_unless_loom! {
        pub(super) fn new(spec: UnitSpec, chunk_len: ChunkLen, family: *const Family, record: *const Record<PoolRecord>) -> Self {
            Self {
                heap: UnitHeap::new(spec, chunk_len),
                family,
                record,
                group_bytes: spec.group_bytes(),
                next: OwnerPtr::null(),
                epoch_seen: OwnerUsize::new(0),
                looked: OwnerUsize::new(0),
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

    /// Returns the ledger of the scope that has this heap, or `None` in a heap of a thread's own
    /// record.
    #[inline]
    pub(super) fn ledger(&self) -> Option<&Ledger> {
        self.record().data().ledger()
    }

    /// Returns whether a limit, or the figures of a scope, depend on the bytes that the heap holds.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.ledger().is_some() || self.family().account.is_limited()
    }
}

pub(super) type HeapMail = Mail<SlotGroup, ThreadHeap>;

/// A family: the pools of one type, or the size classes of one allocator, on all threads. All
/// threads share this state, which is a `static` outside of models.
///
/// Not public API: the macros expand to its name.
#[doc(hidden)]
#[derive(Debug)]
#[cfg_attr(ephemera_loom, expect(unreachable_pub, reason = "models have no macros that name it"))]
pub struct Family {
    pub(super) kind: FamilyKind,
    pub(super) chunk_len: ChunkLen,
    /// The bytes that the family holds, and the limit on them. The account has its own cache lines,
    /// because each thread that requests or frees units writes it.
    pub(super) account: CachePadded<SharedAccount>,
    pub(super) epoch: Epoch,
    /// The number of times that threads have searched for room outside their own tables.
    #[cfg(all(test, not(ephemera_loom)))]
    pub(super) looks: core::sync::atomic::AtomicUsize,
    /// The model's own registry, because loom has no statics.
    #[cfg(ephemera_loom)]
    pub(super) registry: *const Registry<PoolRecord>,
    /// Returns the calling thread's cell of this family.
    #[cfg(not(ephemera_loom))]
    pub(super) cell: fn() -> ThisCell,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum FamilyKind {
    /// Values of one layout.
    Type(Layout),
    /// Values of every layout that has a class.
    Classes,
}

#[cfg(ephemera_loom)]
// SAFETY: all fields but `registry` are `Sync`. `registry` points to a registry that is `Sync` and
// outlives the family.
unsafe impl Sync for Family {}
#[cfg(ephemera_loom)]
// SAFETY: no field belongs to a thread, and the registry outlives the family.
unsafe impl Send for Family {}

#[cfg(not(ephemera_loom))]
/// A family's thread-local: the pointers to the heaps from which the thread allocates.
///
/// Not public API: the macros expand to its name.
///
/// # Invariant
/// **T2** `table` is null, or points to the family's table on a record that the thread holds: its
/// own record, or the record of the scope that it entered last. If that scope counts, bit 0 of
/// `table` is set. `heaps` equals `table`, except if `table` is null or has the bit: then `heaps`
/// points to the heaps of threads that own nothing. In a counting scope, each allocation and each
/// free therefore takes a path that counts.
#[doc(hidden)]
#[derive(Debug)]
pub struct FamilyCell {
    pub(super) heaps: Cell<*const ThreadHeap>,
    pub(super) table: Cell<*const ThreadHeap>,
    /// A scope's record that the thread leased earlier, or null. If the thread enters that scope
    /// again while the first record is held, it tries to lease this record. The thread's own blocks
    /// are in the units of this record.
    pub(super) last: Cell<*const Record<PoolRecord>>,
}

/// A pointer to the calling thread's [`FamilyCell`].
///
/// Not public API: the macros expand to its name.
///
/// # Invariant
/// **T3** The pointer points to the cell of the thread that uses the pointer, or is `None` if that
/// cell is destroyed. No function keeps the pointer after its call.
#[cfg(not(ephemera_loom))]
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct ThisCell(pub(super) Option<NonNull<FamilyCell>>);
