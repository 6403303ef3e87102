//! The thread-local of an allocator: which record this thread stands for.
//!
//! The thread-local is a pointer, and a copy of what is near the record, with a constant first value and no destructor, so that reading
//! it is one instruction and cannot fail, not even while the thread is torn down. NOWHERE and GONE are records too:
//! static ones whose fronts are full and that own no unit, so that the fast path needs no check for them;
//! it fails into the slow path, and that one looks. The crate's design has the picture.
//!
//! The exit guard is one for all allocators of a thread. Destructors of thread-locals run in any order:
//! those that run behind the guard find GONE, where an allocation leases a record for one operation and
//! every free is a foreign free. (Where thread-locals are made of the system's keys, they may find a new NOWHERE, and get a record.)

use core::cell::Cell;
use core::ptr::NonNull;
use std::thread::LocalKey;

use crate::record::{Lease, Record, Registry};

/// How many allocators can have something to do at a thread's exit.
const HOOKS: usize = 8;

/// The thread's guard is already gone: nothing can be left for its exit any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// Runs what the allocators left to be done when its thread ends.
struct Exit {
    hooks: [Hook; HOOKS],
}

type Hook = Cell<Option<fn()>>;

impl Drop for Exit {
    fn drop(&mut self) {
        for hook in self.hooks.iter().filter_map(Cell::take) {
            hook();
        }
    }
}

std::thread_local! {
    static EXIT: Exit = const { Exit { hooks: [const { Cell::new(None) }; HOOKS] } };
}

/// Leaves `hook` to be called once when this thread ends. It must not unwind.
///
/// # Errors
/// [`Gone`] when the guard was already dropped, or when more than eight allocators want to use it.
pub fn at_exit(hook: fn()) -> Result<(), Gone> {
    let kept = EXIT.try_with(|exit| {
        exit.hooks.iter().find(|place| place.get().is_none()).map(|place| place.set(Some(hook)))
    });
    kept.ok().flatten().ok_or(Gone)
}

/// What a [`Tenant`] keeps in its thread-local: the record that this thread stands for, and what of it the fast path
/// wants without a second load. The two are one thread-local, so that they are there and gone together.
///
/// A pointer and not a reference: our oldest compiler refuses a constant with a reference to a static that can change. And
/// one that is known not to be null: the fast path would compare it otherwise.
///
/// # Invariant
/// `record` points at a record that is never freed nor moved; `near` is the [`Tenant::near`] of it, up to what the tenant
/// did not [`renew`] yet.
#[derive(Debug)]
pub struct Here<S: Tenant> {
    record: Cell<NonNull<Record<S>>>,
    near: Cell<S::Near>,
}

impl<S: Tenant> Here<S> {
    /// The first value: NOWHERE, and what is near it.
    ///
    /// # Safety
    /// `nowhere` points at a static.
    #[must_use]
    pub const unsafe fn new(nowhere: *const Record<S>, near: S::Near) -> Self {
        // SAFETY: the address of a static is not null.
        let record = unsafe { NonNull::new_unchecked(nowhere.cast_mut()) };
        Self { record: Cell::new(record), near: Cell::new(near) }
    }

    #[inline]
    fn get(&self) -> &'static Record<S> {
        // SAFETY: the invariant: `new` got a static, and `set` a reference that lives as long.
        unsafe { self.record.get().as_ref() }
    }

    /// Sets both; none of the tenant's code runs between the two.
    fn set(&self, record: &'static Record<S>) {
        let near = S::near(record);
        self.record.set(NonNull::from(record));
        self.near.set(near);
    }
}

