//! The heaps of scopes: how a scope obtains and leaves them, and how a thread leases one of their
//! records.
//!
//! ```text
//!   ScopeHeaps --> ledger                       used by one scope at a time
//!        '-------> record --> record --> ...    each leased by one thread at a time
//! ```
//!
//! A thread that enters a scope leases one of the scope's records and stores that record's table in
//! the thread-local of `PooledAllocator`. When the thread leaves the scope, it restores the former
//! table and releases the lease. Unless the scope counts, the fast path is therefore the same as
//! outside of scopes. A block of a scope is an ordinary block.
//!
//! Heaps of scopes are never freed. When a scope ends, its heaps go to a pool, together with the
//! units that blocks of the scope still pin. The next scope on these heaps, unless it counts,
//! allocates from the free slots of those units. Each thread uses one of the pool's 64 places, so a
//! scope usually gets the heaps that its thread used last.

use core::iter;
use core::ptr;

use crossbeam_utils::CachePadded;
use ephemera_prim::pages::{self, permanent_value};
use ephemera_prim::record::{Lease, Record};
use ephemera_prim::sync::AtomicPtr;

use super::ledger::Ledger;
use super::pooled::{pooled_cell, pooled_family};
use super::state::{Family, PoolRecord};
use super::unused::{ListedItem, Listing, UnusedList, UnusedPlace, Users, add_to, follow};
use super::{lease_end, this_thread};
use crate::heap::supply::LeftUnits;

/// The ledger and the records of one scope at a time. The records have the scope's heaps.
///
/// # Invariant
/// **S1** These heaps and their records are permanent memory, and all of the records name this
/// ledger.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ScopeHeaps {
    pub(super) ledger: Ledger,
    records: AtomicPtr<ScopeRecord>,
    /// The number of `ScopeRef`s to the current scope.
    pub(super) users: Users,
    /// The next item of the list [`ALL`].
    next: AtomicPtr<ScopeHeaps>,
    listing: Listing<ScopeHeaps>,
}

/// A record of a scope, with its link in the scope's list of records. The record is not in a
/// registry, so no thread takes it as its own.
#[derive(Debug)]
#[repr(C)]
struct ScopeRecord {
    record: Record<PoolRecord>,
    next: AtomicPtr<ScopeRecord>,
}

/// The list of all heaps of scopes, the newest first.
static ALL: AtomicPtr<ScopeHeaps> = AtomicPtr::new(ptr::null_mut());

/// The number of places for unused heaps.
const PLACES: usize = 64;

/// The places for unused heaps. A hash of the address of a thread's cell selects the thread's
/// place.
static PLACE: [CachePadded<UnusedPlace<ScopeHeaps>>; PLACES] =
    [const { CachePadded::new(UnusedPlace::new()) }; PLACES];

/// The unused heaps that are in no place: the heaps of ordinary scopes, and the heaps of counting
/// scopes.
pub(super) static UNUSED: [UnusedList<ScopeHeaps>; 2] = [UnusedList::new(), UnusedList::new()];

/// The number of scopes that must end on the same heaps before these heaps keep units for the next
/// scope.
const STREAK: usize = if cfg!(miri) { 4 } else { 256 };

/// The interval, in scopes on the same heaps, at which a scope frees the kept units that it did not
/// use. The other scopes leave these units, because not every scope of a program uses the same
/// classes.
const UNUSED_EVERY: u64 = 16;

/// The maximum total size, in bytes, of the units that the heaps in a thread's place keep. Heaps of
/// small classes keep their units first.
const KEPT_BYTES: usize = 2 << 20;

/// The number of times that a thread waits for a record before it makes another one. A wait costs
/// little compared with the table of a new record.
const WAITS: usize = if cfg!(miri) { 2 } else { 50 };

/// Returns the records of all scopes if `family` is the family of `PooledAllocator`. Returns no
/// records for any other family, because scopes have no heaps of it.
pub(super) fn records_of(family: &Family) -> impl Iterator<Item = &'static Record<PoolRecord>> + use<> {
    let first = if ptr::eq(family, pooled_family()) { follow(&ALL) } else { None };
    iter::successors(first, |heaps| follow(&heaps.next)).flat_map(ScopeHeaps::records)
}

fn place() -> &'static UnusedPlace<ScopeHeaps> {
    let thread = pooled_cell().addr() as u64;
    let hash = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    &PLACE[hash as usize % PLACES]
}

/// Frees the units that the heaps in the calling thread's place keep for the thread's next scope.
/// Moves the heaps to the list of unused heaps if the thread `ends`, or if another thread has
/// filled the place again.
pub(super) fn trim_place(ends: bool) {
    if let Some(heaps) = place().take() {
        heaps.free_kept_units();
        if ends || !place().put(heaps) {
            UNUSED[0].put(heaps);
        }
    }
}

impl ListedItem for ScopeHeaps {
    fn listing(&self) -> &Listing<Self> {
        &self.listing
    }
}

