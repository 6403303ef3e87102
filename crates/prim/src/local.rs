//! The thread-local that binds a thread to its record, and the steps of thread exit.
//!
//! The thread-local has a pointer to a record and a copy of the fields that the fast path needs. It
//! has a constant initial value and no destructor, so on a target with native thread-locals, a read
//! needs no check and cannot fail, not even during thread exit.
//!
//! A thread is in one of three states:
//!
//! * *NOWHERE*: it has not allocated yet.
//! * *Bound* to a record: it leased the record in a slow path.
//! * *GONE*: its exit guard has run or has refused the hook, or the thread is registering the hook.
//!
//! NOWHERE and GONE are static records whose fronts are full and that own no unit. The fast path
//! does not check for them: it finds a full front and takes the slow path, which checks the state.
//! The design page has a picture of the states.
//!
//! One exit guard serves all allocators of a thread. The system runs destructors of thread-locals
//! in any order. A destructor that runs after the guard finds GONE: each of its allocations leases
//! a record for one operation, and each of its frees is a remote free. (Where thread-locals are
//! built on the system's keys, that destructor may find NOWHERE again, and bind a record.)

mod hooks;
#[cfg(all(target_os = "linux", not(any(miri, ephemera_loom))))]
mod key;

pub use hooks::Gone;
#[cfg(all(target_os = "linux", not(any(miri, ephemera_loom))))]
pub use key::{end_threads_by_key, ends_by_key};

use core::cell::Cell;
use core::ptr::NonNull;
use std::thread::LocalKey;

use hooks::ExitHooks;

use crate::record::{Lease, Record, Registry};

/// The exit guard of a thread, whose drop runs the hooks that allocators registered.
struct Exit(ExitHooks);

impl Drop for Exit {
    fn drop(&mut self) {
        self.0.run();
    }
}

std::thread_local! {
    static EXIT: Exit = const { Exit(ExitHooks::new()) };
    static REGISTERING: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread is inside [`at_exit`]. If the guard is a thread-local, the C library
/// ends the process when it cannot allocate memory for the registration. A `malloc` must therefore
/// not refuse a request while this function returns `true`.
pub fn is_registering() -> bool {
    REGISTERING.try_with(Cell::get).unwrap_or(false)
}

/// Registers `hook`, which the exit guard calls when this thread ends. `hook` must not unwind.
///
/// # Errors
/// Returns [`Gone`] if the guard has run or is running, if it holds eight hooks, or if the
/// operating system refuses to set its key.
pub fn at_exit(hook: fn()) -> Result<(), Gone> {
    #[cfg(all(test, not(ephemera_loom)))]
    tests::while_registering();
    // The C library may allocate for the guard, and that allocation may call this function again,
    // so the value from before this call is restored below.
    let outer = REGISTERING.try_with(|registering| registering.replace(true)).unwrap_or(false);
    let kept = register(hook);
    let _ = REGISTERING.try_with(|registering| registering.set(outer));
    kept
}

fn register(hook: fn()) -> Result<(), Gone> {
    #[cfg(all(target_os = "linux", not(any(miri, ephemera_loom))))]
    if let Some(key) = key::key() {
        return key::at_exit(key, hook);
    }
    EXIT.try_with(|exit| exit.0.add(hook)).unwrap_or(Err(Gone))
}

/// The content of a [`Tenant`]'s thread-local: the record of this thread, and a copy of the fields
/// that the fast path needs.
///
/// Both fields are in one thread-local, so that a read finds either both or none. The record is a
/// pointer, not a reference, because the oldest supported compiler refuses a constant with a
/// reference to a static that has interior mutability. The pointer is never null, so the fast path
/// does not compare it with null.
///
/// # Invariant
/// `record` points to a record that is never freed or moved. `near` is the [`Tenant::near`] of that
/// record, as of the last call to [`renew`] or the last change of `record`.
#[derive(Debug)]
pub struct ThreadBinding<S: Tenant> {
    record: Cell<NonNull<Record<S>>>,
    near: Cell<S::Near>,
}

impl<S: Tenant> ThreadBinding<S> {
    /// Creates the first value of the thread-local: NOWHERE, and `near`, the copy of its fields.
    ///
    /// # Safety
    /// `nowhere` points to a static.
    pub const unsafe fn new(nowhere: *const Record<S>, near: S::Near) -> Self {
        // SAFETY: the caller's `nowhere` points to a static, so it is not null.
        let record = unsafe { NonNull::new_unchecked(nowhere.cast_mut()) };
        Self { record: Cell::new(record), near: Cell::new(near) }
    }

    #[inline]
    fn get(&self) -> &'static Record<S> {
        // SAFETY: `new` received a static and `set` a `'static` reference, so the record is live.
        unsafe { self.record.get().as_ref() }
    }

    /// Stores both fields. None of the tenant's code runs between the two stores.
    fn set(&self, record: &'static Record<S>) {
        let near = S::near(record);
        self.record.set(NonNull::from(record));
        self.near.set(near);
    }
}

