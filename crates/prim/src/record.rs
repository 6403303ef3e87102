//! Records, the identities of threads. Each unit of memory names the record that it belongs to.
//!
//! A *record* is never freed, so a unit can name the same record for its whole life. Threads lease
//! a record one after another. The thread that has the lease is the *holder*. The record's *data*
//! is the state that the allocator keeps for one thread, such as its fronts and lists. The next
//! holder receives the data unchanged: no thread merges, rewrites or scans it.
//!
//! The address of a thread-local or the index of a thread cannot serve as this identity. A later
//! thread may reuse either, so a unit of an ended thread would seem to belong to a running one.
//!
//! A lease is only a token: it gives access to the same `&S` that [`Record::data`] returns to any
//! thread. Leases are therefore sound in safe code, even in code that sends a lease to another
//! thread, forgets it, or leases every record. The unsafe code of the crate that defines `S` relies
//! on L1, and upholds L1 by keeping `S` and the registry private.
//!
//! The design page lists the invariants L1 to L4.

use crate::pages::{PermanentLink, permanent_value};
use crate::sync::{AtomicUsize, Ordering, fence};

/// The lease word of a record that no thread holds.
const FREE: usize = 0;
/// The lease word of a record whose holder has not bound it.
const HELD: usize = 1;
/// The lease word of a record whose holder has bound it by [`Lease::bind`].
const BOUND: usize = 2;

// ORDERING: Acquire. Pairs with the Release in `Lease::drop`: the new holder sees the last holder's
// writes (L2).
ordering!(lease_order = Acquire, Relaxed if "lease_relaxed");
// ORDERING: Release. Pairs with the Acquire in `Record::try_lease`. Publishes: all writes of this
// holder (L2).
ordering!(release_order = Release, Relaxed if "release_relaxed");

/// The identity under which an allocator keeps a thread's memory, with the allocator's data.
#[derive(Debug)]
#[repr(C)]
pub struct Record<S> {
    data: S,
    lease: AtomicUsize,
    /// The link of the list of added records: the record that was added before this one.
    later: PermanentLink<Record<S>>,
}

impl<S> Record<S> {
    crate::const_unless_loom! {
        /// Creates a record that no thread holds.
        pub fn new(data: S) -> Self {
            Self { data, lease: AtomicUsize::new(FREE), later: PermanentLink::new() }
        }
    }

    /// Returns the data. Only the holder of the lease writes the owner's words in it (L1).
    #[inline]
    pub fn data(&self) -> &S {
        &self.data
    }

    /// Returns whether no thread holds the lease. The answer may be out of date.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.lease.load(Ordering::Relaxed) == FREE
    }

    /// Returns whether a thread has bound the record. The answer may be out of date.
    #[inline]
    pub fn is_bound(&self) -> bool {
        self.lease.load(Ordering::Relaxed) == BOUND
    }

    /// Takes the lease. Returns `None` if a thread holds it.
    #[inline]
    pub fn try_lease(&self) -> Option<Lease<'_, S>> {
        // ORDERING: `lease_order`. Pairs with `Lease::drop`.
        let taken = self.is_free()
            && self.lease.compare_exchange(FREE, HELD, lease_order(), Ordering::Relaxed).is_ok();
        taken.then(|| Lease { record: self })
    }

    /// Drains this record until its inboxes are empty or another thread holds the lease. A thread
    /// that pushed to a record without a holder must call this, unless the pushed units may wait
    /// for the next holder. The arguments are the same as for [`Lease::release`], which explains
    /// why the number of rounds is bounded.
    #[cold]
    #[inline(never)]
    pub fn look_after<'r>(&'r self, has_mail: impl Fn(&S) -> bool, drain: impl Fn(&'r Self)) {
        while let Some(lease) = self.try_lease() {
            drain(self);
            drop(lease);
            if !self.needs_drain(&has_mail) {
                return;
            }
        }
    }

    /// Returns whether this thread must drain the inboxes again after it released the lease.
    #[inline]
    fn needs_drain(&self, has_mail: impl Fn(&S) -> bool) -> bool {
        if !weakened!("release_without_fence") {
            // ORDERING: SeqCst fence. Pairs with the fences in `Inbox::push` and
            // `LentUnits::put_back`: either this thread sees the push, or the pusher sees that the
            // record is free.
            fence(Ordering::SeqCst);
        }
        !weakened!("release_without_a_look") && has_mail(&self.data)
    }

    /// Returns the lease that this thread has held since [`Lease::bind`]. Dropping the result
    /// releases the lease.
    ///
    /// # Safety
    /// This thread holds the lease by [`Lease::bind`], and does not use it after the result is
    /// dropped.
    #[inline]
    pub unsafe fn bound(&self) -> Lease<'_, S> {
        Lease { record: self }
    }
}

