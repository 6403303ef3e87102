//! Runs exit hooks from the destructor of a thread-specific key of the operating system, instead of
//! the destructor of a thread-local.
//!
//! The C library registers the destructor of a thread-local under the dynamic linker's lock (in
//! glibc, at least up to 2.36). If `dlopen` holds this lock and waits for a thread, that thread
//! must not need the lock. A `malloc` library therefore calls [`end_threads_by_key`] when it is
//! loaded. A thread needs neither a lock nor memory to set the value of one of the first 32 keys,
//! the *low* keys.
//!
//! In glibc, the destructor of a key runs after the destructors of thread-locals, so more of a
//! thread's frees are local frees. The destructor of a key does not run when the main thread
//! returns from `main`, but then the process ends.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::hooks::{ExitHooks, Gone};

/// The number of keys whose values glibc keeps in the thread descriptor. For the values of all
/// other keys, glibc allocates memory.
const LOW_KEYS: libc::pthread_key_t = 32;

/// The number of the key plus one, or zero if there is no key.
static KEY: AtomicUsize = AtomicUsize::new(0);

std::thread_local! {
    static KEYED: KeyedHooks = const { KeyedHooks { hooks: ExitHooks::new(), ran: Cell::new(false) } };
}

/// The hooks of a thread, which the key's destructor runs. The type has no destructor of its own.
struct KeyedHooks {
    hooks: ExitHooks,
    /// Whether the key's destructor has started.
    ran: Cell<bool>,
}

/// Selects a key to run the exit hooks of threads that register a hook from now on. Returns `false`
/// if no low key is available; threads then continue to use the thread-local with a destructor.
///
/// # Safety
/// The code of this crate stays loaded until all threads of the process have ended.
pub unsafe fn end_threads_by_key() -> bool {
    let mut key = 0;
    // SAFETY: the pointer is valid for a write. The caller keeps the destructor loaded.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } != 0 {
        return false;
    }
    if key >= LOW_KEYS {
        // SAFETY: the key was just created, and no thread has set a value.
        let _ = unsafe { libc::pthread_key_delete(key) };
        return false;
    }
    // ORDERING: Release. Pairs with the Acquire in `key`. Publishes: the creation of the key.
    KEY.store(key as usize + 1, Ordering::Release);
    true
}

/// Returns whether exit hooks run in the destructor of a thread-specific key.
#[doc(hidden)]
pub fn ends_by_key() -> bool {
    key().is_some()
}

/// Returns the key, if there is one.
pub(super) fn key() -> Option<libc::pthread_key_t> {
    // ORDERING: Acquire. Pairs with the Release in `end_threads_by_key`.
    let number = KEY.load(Ordering::Acquire);
    Some(number.checked_sub(1)? as libc::pthread_key_t)
}

/// Registers a hook that the destructor of the key calls. The errors are the same as for
/// [`super::at_exit`].
pub(super) fn at_exit(key: libc::pthread_key_t, hook: fn()) -> Result<(), Gone> {
    let kept = KEYED.try_with(|keyed| {
        if keyed.ran.get() {
            return Err(Gone);
        }
        // Any value but null makes the C library call the destructor.
        let value = ptr::from_ref(keyed).cast::<c_void>();
        // SAFETY: `KEY` names this key, and a key in `KEY` is never deleted.
        if unsafe { libc::pthread_setspecific(key, value) } != 0 {
            return Err(Gone);
        }
        // The search comes after the call above, because the C library may allocate for the value,
        // and that allocation may register another hook.
        keyed.hooks.add(hook)
    });
    kept.unwrap_or(Err(Gone))
}

/// The destructor of the key: runs the hooks of the calling thread.
unsafe extern "C" fn end(_value: *mut c_void) {
    // `KEYED` has no destructor, so on Linux it lives until the thread has ended.
    let _ = KEYED.try_with(|keyed| {
        keyed.ran.set(true);
        keyed.hooks.run();
    });
}