/// An allocator whose shards hang on records: what it must say for threads to come and go.
///
/// # Correctness
/// Each function answers with one and the same thing always, but for `near`; the thread-local begins with NOWHERE and what is near
/// that, and nobody but this module sets it; neither NOWHERE nor GONE is in the registry. This is no unsafe trait, since nothing here
/// dereferences by virtue of it: a tenant that breaks it gives up leases that its threads do not hold, and what then
/// goes wrong goes wrong in the unsafe code of the crate that its own type is from (see [`record`](crate::record)).
pub trait Tenant: Sized + Sync + 'static {
    /// A copy of what the fast path wants of a record: by way of the record it would be a load that waits for a load.
    type Near: Copy + 'static;
    /// What is near this record now: NOWHERE, GONE, or one that was entered. When that became another one, the record's holder
    /// calls [`renew`]. Must neither unwind nor come back into this allocator.
    fn near(record: &'static Record<Self>) -> Self::Near;
    /// All records of this allocator.
    fn registry() -> &'static Registry<Self>;
    /// The thread-local, with NOWHERE as its first value.
    fn here() -> &'static LocalKey<Here<Self>>;
    /// The record of threads that did not allocate yet: fronts full, owner of nothing.
    fn nowhere() -> &'static Record<Self>;
    /// The record of threads whose guard is gone: the same.
    fn gone() -> &'static Record<Self>;
    /// A thread took this record: its fronts and lists are now the thread's.
    fn enter(&self);
    /// The holder of this record is about to give it up: drains the inboxes and gives back what is empty. Must not unwind.
    /// The thread still has the record: what is allocated and freed in here goes the usual way.
    fn leave(record: &'static Record<Self>);
    /// Ends the lease of a thread that exits, or of one operation. A tenant with inboxes calls [`Lease::release`] in here,
    /// so that remote frees that arrived since [`Tenant::leave`] do not stay. Must not unwind.
    fn release(lease: Lease<'static, Self>);
}

/// A record that the caller may write as its owner, for the length of one operation or for the thread's life.
#[derive(Debug)]
pub enum Held<S: 'static> {
    /// This thread's own record.
    Bound(&'static Record<S>),
    /// A record leased for one operation.
    Leased(Lease<'static, S>),
}

impl<S> Held<S> {
    /// The record that is held.
    #[must_use]
    pub fn record(&self) -> &'static Record<S> {
        match self {
            Self::Bound(record) => record,
            Self::Leased(lease) => lease.record(),
        }
    }
}

impl<S: Tenant> Held<S> {
    /// Ends a lease for one operation. The thread's own record stays its own.
    pub fn release(self) {
        if let Self::Leased(lease) = self {
            S::release(lease);
        }
    }
}

/// The record of this thread, NOWHERE and GONE among them.
#[inline]
#[must_use]
pub fn current<S: Tenant>() -> &'static Record<S> {
    S::here().try_with(Here::get).unwrap_or(S::gone())
}

/// The [`Tenant::near`] of [`current`], as it was when the thread took the record or last called [`renew`].
#[inline]
#[must_use]
pub fn near<S: Tenant>() -> S::Near {
    S::here().try_with(|here| here.near.get()).unwrap_or_else(|_| S::near(S::gone()))
}

/// This thread's record has another [`Tenant::near`].
pub fn renew<S: Tenant>() {
    // While the thread-local is being destroyed, GONE is read, and what is near that.
    let _ = S::here().try_with(|here| here.set(here.get()));
}

/// The record of this thread, if it has one.
#[inline]
#[must_use]
pub fn bound<S: Tenant>() -> Option<&'static Record<S>> {
    let record = current::<S>();
    let none = core::ptr::eq(record, S::nowhere()) || core::ptr::eq(record, S::gone());
    (!none).then_some(record)
}

/// A record to allocate from: this thread's own, which it gets here at its first call, or, while the thread
/// is torn down, one leased for this operation. `None` when there is no memory for a record.
#[cold]
#[must_use]
pub fn hold<S: Tenant>() -> Option<Held<S>> {
    let record = current::<S>();
    if core::ptr::eq(record, S::gone()) {
        return lease::<S>().map(Held::Leased);
    }
    if !core::ptr::eq(record, S::nowhere()) {
        return Some(Held::Bound(record));
    }
    // The lease comes first, as a value that gives itself up on every way out: a hook that was left in vain, again
    // and again while there is no memory for a record, would use up the guard's places.
    let lease = lease::<S>()?;
    let hook = if bound::<S>().is_none() { at_exit(exit::<S>) } else { Ok(()) };
    // Making a record or leaving a hook may have allocated through this very allocator, which then has its record already.
    if let Some(record) = bound::<S>() {
        S::release(lease);
        return Some(Held::Bound(record));
    }
    if hook.is_err() {
        set::<S>(S::gone());
        return Some(Held::Leased(lease));
    }
    // A record that the thread-local does not name would never be given up.
    if !set::<S>(lease.record()) {
        return Some(Held::Leased(lease));
    }
    Some(Held::Bound(lease.bind()))
}

fn lease<S: Tenant>() -> Option<Lease<'static, S>> {
    let lease = S::registry().lease_any()?;
    lease.record().shard().enter();
    Some(lease)
}

/// Whether the thread-local could be set. Without a destructor of its own it is there for as long as the thread;
/// where it is not (thread-locals made of the system's keys), GONE is read while it is being destroyed, and behind that it is made
/// anew, as NOWHERE.
fn set<S: Tenant>(record: &'static Record<S>) -> bool {
    S::here().try_with(|here| here.set(record)).is_ok()
}

/// The hook of one tenant: gives up this thread's record.
fn exit<S: Tenant>() {
    let held = bound::<S>();
    if let Some(record) = held {
        S::leave(record);
    }
    set::<S>(S::gone());
    if let Some(record) = held {
        // SAFETY: `hold` bound the record to this thread and alone sets the thread-local (the tenant's promise), which
        // no longer names the record.
        S::release(unsafe { record.bound() });
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests;