/// The right to write the owner's words of a record. Dropping a lease releases the record without a
/// check of the inboxes, so the holder of a record with inboxes must call [`Lease::release`]
/// instead.
#[derive(Debug)]
pub struct Lease<'r, S> {
    record: &'r Record<S>,
}

impl<'r, S> Lease<'r, S> {
    /// Returns the leased record.
    #[inline]
    pub fn record(&self) -> &'r Record<S> {
        self.record
    }

    /// Releases the lease, then drains the remote frees that other threads pushed while it was
    /// held.
    ///
    /// A thread that pushes to a held record leaves the inbox to the holder, so the holder must
    /// check the inboxes once more after the release. If the lease is merely dropped, units may
    /// stay in the inboxes. `has_mail` returns whether any inbox of the record holds a unit, or
    /// another thread has left other work to the holder. `drain` does this work and empties all
    /// inboxes, while this thread holds the lease.
    ///
    /// Returns when the inboxes are empty, or when another thread holds the lease and drains them
    /// at its own release. The number of rounds is bounded. Each further round drains a push that
    /// another thread made during the previous round, and each push frees at least one byte of a
    /// live block. No thread allocates from a record without a holder, so there are at most as many
    /// rounds as bytes that were live at the call.
    #[inline]
    pub fn release(self, has_mail: impl Fn(&S) -> bool, drain: impl Fn(&'r Record<S>)) {
        let record = self.record;
        drop(self);
        if record.needs_drain(&has_mail) {
            record.look_after(has_mail, drain);
        }
    }

    /// Binds the record: the thread keeps the lease. [`Record::bound`] returns the lease again.
    #[inline]
    #[must_use = "a bound lease is released only through `Record::bound`"]
    pub fn bind(self) -> &'r Record<S> {
        let record = core::mem::ManuallyDrop::new(self).record;
        record.lease.store(BOUND, Ordering::Relaxed);
        record
    }
}

impl<S> Drop for Lease<'_, S> {
    #[inline]
    fn drop(&mut self) {
        // ORDERING: `release_order`. Pairs with `Record::try_lease`.
        self.record.lease.store(FREE, release_order());
    }
}

/// The number of static records. If all of them are held, the registry adds records, which it never
/// frees. Under Miri there are fewer static records, because a trim visits all of them.
pub const FIRST: usize = if cfg!(ephemera_loom) {
    2
} else if cfg!(miri) {
    4
} else {
    64
};

/// All records of one allocator.
///
/// Keep the registry in a `static`: a move would change the addresses by which units name records
/// (L3).
#[derive(Debug)]
pub struct Registry<S: 'static> {
    first: [Record<S>; FIRST],
    /// The record that was added last.
    later: PermanentLink<Record<S>>,
    /// Creates the data of an added record.
    make: fn() -> S,
}

impl<S> Registry<S> {
    crate::const_unless_loom! {
        /// Creates a registry of the records in `first`. `make` creates the data of records that
        /// are added later.
        pub fn new(first: [Record<S>; FIRST], make: fn() -> S) -> Self {
            Self { first, later: PermanentLink::new(), make }
        }
    }

    /// Returns all records, held or not.
    pub fn records(&self) -> impl Iterator<Item = &Record<S>> {
        self.first.iter().chain(self.later.list(|record| &record.later))
    }

    /// Returns the number of records that were added to the static ones.
    pub fn later_records(&self) -> usize {
        self.records().count() - FIRST
    }

