//! Records: the identity of a thread, as far as memory is concerned.
//!
//! A thread's own identity will not do: the address of a thread-local and the index of a thread are used
//! again by the next thread, and a unit that names a dead thread would name a living one. A record is
//! never freed, so that a unit names its record once and for ever; *who* the record stands for changes
//! with its lease. All that hangs on a record (its shard) passes to the next holder as it is: nothing is
//! merged, rewritten or scanned.
//!
//! A lease is a token and no more: it hands out the same `&S` that everybody gets, and what the owner's words
//! mean is known only to the crate that `S` is from. So nothing that safe code does with leases (sending one
//! to another thread, forgetting one, leasing every record there is) is unsound by itself; L1 is what that
//! crate's own unsafe code rests on, and it keeps the promise by keeping `S` and its registry to itself.
//!
//! The crate's design has the invariants L1 to L3.

use core::ptr;

use crate::sync::{AtomicPtr, AtomicUsize, Ordering, fence};

const FREE: usize = 0;
const HELD: usize = 1;

// ORDERING: Acquire. Pairs with the Release in `Lease::drop`: the new holder sees what the last one wrote (L2).
const LEASE: Ordering =
    if cfg!(ephemera_weaken = "lease_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
// ORDERING: Release. Pairs with the Acquire in `Record::try_lease`. Publishes: all that this holder wrote (L2).
const RELEASE: Ordering =
    if cfg!(ephemera_weaken = "release_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Release. Pairs with the Acquire in `Registry::records`. Publishes: the new record.
#[cfg(feature = "alloc")]
const ADD: Ordering =
    if cfg!(ephemera_weaken = "add_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `Registry::add`: records are seen as they were made, also the earlier
// ones, since each exchange goes on the release sequences of those before it.
const LOOK: Ordering =
    if cfg!(ephemera_weaken = "records_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

/// A thread's identity, and what hangs on it.
#[derive(Debug)]
#[repr(C)]
pub struct Record<S> {
    shard: S,
    lease: AtomicUsize,
    later: AtomicPtr<Record<S>>,
}

impl<S> Record<S> {
    crate::const_unless_loom! {
        /// A record that nobody holds.
        pub fn new(shard: S) -> Self {
            Self { shard, lease: AtomicUsize::new(FREE), later: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// What hangs on this record. Only the holder of the lease writes to the owner's words in it (L1).
    #[inline]
    pub fn shard(&self) -> &S {
        &self.shard
    }

    /// Whether nobody holds the lease, as far as this thread has seen.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.lease.load(Ordering::Relaxed) == FREE
    }

    /// Takes the lease, if nobody has it.
    #[inline]
    pub fn try_lease(&self) -> Option<Lease<'_, S>> {
        // ORDERING: `LEASE`. Pairs with `Lease::drop`.
        let taken =
            self.is_free() && self.lease.compare_exchange(FREE, HELD, LEASE, Ordering::Relaxed).is_ok();
        taken.then(|| Lease { record: self })
    }

    /// Drains the inboxes of this record, if no thread holds it: what a thread does that pushed to a record without a
    /// holder. Arguments are those of [`Lease::release`].
    #[cold]
    #[inline(never)]
    pub fn look_after<'r>(&'r self, has_mail: impl Fn(&S) -> bool, drain: impl Fn(&'r Self)) {
        if let Some(lease) = self.try_lease() {
            drain(self);
            lease.release(has_mail, drain);
        }
    }

    /// The lease that the caller's thread keeps since [`Lease::bind`], so that dropping it gives it up.
    ///
    /// # Safety
    /// This thread holds the lease, bound, and treats it as given up once the result is dropped.
    #[inline]
    pub unsafe fn bound(&self) -> Lease<'_, S> {
        Lease { record: self }
    }
}

/// The right to write the owner's words of a record. Dropping it gives the right up; [`Lease::release`] also drains the
/// inboxes behind that, and is the way to end a lease of a record that has any.
#[derive(Debug)]
pub struct Lease<'r, S> {
    record: &'r Record<S>,
}

impl<'r, S> Lease<'r, S> {
    /// The record that this is the lease of.
    #[inline]
    #[must_use]
    pub fn record(&self) -> &'r Record<S> {
        self.record
    }

    /// Releases the lease, then drains the remote frees that other threads pushed while it was held.
    ///
    /// A thread that pushes to a record and sees a holder leaves the inbox to that holder. So a holder that gives up its
    /// lease looks once more, and a dropped lease that was not released may leave memory behind. `has_mail` says whether
    /// any inbox of the shard holds a unit. `drain` empties them; the caller holds the lease while it runs.
    ///
    /// Returns when the inboxes are empty, or when another thread holds the lease: that thread looks when it releases it.
    /// Each further round drains at least one push that another thread made during the round before, and a record without
    /// a holder hands out no blocks, so the blocks that were live at the call bound the rounds.
    pub fn release(self, has_mail: impl Fn(&S) -> bool, drain: impl Fn(&'r Record<S>)) {
        let record = self.record;
        drop(self);
        loop {
            if !cfg!(ephemera_weaken = "release_without_fence") {
                // ORDERING: SeqCst fence. Pairs with the one in `Inbox::push`: either this thread sees the push, or the
                // pusher sees that the record is free.
                fence(Ordering::SeqCst);
            }
            if cfg!(ephemera_weaken = "release_without_a_look") || !has_mail(&record.shard) {
                return;
            }
            let Some(lease) = record.try_lease() else { return };
            drain(record);
            drop(lease);
        }
    }

    /// Keeps the lease with the thread instead of with a value: [`Record::bound`] takes it up again.
    #[inline]
    #[must_use = "a bound lease that nobody takes up again is never given up"]
    pub fn bind(self) -> &'r Record<S> {
        core::mem::ManuallyDrop::new(self).record
    }
}

impl<S> Drop for Lease<'_, S> {
    #[inline]
    fn drop(&mut self) {
        // ORDERING: `RELEASE`. Pairs with `Record::try_lease`.
        self.record.lease.store(FREE, RELEASE);
    }
}

/// How many records are static; more threads than this at one time get records that are allocated, once, for ever.
/// Fewer where a step is dear: Miri walks along all of them in every test that cleans up.
pub const FIRST: usize = if cfg!(ephemera_loom) {
    2
} else if cfg!(miri) {
    4
} else {
    64
};

/// All records of one kind of shard.
///
/// Units name their record by its address, so keep it in a `static`: moved, its records would move with it (L3).
#[derive(Debug)]
pub struct Registry<S: 'static> {
    first: [Record<S>; FIRST],
    later: AtomicPtr<Record<S>>,
    /// Makes the shard of a later record.
    #[cfg_attr(
        not(feature = "alloc"),
        expect(dead_code, reason = "without a heap there are no later records")
    )]
    make: fn() -> S,
}

