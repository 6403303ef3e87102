//! Records: the identity of a thread, as far as memory is concerned.
//!
//! A thread's own identity will not do: the address of a thread-local and the index of a thread are used
//! again by the next thread, and a unit that names a dead thread would name a living one. A record is
//! never freed, so that a unit names its record once and for ever; *who* the record stands for changes
//! with its lease. All that hangs on a record (its shard) passes to the next holder as it is: nothing is
//! merged, rewritten or scanned.
//!
//! # Invariants
//! * **L1** At most one thread holds a record's lease, and only the holder writes the owner's words of the
//!   shard and of its units.
//! * **L2** What one holder wrote, the next one sees.
//! * **L3** Records are never freed nor moved.

use core::ptr;

use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

const FREE: usize = 0;
const HELD: usize = 1;

// ORDERING: Acquire. Pairs with the Release in `Lease::drop`: the new holder sees what the last one wrote (L2).
const LEASE: Ordering =
    if cfg!(ephemera_weaken = "lease_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
// ORDERING: Release. Pairs with the Acquire in `Record::try_lease`. Publishes: all that this holder wrote (L2).
const RELEASE: Ordering =
    if cfg!(ephemera_weaken = "release_relaxed") { Ordering::Relaxed } else { Ordering::Release };

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
        taken.then_some(Lease { record: self })
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

/// The right to write the owner's words of a record. Given up when dropped.
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
pub const FIRST: usize = if cfg!(ephemera_loom) { 2 } else { 64 };

/// All records of one kind of shard.
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
        // ORDERING: Acquire. Pairs with the Release in `Registry::add`: a record is seen as it was made.
        let mut later = self.later.load(Ordering::Acquire);
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
        let layout = core::alloc::Layout::new::<Record<S>>();
        let place = crate::raw::acquire(&allocator_api2::alloc::Global, layout).ok()?.cast::<Record<S>>();
        let record = Record::new((self.make)());
        record.lease.store(HELD, Ordering::Relaxed);
        record.later.store(self.later.load(Ordering::Relaxed), Ordering::Relaxed);
        // SAFETY: `place` is fresh memory of this layout.
        unsafe { place.write(record) };
        // SAFETY: just written, never freed (L3).
        let record = unsafe { place.as_ref() };
        loop {
            let head = record.later.load(Ordering::Relaxed);
            // ORDERING: Release. Pairs with the Acquire in `Registry::records`. Publishes: the new record.
            match self.later.compare_exchange_weak(head, place.as_ptr(), Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return Some(Lease { record }),
                Err(now) => record.later.store(now, Ordering::Relaxed),
            }
        }
    }
}
