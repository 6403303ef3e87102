//! A key of the operating system's threads, in place of a thread-local with a destructor.
//!
//! The C library registers the destructor of a thread-local under the dynamic linker's lock, in
//! glibc at least up to 2.36. A thread that `dlopen` waits for must not need that lock. So a
//! `malloc` library calls [`end_threads_by_key`] when it is loaded: to set the value of a key
//! takes no lock.
//!
//! The destructor of a key runs after the destructors of thread-locals, so more frees of a thread
//! find its own record. It does not run when the main thread returns from `main`. The process ends
//! then.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use super::{Gone, HOOKS, Hook};

/// The number of the key plus one, or zero without a key.
static KEY: AtomicU64 = AtomicU64::new(0);

std::thread_local! {
    static KEYED: KeyedHooks = const { KeyedHooks { hooks: [const { Cell::new(None) }; HOOKS], ran: Cell::new(false) } };
}

/// The hooks of a thread that the key's destructor runs. The value itself has no destructor.
struct KeyedHooks {
    hooks: [Hook; HOOKS],
    /// Whether the key's destructor has started.
    ran: Cell<bool>,
}

/// Makes the threads of this process run their exit hooks by a key, from now on. Returns `false` if
/// the operating system has no key left. The thread-local with a destructor then stays in use.
///
/// The code of this crate must stay loaded until all threads have ended.
pub fn end_threads_by_key() -> bool {
    let mut key = 0;
    // SAFETY: the pointer is valid for a write, and the destructor is a function of this crate.
    let created = unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0;
    if created {
        // ORDERING: Release. Pairs with the Acquire in `key`. Publishes: the creation of the key.
        KEY.store(u64::from(key) + 1, Ordering::Release);
    }
    created
}

/// Returns the key, if there is one.
pub(super) fn key() -> Option<libc::pthread_key_t> {
    // ORDERING: Acquire. Pairs with the Release in `end_threads_by_key`.
    let number = KEY.load(Ordering::Acquire);
    Some(number.checked_sub(1)? as libc::pthread_key_t)
}

/// Registers a hook that the destructor of the key calls.
pub(super) fn at_exit(key: libc::pthread_key_t, hook: fn()) -> Result<(), Gone> {
    KEYED.with(|keyed| {
        let free = keyed.hooks.iter().find(|place| place.get().is_none());
        let free = free.filter(|_| !keyed.ran.get()).ok_or(Gone)?;
        // Any value but null makes the C library call the destructor.
        let value = ptr::from_ref(keyed).cast::<c_void>();
        // SAFETY: the key exists.
        if unsafe { libc::pthread_setspecific(key, value) } != 0 {
            return Err(Gone);
        }
        free.set(Some(hook));
        Ok(())
    })
}

/// Runs the hooks of the calling thread, as the destructor of the key.
unsafe extern "C" fn end(_value: *mut c_void) {
    KEYED.with(|keyed| {
        keyed.ran.set(true);
        keyed.hooks.iter().filter_map(Cell::take).for_each(|hook| hook());
    });
}