/// An allocator that keeps data in each record. The trait tells this module how to bind a thread
/// to a record, and what to do at thread exit.
///
/// # Correctness
/// [`Tenant::statics`] always returns the same value. The thread-local starts with NOWHERE and its
/// `near`, and only this module writes the thread-local. Neither NOWHERE nor GONE is in the
/// registry.
///
/// The trait is safe because this crate does not dereference a pointer that relies on these rules.
/// If a tenant breaks them, this module may release leases that the thread does not hold. That
/// harms only the unsafe code of the crate that defines the tenant (see [`record`](crate::record)).
pub trait Tenant: Sized + Sync + 'static {
    /// A copy of the fields of a record that the fast path needs. A read through the record would
    /// take two loads, the second of which depends on the first.
    type Near: Copy + 'static;
    /// Returns the current copy for `record`, which is NOWHERE, GONE, or a record that
    /// [`Tenant::enter`] has prepared. The holder must call [`renew`] whenever the result changes.
    /// This method must not unwind or call the allocator.
    fn near(record: &'static Record<Self>) -> Self::Near;
    /// Returns the statics of this allocator. [`tenant_statics!`](crate::tenant_statics) defines
    /// this method.
    fn statics() -> TenantStatics<Self>;
    /// Prepares the record data for the thread that has just leased the record.
    fn enter(&self);
    /// Prepares a record that the exiting thread is about to release: for example, drains the
    /// inboxes and frees the empty units. The thread is still bound to the record, so allocations
    /// and frees in this method work as usual. Must not unwind.
    fn leave(record: &'static Record<Self>);
    /// Releases the lease of a thread that exits, or of one operation. A tenant whose record data
    /// contain inboxes calls [`Lease::release`] here, which also drains the remote frees that other
    /// threads pushed while the lease was held. Must not unwind.
    fn release(lease: Lease<'static, Self>);
}

/// The statics of a [`Tenant`].
#[derive(Debug)]
pub struct TenantStatics<S: Tenant> {
    /// All records of this allocator.
    pub registry: &'static Registry<S>,
    /// The thread-local, whose first value names NOWHERE.
    pub binding: &'static LocalKey<ThreadBinding<S>>,
    /// The record of threads that have not allocated yet. Its fronts are full and it owns no unit.
    pub nowhere: &'static Record<S>,
    /// The record of threads in the state *GONE*. Its fronts are full and it owns no unit.
    pub gone: &'static Record<S>,
}

/// Defines [`Tenant::statics`] and the statics that it returns. `$nowhere` is the data of NOWHERE
/// and of GONE, and `$near` is their [`Tenant::near`].
#[macro_export]
macro_rules! tenant_statics {
    ($data:ty, registry: $registry:expr, nowhere: $nowhere:expr, near: $near:expr $(,)?) => {
        #[inline]
        fn statics() -> $crate::local::TenantStatics<Self> {
            static NOWHERE: $crate::record::Record<$data> = $crate::record::Record::new($nowhere);
            static GONE: $crate::record::Record<$data> = $crate::record::Record::new($nowhere);
            $crate::local::thread_local! {
                static BINDING: $crate::local::ThreadBinding<$data> = const {
                    // SAFETY: `NOWHERE` is a static.
                    unsafe { $crate::local::ThreadBinding::new(&raw const NOWHERE, $near) }
                };
            }
            $crate::local::TenantStatics {
                registry: $registry,
                binding: &BINDING,
                nowhere: &NOWHERE,
                gone: &GONE,
            }
        }
    };
}

#[doc(hidden)]
pub use std::thread_local;

/// A record that this thread holds for one operation or until its exit.
#[derive(Debug)]
pub enum Held<S: 'static> {
    /// This thread's own record.
    Bound(&'static Record<S>),
    /// A record leased for one operation.
    Leased(Lease<'static, S>),
}

impl<S: Tenant> Held<S> {
    /// Returns the record.
    pub fn record(&self) -> &'static Record<S> {
        match self {
            Self::Bound(record) => record,
            Self::Leased(lease) => lease.record(),
        }
    }

    /// Releases the lease if it is for one operation. A bound record stays bound.
    pub fn release(self) {
        if let Self::Leased(lease) = self {
            S::release(lease);
        }
    }
}

/// Returns the record of this thread, which may be NOWHERE or GONE.
#[inline]
pub fn current<S: Tenant>() -> &'static Record<S> {
    S::statics().binding.try_with(ThreadBinding::get).unwrap_or(S::statics().gone)
}

/// Returns the [`Tenant::near`] of [`current`], as it was when the thread was bound or last called
/// [`renew`].
#[inline]
pub fn near<S: Tenant>() -> S::Near {
    S::statics().binding.try_with(|binding| binding.near.get()).unwrap_or_else(|_| S::near(S::statics().gone))
}

/// Copies the [`Tenant::near`] of this thread's record into the thread-local again.
pub fn renew<S: Tenant>() {
    // If the thread-local is unreadable, `near` reads GONE and does not need the copy.
    let _ = S::statics().binding.try_with(|binding| binding.set(binding.get()));
}

/// Returns the record that this thread is bound to, or `None` if it is bound to none.
#[inline]
pub fn bound<S: Tenant>() -> Option<&'static Record<S>> {
    let record = current::<S>();
    let TenantStatics { nowhere, gone, .. } = S::statics();
    let none = core::ptr::eq(record, nowhere) || core::ptr::eq(record, gone);
    (!none).then_some(record)
}