    /// Leases a record that no thread holds. Returns `None` if all records are held.
    pub fn lease_free(&self) -> Option<Lease<'_, S>> {
        self.records().find_map(Record::try_lease)
    }

    /// Leases a record that no thread holds, or adds a record and leases it. Returns `None` if
    /// there is no memory for a new record.
    ///
    /// The memory of an added record comes from [`pages::permanent`](fn@crate::pages::permanent).
    pub fn lease_any(&self) -> Option<Lease<'_, S>> {
        self.lease_free().or_else(|| self.add())
    }

    /// Adds a record that the caller holds, and returns its lease. Returns `None` if there is no
    /// memory.
    #[cold]
    fn add(&self) -> Option<Lease<'_, S>> {
        // Create the data before the allocation, because `make` belongs to the tenant and may
        // unwind.
        let record = Record::new((self.make)());
        record.lease.store(HELD, Ordering::Relaxed);
        let record = permanent_value(record)?;
        self.later.push(record, &record.later);
        Some(Lease { record })
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use super::{FIRST, Lease, Record, Registry};
    use crate::word::OwnerUsize;

    type Words = Registry<OwnerUsize>;

    const fn registry() -> Words {
        Registry::new([const { Record::new(OwnerUsize::new(0)) }; FIRST], made)
    }

    fn made() -> OwnerUsize {
        OwnerUsize::new(7)
    }

    fn addr(lease: &Lease<'_, OwnerUsize>) -> usize {
        core::ptr::from_ref(lease.record()).addr()
    }

    #[test]
    fn record_has_one_lease_until_it_is_dropped() {
        let record = Record::new(made());
        assert!(record.is_free());
        let lease = record.try_lease().unwrap();
        assert!(!record.is_free());
        // A failed attempt neither takes nor releases the lease.
        assert!(record.try_lease().is_none());
        assert!(record.try_lease().is_none() && !record.is_free());
        assert_eq!(lease.record().data().add(1), 8);
        drop(lease);
        assert!(record.is_free());
        assert_eq!(record.try_lease().unwrap().record().data().get(), 8);
    }

    #[test]
    fn bound_lease_is_held_until_it_is_released() {
        let record = Record::new(made());
        let lease = record.try_lease().unwrap();
        assert!(!record.is_bound());
        let bound = lease.bind();
        assert!(record.is_bound());
        assert!(core::ptr::eq(bound, &raw const record));
        assert!(record.try_lease().is_none());
        // SAFETY: this thread holds the lease by `Lease::bind`, and does not use it after the drop.
        drop(unsafe { record.bound() });
        assert!(record.is_free());
        assert!(!record.is_bound());
    }

    #[test]
    fn records_are_added_when_all_are_held_and_then_reused() {
        static RECORDS: Words = registry();
        let leases: Vec<_> = (0..FIRST + 3).map(|_| RECORDS.lease_any().unwrap()).collect();
        let different: BTreeSet<_> = leases.iter().map(addr).collect();
        assert_eq!(different.len(), FIRST + 3);
        assert_eq!(RECORDS.later_records(), 3);
        assert_eq!(RECORDS.records().count(), FIRST + 3);
        assert_eq!(RECORDS.records().filter(|record| record.data().get() == 7).count(), 3);
        assert!(RECORDS.lease_free().is_none());
        drop(leases);
        assert!(RECORDS.records().all(Record::is_free));
        // The next leases reuse the added records.
        let again: Vec<_> = (0..FIRST + 3).map(|_| RECORDS.lease_any().unwrap()).collect();
        assert_eq!((RECORDS.later_records(), again.len()), (3, FIRST + 3));
    }

    #[test]
    fn panic_in_make_leaves_the_registry_unchanged() {
        fn never() -> OwnerUsize {
            std::panic::resume_unwind(alloc::boxed::Box::new("no data"))
        }
        static RECORDS: Words = Registry::new([const { Record::new(OwnerUsize::new(0)) }; FIRST], never);
        let leases: Vec<_> = core::iter::from_fn(|| RECORDS.lease_free()).collect();
        assert_eq!(leases.len(), FIRST);
        assert!(std::panic::catch_unwind(|| drop(RECORDS.lease_any())).is_err());
        assert_eq!(RECORDS.later_records(), 0);
        drop(leases);
        assert!(RECORDS.lease_any().is_some());
    }

    #[test]
    fn conc_each_record_has_one_holder() {
        const THREADS: usize = 4;
        const ROUNDS: usize = if cfg!(miri) { 4 } else { 2_000 };
        static RECORDS: Words = registry();
        // Hold all static records but two, so that the threads compete for these two and may add
        // records.
        let held: Vec<_> = (0..FIRST - 2).map(|_| RECORDS.lease_any().unwrap()).collect();
        let visits = |_| {
            std::thread::spawn(|| {
                for _ in 0..ROUNDS {
                    let lease = RECORDS.lease_any().unwrap();
                    let word = lease.record().data();
                    let before = word.add(1);
                    std::thread::yield_now();
                    assert_eq!(word.add(1), before + 1, "another thread wrote to a leased record");
                }
            })
        };
        let threads: Vec<_> = (0..THREADS).map(visits).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        drop(held);
        assert!(RECORDS.later_records() <= THREADS - 2);
        let sum: usize = RECORDS.records().map(|record| record.data().get()).sum();
        assert_eq!(sum - 7 * RECORDS.later_records(), 2 * THREADS * ROUNDS);
    }
}
