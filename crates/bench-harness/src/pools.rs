//! A pool of values of one type: the trait that workloads over objects and over nodes share. Like
//! the pointers to blocks, every handle passes through [`black_box`].

use core::hint::black_box;

/// A pool of values of one type, objects or nodes, as a workload sees it.
///
/// # Safety
///
/// * From [`raw_put`](Self::raw_put) to [`raw_take`](Self::raw_take), each handle names a different
///   value. If [`Caps::keeps_contents`](crate::card::Caps::keeps_contents) is off, values may
///   overlap.
/// * If the maker's [`Caps::any_thread_free`](crate::card::Caps::any_thread_free) is on, any thread
///   may call `raw_take` and `look` while another thread calls `raw_put`. If `shared_alloc` is on,
///   any thread may call `raw_put` too.
pub(crate) unsafe trait RawPool<T>: Sized + 'static {
    /// Whether the workload verifies the values that it wrote: `true` in a counted run, which is a
    /// check or the memory pass, and `false` in a timed run.
    const CHECKED: bool = false;

    /// The handle through which the pool's user accesses a value.
    type Handle: 'static;

    /// Puts a value into the pool. Returns `None` if the pool refuses the value.
    ///
    /// # Safety
    ///
    /// The handle must not be used, dereferenced or dropped after the pool is dropped or reset.
    unsafe fn raw_put(&self, value: T) -> Option<Self::Handle>;

    /// Passes a reference to the value of `handle` to `look`, and returns the result of `look`.
    ///
    /// # Safety
    ///
    /// This pool must have returned the handle, and the value must not have been taken.
    unsafe fn look<R>(&self, handle: &Self::Handle, look: impl FnOnce(&T) -> R) -> R;

    /// Drops the value of a handle, unless the pool drops all values at once.
    ///
    /// # Safety
    ///
    /// This pool must have returned the handle.
    unsafe fn raw_take(&self, handle: Self::Handle);

    /// Frees everything at once, if the pool can do so. The caller guarantees that no value is
    /// live.
    fn reset(&mut self) {}

    /// Announces the largest number of values that will be live at once. Only the pool that does
    /// nothing uses this number.
    fn expect_live(&mut self, _values: usize) {}

    /// Puts a value into the pool for a workload, and hides the handle from the optimiser.
    ///
    /// # Safety
    ///
    /// The contract of [`raw_put`](Self::raw_put) applies.
    ///
    /// # Panics
    ///
    /// Panics if the contender refuses the value. The process ends, and the contender's row in the
    /// report shows the message.
    #[inline(always)]
    unsafe fn put(&self, value: T) -> Self::Handle {
        // SAFETY: the caller upholds the callee's contract.
        let Some(handle) = (unsafe { self.raw_put(value) }) else { refused::<T>() };
        black_box(handle)
    }

    /// Hides the handle of a workload's value from the optimiser, and drops the value.
    ///
    /// # Safety
    ///
    /// The contract of [`raw_take`](Self::raw_take) applies.
    #[inline(always)]
    unsafe fn take(&self, handle: Self::Handle) {
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.raw_take(black_box(handle)) }
    }
}

/// Panics because the pool of a workload refused a value of type `T`.
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
