//! The thread-local of an allocator: which record this thread stands for.
//!
//! ```text
//!   NOWHERE --(first slow path: guard, then lease)--> a record --(thread exit)--> GONE
//! ```
//!
//! The thread-local is a pointer with a constant first value and no destructor, so that reading it is one
//! instruction and cannot fail, not even while the thread is torn down. NOWHERE and GONE are records too:
//! static ones whose fronts are full and that own no unit, so that the fast path needs no check for them;
//! it fails into the slow path, and that one looks.
//!
//! The exit guard is one for all allocators of a thread. Destructors of thread-locals run in any order:
//! those that run behind the guard find GONE, where an allocation leases a record for one operation and
//! every free is a foreign free.

use core::cell::Cell;
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

/// The thread-local of a [`Tenant`].
pub type Here<S> = Cell<&'static Record<S>>;

/// An allocator whose shards hang on records: what it must say for threads to come and go.
pub trait Tenant: Sized + Sync + 'static {
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
    /// The holder of this record is about to give it up: drain the inbox, give back what is empty.
    fn leave(record: &'static Record<Self>);
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

/// The record of this thread, NOWHERE and GONE among them.
#[inline]
#[must_use]
pub fn current<S: Tenant>() -> &'static Record<S> {
    S::here().try_with(Cell::get).unwrap_or(S::gone())
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
    // The guard first, then the record: a record without a guard would never be given up.
    if at_exit(exit::<S>).is_err() {
        set::<S>(S::gone());
        return lease::<S>().map(Held::Leased);
    }
    // Leaving a hook may have allocated, through this very allocator.
    if let Some(record) = bound::<S>() {
        return Some(Held::Bound(record));
    }
    let record = lease::<S>()?.bind();
    set::<S>(record);
    Some(Held::Bound(record))
}

fn lease<S: Tenant>() -> Option<Lease<'static, S>> {
    let lease = S::registry().lease_any()?;
    lease.record().shard().enter();
    Some(lease)
}

fn set<S: Tenant>(record: &'static Record<S>) {
    // Without a destructor of its own the cell is there for as long as the thread; were it not, GONE is what is read.
    let _ = S::here().try_with(|here| here.set(record));
}

/// The hook of one tenant: gives up this thread's record.
fn exit<S: Tenant>() {
    let held = bound::<S>();
    if let Some(record) = held {
        S::leave(record);
    }
    set::<S>(S::gone());
    if let Some(record) = held {
        // SAFETY: the record was this thread's, bound; the thread-local no longer says so.
        drop(unsafe { record.bound() });
    }
}
