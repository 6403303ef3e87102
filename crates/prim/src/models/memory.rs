//! The memory of one run of a model. It stays allocated until the run ends, even after the model
//! frees it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;

/// A value of a model, for example a unit. Its memory is freed at the end of the run, not when the
/// protocol frees it, so that an access after the free finds the witness.
///
/// The `Arc` is the standard library's, because loom's would order the threads that drop it.
pub(super) struct ModelArc<T> {
    place: Arc<Leaked<T>>,
}

struct Leaked<T>(NonNull<T>);

impl<T> ModelArc<T> {
    pub(super) fn new(value: T) -> Self {
        let place = NonNull::from(Box::leak(Box::new(value)));
        Self { place: Arc::new(Leaked(place)) }
    }

    pub(super) fn pointer(&self) -> NonNull<T> {
        self.place.0
    }

    /// Returns the value. A shared reference is enough, because models keep only atomics and loom's
    /// cells here.
    pub(super) fn get(&self) -> &T {
        // SAFETY: the place lives as long as its last `ModelArc`, and no unique reference to it
        // exists.
        unsafe { self.place.0.as_ref() }
    }
}

impl<T> Clone for ModelArc<T> {
    fn clone(&self) -> Self {
        Self { place: Arc::clone(&self.place) }
    }
}

impl<T> Drop for Leaked<T> {
    fn drop(&mut self) {
        // SAFETY: `ModelArc::new` leaked this box, and its last owner is being dropped.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: loom runs all threads of a model on one system thread, and reports accesses to its cells
// and atomics that the model does not order.
unsafe impl<T> Send for ModelArc<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ModelArc<T> {}