impl ScopeHeaps {
    /// Takes unused heaps. Returns `None` if it finds none.
    pub(super) fn take_unused(counting: bool) -> Option<&'static Self> {
        if counting {
            return UNUSED[1].take();
        }
        // The search includes the places of other threads, because those threads may never start
        // another scope.
        let full = |place: &&CachePadded<UnusedPlace<Self>>| !place.is_empty();
        let of_others = || PLACE.iter().filter(full).find_map(|place| place.take());
        place().take().or_else(|| UNUSED[0].take()).or_else(of_others)
    }

    #[cold]
    pub(super) fn make(counting: bool) -> Option<&'static Self> {
        // This call registers the fork handler. Through the handler, a forked child recognises a
        // gate that another thread of its parent held.
        let _ = ephemera_prim::fork::generation();
        let heaps = permanent_value(Self {
            ledger: Ledger::new(counting),
            records: AtomicPtr::new(ptr::null_mut()),
            users: Users::new(),
            next: AtomicPtr::new(ptr::null_mut()),
            listing: Listing::new(),
        })?;
        add_to(&ALL, heaps, &heaps.next);
        Some(heaps)
    }

    pub(super) fn records(&'static self) -> impl Iterator<Item = &'static Record<PoolRecord>> {
        let first = follow(&self.records);
        iter::successors(first, |record| follow(&record.next)).map(|record| &record.record)
    }

    /// Leases a record that no thread holds. If threads hold all records, waits briefly for one,
    /// and then makes another record, which is never freed. Returns `None` if there is no memory
    /// for the new record.
    pub(super) fn lease(&'static self) -> Option<Lease<'static, PoolRecord>> {
        self.lease_or_wait(core::hint::spin_loop)
    }

    /// Leases the first record. Returns `None` if a thread holds it, or if there is no record yet.
    #[inline]
    pub(super) fn lease_first(&'static self) -> Option<Lease<'static, PoolRecord>> {
        follow(&self.records)?.record.try_lease()
    }

    /// Leases a record like [`lease`](Self::lease), and calls `wait` between tries. A short wait
    /// often suffices, because threads that drain a record or read its statistics soon release it.
    pub(super) fn lease_or_wait(&'static self, mut wait: impl FnMut()) -> Option<Lease<'static, PoolRecord>> {
        let after_wait = || {
            // A scope without a record has nothing to wait for.
            follow(&self.records)?;
            (0..WAITS).find_map(|_| {
                wait();
                self.try_lease()
            })
        };
        self.try_lease().or_else(after_wait).or_else(|| self.add())
    }

    /// Leases the first record if no thread holds it. Otherwise tries the record that this thread
    /// remembers, then all others. Returns `None` if threads hold all of them. A thread usually
    /// tries at most two records, even if many threads are in the scope.
    fn try_lease(&'static self) -> Option<Lease<'static, PoolRecord>> {
        let (cell, ledger) = (pooled_cell(), &raw const self.ledger);
        let is_of_scope = |record: &&Record<PoolRecord>| ptr::eq(record.data().ledger.get(), ledger);
        let remembered = || cell.last().filter(is_of_scope).and_then(Record::try_lease);
        let any_other = || {
            let lease = self.records().skip(1).find_map(Record::try_lease)?;
            cell.remember(lease.record());
            Some(lease)
        };
        self.lease_first().or_else(remembered).or_else(any_other)
    }

    #[cold]
    fn add(&'static self) -> Option<Lease<'static, PoolRecord>> {
        // SAFETY: S1: the ledger is permanent.
        let record = Record::new(unsafe { PoolRecord::of_scope(&raw const self.ledger) });
        let new = permanent_value(ScopeRecord { record, next: AtomicPtr::new(ptr::null_mut()) })?;
        let lease = new.record.try_lease();
        pooled_cell().remember(&new.record);
        // The new record follows the first record in the list, so threads still prefer the first
        // one, which usually has the most units.
        let list = follow(&self.records).map_or(&self.records, |first| &first.next);
        add_to(list, new, &new.next);
        lease
    }

    /// Ends the scope: frees its empty units, calls `read` with the ledger, and puts the heaps into
    /// the pool. After a burst, also purges freed pages of the cache. Returns the result of `read`.
    ///
    /// The heaps keep up to `KEPT_BYTES` of units for the next scope under three conditions: many
    /// scopes have ended on them, the scope does not count, and the thread has a record and an
    /// empty place. `aside` says whether these heaps also set their fronts aside.
    pub(super) fn end<R>(&'static self, aside: bool, read: impl FnOnce(&Ledger) -> R) -> R {
        let counting = self.ledger.is_counting();
        // The exit hook of a thread frees the units that the heaps in its place keep. A thread
        // without a record has no such hook, so its heaps do not keep any units.
        let is_bound = this_thread::record().is_some();
        let keeps = !counting && is_bound && self.ledger.note_end(STREAK) && place().is_empty();
        let keeps = keeps && !weakened!("scopes_keep_no_units");
        if keeps {
            let stays = weakened!("units_that_no_scope_uses_stay");
            let units = LeftUnits { aside, unused: self.ledger.birth() % UNUSED_EVERY != 0 || stays };
            let end = |left, record| lease_end::end_scope_keeping(record, left, units);
            self.records().fold(KEPT_BYTES, end);
        } else {
            self.records().for_each(lease_end::end_scope);
        }
        if let Some(bytes) = self.ledger.note_peak() {
            pages::shed(bytes);
        }
        let result = read(&self.ledger);
        if counting || !place().put(self) {
            if keeps {
                self.free_kept_units();
            }
            UNUSED[usize::from(counting)].put(self);
        }
        result
    }

    /// Frees the units that ended scopes left for the next scope, and resets the count of ended
    /// scopes.
    fn free_kept_units(&'static self) {
        self.ledger.forget_streak();
        self.records().for_each(lease_end::end_scope);
    }
}