impl<S> Registry<S> {
    crate::const_unless_loom! {
        /// A registry of these records; `make` is for the shards of those that come later.
        pub fn new(first: [Record<S>; FIRST], make: fn() -> S) -> Self {
            Self { first, later: AtomicPtr::new(ptr::null_mut()), make }
        }
    }

    /// All records, held or not.
    pub fn records(&self) -> impl Iterator<Item = &Record<S>> {
        // ORDERING: `LOOK`. Pairs with `Registry::add`.
        let mut later = self.later.load(LOOK);
        let chain = core::iter::from_fn(move || {
            // SAFETY: a pointer in the chain is null or that of a record, which is never freed (L3).
            let record = unsafe { later.as_ref() }?;
            later = record.later.load(Ordering::Relaxed);
            Some(record)
        });
        self.first.iter().chain(chain)
    }

    /// How many records were allocated beyond the static ones. They are never freed.
    pub fn later_records(&self) -> usize {
        self.records().count() - FIRST
    }

    /// The lease of some free record.
    pub fn lease_free(&self) -> Option<Lease<'_, S>> {
        self.records().find_map(Record::try_lease)
    }

    /// The lease of some free record, or of one made for this call. `None` when there is no memory for it.
    ///
    /// A later record comes from the global heap: an allocator that *is* the global heap must take one with
    /// [`Registry::lease_free`], and refuse where there is none.
    pub fn lease_any(&self) -> Option<Lease<'_, S>> {
        self.lease_free().or_else(|| self.add())
    }

    #[cfg(not(feature = "alloc"))]
    fn add(&self) -> Option<Lease<'_, S>> {
        None
    }

    /// Makes a record, already leased to the caller.
    #[cfg(feature = "alloc")]
    #[cold]
    fn add(&self) -> Option<Lease<'_, S>> {
        // Made before there is memory for it: `make` is not ours, and may unwind.
        let record = Record::new((self.make)());
        let layout = core::alloc::Layout::new::<Record<S>>();
        let place = crate::raw::acquire(&allocator_api2::alloc::Global, layout).ok()?.cast::<Record<S>>();
        record.lease.store(HELD, Ordering::Relaxed);
        record.later.store(crate::sync::guess(&self.later), Ordering::Relaxed);
        // SAFETY: `place` is fresh memory of this layout.
        unsafe { place.write(record) };
        // SAFETY: just written, never freed (L3).
        let record = unsafe { place.as_ref() };
        loop {
            let head = record.later.load(Ordering::Relaxed);
            // ORDERING: `ADD`. Pairs with `Registry::records`.
            match self.later.compare_exchange_weak(head, place.as_ptr(), ADD, Ordering::Relaxed) {
                Ok(_) => return Some(Lease { record }),
                Err(now) => record.later.store(now, Ordering::Relaxed),
            }
        }
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
    fn a_record_has_one_lease_until_it_is_dropped() {
        let record = Record::new(made());
        assert!(record.is_free());
        let lease = record.try_lease().unwrap();
        assert!(!record.is_free());
        // A try in vain takes nothing and gives nothing up.
        assert!(record.try_lease().is_none());
        assert!(record.try_lease().is_none() && !record.is_free());
        assert_eq!(lease.record().shard().add(1), 8);
        drop(lease);
        assert!(record.is_free());
        assert_eq!(record.try_lease().unwrap().record().shard().get(), 8);
    }

    #[test]
    fn a_bound_lease_is_kept_until_it_is_taken_up() {
        let record = Record::new(made());
        let bound = record.try_lease().unwrap().bind();
        assert!(core::ptr::eq(bound, &raw const record));
        assert!(record.try_lease().is_none());
        // SAFETY: bound two lines above, by this thread.
        drop(unsafe { record.bound() });
        assert!(record.is_free());
    }

    #[test]
    fn more_leases_than_records_make_later_ones_once() {
        static RECORDS: Words = registry();
        let leases: Vec<_> = (0..FIRST + 3).map(|_| RECORDS.lease_any().unwrap()).collect();
        let different: BTreeSet<_> = leases.iter().map(addr).collect();
        assert_eq!(different.len(), FIRST + 3);
        assert_eq!(RECORDS.later_records(), 3);
        assert_eq!(RECORDS.records().count(), FIRST + 3);
        assert_eq!(RECORDS.records().filter(|record| record.shard().get() == 7).count(), 3);
        assert!(RECORDS.lease_free().is_none());
        drop(leases);
        assert!(RECORDS.records().all(Record::is_free));
        // The next ones take what is there.
        let again: Vec<_> = (0..FIRST + 3).map(|_| RECORDS.lease_any().unwrap()).collect();
        assert_eq!((RECORDS.later_records(), again.len()), (3, FIRST + 3));
    }

    #[test]
    fn a_shard_that_cannot_be_made_leaves_the_registry_as_it_was() {
        fn never() -> OwnerUsize {
            std::panic::resume_unwind(alloc::boxed::Box::new("no shard"))
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
    fn conc_records_are_held_by_one_thread_each() {
        const THREADS: usize = 4;
        const ROUNDS: usize = if cfg!(miri) { 4 } else { 2_000 };
        static RECORDS: Words = registry();
        // All but two, so that the threads get in each other's way and some add.
        let held: Vec<_> = (0..FIRST - 2).map(|_| RECORDS.lease_any().unwrap()).collect();
        let visits = |_| {
            std::thread::spawn(|| {
                for _ in 0..ROUNDS {
                    let lease = RECORDS.lease_any().unwrap();
                    let word = lease.record().shard();
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
        let sum: usize = RECORDS.records().map(|record| record.shard().get()).sum();
        assert_eq!(sum - 7 * RECORDS.later_records(), 2 * THREADS * ROUNDS);
    }
}
