//! A pool of values of one type: the calls that workloads of objects and of nodes share. As for
//! blocks, every handle passes through [`black_box`].

use core::hint::black_box;

/// A pool of values of one type, objects or nodes, as a workload sees it.
///
/// # Safety
///
/// * A handle names its own value, from [`raw_put`](Self::raw_put) to
///   [`raw_take`](Self::raw_take), at a fixed address. If
///   [`Caps::keeps_contents`](crate::card::Caps::keeps_contents) is off, values may overlap.
/// * If the maker's [`Caps::any_thread_free`](crate::card::Caps::any_thread_free) is on, `raw_take`
///   and `look` may be called on any thread at the same time as `raw_put`. If `shared_alloc` is on,
///   so may `raw_put`.
pub(crate) unsafe trait RawPool<T>: Sized + 'static {
    /// Whether the workload verifies the bytes that it wrote. Only a check run does; a timed run
    /// does not.
    const CHECKED: bool = false;

    /// The value that the pool's user keeps.
    type Handle: 'static;

    /// Puts a value into the pool. Returns `None` if the pool refuses.
    ///
    /// # Safety
    ///
    /// If a family made the pool, it exists. The handle is not used, dereferenced or dropped after
    /// the pool or its family ends or is reset.
    unsafe fn raw_put(&self, value: T) -> Option<Self::Handle>;

    /// Passes the value to `look`.
    ///
    /// # Safety
    ///
    /// This pool returned the handle, and it was not taken.
    unsafe fn look<R>(&self, handle: &Self::Handle, look: impl FnOnce(&T) -> R) -> R;

    /// Drops a value.
    ///
    /// # Safety
    ///
    /// This pool returned the handle, which is consumed.
    unsafe fn raw_take(&self, handle: Self::Handle);

    /// Frees everything at once, if the pool can. No value is live.
    fn reset(&mut self) {}

    /// Announces the number of live values at a time. Only the pool that does nothing uses it.
    fn expect_live(&mut self, values: usize) {
        let _ = values;
    }

    /// Puts a value into the pool for a workload, hidden from the optimiser.
    ///
    /// # Safety
    ///
    /// As for [`raw_put`](Self::raw_put).
    ///
    /// # Panics
    ///
    /// If the contender refuses. The workload ends, and its cell says so.
    #[inline(always)]
    unsafe fn put(&self, value: T) -> Self::Handle {
        // SAFETY: the caller's duty is the callee's.
        let Some(handle) = (unsafe { self.raw_put(value) }) else { refused::<T>() };
        black_box(handle)
    }

    /// Drops a value of a workload, hidden from the optimiser.
    ///
    /// # Safety
    ///
    /// As for [`raw_take`](Self::raw_take).
    #[inline(always)]
    unsafe fn take(&self, handle: Self::Handle) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.raw_take(black_box(handle)) }
    }
}

/// Ends a workload whose pool refused a value.
#[cold]
#[inline(never)]
fn refused<T>() -> ! {
    panic!("the pool refused a value of {} bytes", size_of::<T>());
}

/// Implements [`RawPool::look`] for handles that dereference to their values.
macro_rules! look_through {
    ($value:ty, $handle:ty) => {
        #[inline(always)]
        unsafe fn look<Seen>(&self, handle: &$handle, look: impl FnOnce(&$value) -> Seen) -> Seen {
            look(handle)
        }
    };
}
pub(crate) use look_through;
