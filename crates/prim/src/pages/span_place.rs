//! A place for one freed span in a thread's own cache.
//!
//! # Invariant
//!
//! * **G5** A span in a place belongs to the place: its bit in its superblock is clear, and no
//!   thread uses it. Only the owner of the place stores a span, and only into an empty place. The
//!   thread whose exchange returns a span owns that span.

use core::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, Ordering};

// ORDERING: Release. Pairs with the Acquire in `SpanPlace::steal`. Publishes: the owner's accesses
// to the span.
ordering!(put_order = Release, Relaxed if "place_put_relaxed");
// ORDERING: Acquire. Pairs with the Release in `SpanPlace::put`: the thread that takes the span out
// of another thread's cache sees all earlier accesses to the span.
ordering!(steal_order = Acquire, Relaxed if "place_steal_relaxed");

/// A place for one span. Its owner fills it, and any thread may empty it.
#[derive(Debug)]
pub(crate) struct SpanPlace(AtomicPtr<u8>);

impl SpanPlace {
    crate::const_unless_loom! {
        /// Creates an empty place.
        pub(crate) fn new() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// Returns whether the place is empty. The answer may be out of date, unless the owner finds
    /// the place empty: it then stays empty until the owner fills it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Fills the place. Only the owner may call this, and only after it found the place empty.
    #[inline]
    pub(crate) fn put(&self, span: NonNull<u8>) {
        // ORDERING: `put_order`. Pairs with `SpanPlace::steal`.
        self.0.store(span.as_ptr(), put_order());
    }

    /// Takes the span out of the place, or returns `None` if the place is empty. Only the owner may
    /// call this. A relaxed exchange suffices, because the owner finds only spans that it or an
    /// earlier owner has stored, and it sees the writes of earlier owners.
    #[inline]
    pub(crate) fn take(&self) -> Option<NonNull<u8>> {
        if self.is_empty() {
            return None;
        }
        if weakened!("place_take_in_two_steps") {
            let span = self.0.load(Ordering::Relaxed);
            self.0.store(ptr::null_mut(), Ordering::Relaxed);
            return NonNull::new(span);
        }
        NonNull::new(self.0.swap(ptr::null_mut(), Ordering::Relaxed))
    }

    /// Takes the span out of the place, or returns `None` if the place is empty. Any thread may
    /// call this.
    pub(crate) fn steal(&self) -> Option<NonNull<u8>> {
        if self.is_empty() {
            return None;
        }
        // ORDERING: `steal_order`. Pairs with `SpanPlace::put`.
        NonNull::new(self.0.swap(ptr::null_mut(), steal_order()))
    }
}