/// Returns a record to allocate from, or `None` if there is no memory for one.
///
/// The result is the record that this thread is bound to; the first call binds one. A call cannot
/// bind a record after the exit guard has run, if the guard does not accept a hook, while this
/// thread registers the allocator's hook, or while the thread-local is being destroyed. The result
/// is then a record leased for this operation.
#[cold]
#[must_use]
pub fn hold<S: Tenant>() -> Option<Held<S>> {
    let record = current::<S>();
    if core::ptr::eq(record, S::statics().gone) {
        return lease::<S>().map(Held::Leased);
    }
    if !core::ptr::eq(record, S::statics().nowhere) {
        return Some(Held::Bound(record));
    }
    // Lease before registering the hook. Otherwise, while there is no memory for a record, every
    // attempt would register one more hook, until the guard is full.
    let lease = lease::<S>()?;
    // The tenant may have re-entered this allocator and bound a record, so check again.
    if let Some(record) = bound::<S>() {
        S::release(lease);
        return Some(Held::Bound(record));
    }
    // The C library may allocate for both registrations below, and this allocator may serve that
    // allocation. The nested allocation then finds GONE and leases a record for itself, instead of
    // registering once more.
    if !weakened!("registration_is_nowhere") {
        set::<S>(S::statics().gone);
    }
    // Register the fork handler. Through this handler, a forked child recognises a gate that
    // another thread of its parent held.
    crate::fork::watch();
    // The exit hook releases only the record that the thread-local names. Without the hook or the
    // thread-local, the lease is for one operation.
    let is_bound = at_exit(exit::<S>).is_ok() && set::<S>(lease.record());
    Some(if is_bound { Held::Bound(lease.bind()) } else { Held::Leased(lease) })
}

fn lease<S: Tenant>() -> Option<Lease<'static, S>> {
    S::statics().registry.lease_any().inspect(|lease| lease.record().data().enter())
}

/// Stores `record` in the thread-local and returns whether that worked.
///
/// The thread-local does not have a destructor, so it usually lives as long as the thread. Where
/// thread-locals are built on the system's keys, the system may be destroying the thread-local.
/// This function then fails, and reads return GONE. A read after the destruction creates the
/// thread-local again, as NOWHERE.
fn set<S: Tenant>(record: &'static Record<S>) -> bool {
    S::statics().binding.try_with(|binding| binding.set(record)).is_ok()
}

/// Releases this thread's record, as the exit hook of one tenant.
fn exit<S: Tenant>() {
    let held = bound::<S>();
    if let Some(record) = held {
        S::leave(record);
    }
    set::<S>(S::statics().gone);
    if let Some(record) = held {
        // SAFETY: `hold` bound the record to this thread, and the thread-local, which only this
        // module sets, no longer names it.
        S::release(unsafe { record.bound() });
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests;
