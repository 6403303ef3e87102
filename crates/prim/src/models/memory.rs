//! The memory of one run of a model: what is allocated in it outlives what the model frees.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;

/// A unit or pool of a model, in raw memory that is given back when the run is over, not when the protocol frees it:
/// a touch after the free must find the witness.
///
/// An `Arc` of the standard library, since loom's would order the threads that drop it.
pub(super) struct Kept<T> {
    place: Arc<Place<T>>,
}

struct Place<T>(NonNull<T>);

impl<T> Kept<T> {
    pub(super) fn new(value: T) -> Self {
        let place = NonNull::from(Box::leak(Box::new(value)));
        Self { place: Arc::new(Place(place)) }
    }

    pub(super) fn pointer(&self) -> NonNull<T> {
        self.place.0
    }

    /// The value, by a shared reference: all that models put here is atomics and loom's cells.
    pub(super) fn get(&self) -> &T {
        // SAFETY: the place lives as long as its last `Kept`, and nobody has a unique reference to it.
        unsafe { self.place.0.as_ref() }
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self { place: Arc::clone(&self.place) }
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        // SAFETY: `Kept::new` took it out of a box, and this was its last owner.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: loom runs all threads of a model on one thread of the system, and reports accesses to its cells and
// atomics that the model does not order.
unsafe impl<T> Send for Kept<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Kept<T> {}
