//! Defines a backing allocator that refuses chosen calls.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use allocator_api2::alloc::{AllocError, Allocator, Global};

use crate::violation::Refusing;

/// Selects the allocating calls that a [`FailNth`] refuses. Also counts the allocating calls and
/// the refused calls. Use the methods only while no call to the allocator is in progress.
///
/// The allocating calls are `allocate`, `allocate_zeroed`, `grow`, `grow_zeroed` and `shrink`. One
/// count numbers the calls of all five kinds, from 1.
#[derive(Debug, Default)]
pub struct Refusals {
    calls: AtomicUsize,
    refused: AtomicUsize,
    /// The number of the first call to refuse, or 0 for none. Like the other fields, this is no
    /// wider than a pointer, because some targets have no 64-bit atomics.
    first: AtomicUsize,
    /// The number of the last call to refuse.
    last: AtomicUsize,
}

impl Refusals {
    /// Creates a value that does not select any call until [`Refusals::arm`] is called.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            calls: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            first: AtomicUsize::new(0),
            last: AtomicUsize::new(0),
        }
    }

    /// Resets both counts to 0, and starts to refuse the calls that `refusing` selects.
    ///
    /// # Panics
    ///
    /// Panics if `refusing` names call 0, because calls are counted from 1.
    pub fn arm(&self, refusing: Refusing) {
        // A program makes fewer than `usize::MAX` calls, so the fallback selects no call.
        let number = |call: u64| usize::try_from(call).unwrap_or(usize::MAX);
        let (first, last) = match refusing {
            Refusing::Nothing => (0, 0),
            Refusing::Once(call) => (number(call), number(call)),
            Refusing::From(call) => (number(call), usize::MAX),
        };
        assert!(refusing == Refusing::Nothing || first != 0, "calls are counted from 1");
        self.calls.store(0, Relaxed);
        self.refused.store(0, Relaxed);
        self.first.store(first, Relaxed);
        self.last.store(last, Relaxed);
    }

    /// Returns the number of allocating calls since the last [`Refusals::arm`], including refused
    /// calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed) as u64
    }

    /// Returns the number of refused calls since the last [`Refusals::arm`].
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed) as u64
    }

    /// Counts a call. Returns an error if the call must be refused.
    fn admit(&self) -> Result<(), AllocError> {
        let call = self.calls.fetch_add(1, Relaxed) + 1;
        let first = self.first.load(Relaxed);
        if first != 0 && (first..=self.last.load(Relaxed)).contains(&call) {
            self.refused.fetch_add(1, Relaxed);
            return Err(AllocError);
        }
        Ok(())
    }
}

/// An allocator that refuses the calls that its [`Refusals`] select, and passes all other calls on.
///
/// # Examples
///
/// ```
/// use allocator_api2::vec::Vec;
/// use ephemera_testkit::backing::FailNth;
/// use ephemera_testkit::violation::Refusing;
///
/// let backing = FailNth::new();
/// backing.refusals().arm(Refusing::Once(2));
/// let mut bytes: Vec<u8, _> = Vec::new_in(&backing);
/// assert!(bytes.try_reserve(10).is_ok());
/// assert!(bytes.try_reserve(100).is_err());
/// assert!(bytes.try_reserve(100).is_ok());
/// ```
#[derive(Debug, Default)]
pub struct FailNth<A = Global> {
    inner: A,
    refusals: Refusals,
}

impl FailNth {
    /// Creates an allocator that passes calls on to the global allocator until its refusals are
    /// armed.
    #[must_use]
    pub const fn new() -> Self {
        Self::over(Global)
    }
}

impl<A> FailNth<A> {
    /// Creates an allocator that passes calls on to `inner` until its refusals are armed.
    #[must_use]
    pub const fn over(inner: A) -> Self {
        Self { inner, refusals: Refusals::new() }
    }

    /// Returns the inner allocator.
    #[must_use]
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Returns the [`Refusals`] of this allocator.
    #[must_use]
    pub const fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}

// SAFETY: a call is passed on to `inner`, which meets the contract, or is refused without an effect
// on any block.
unsafe impl<A: Allocator> Allocator for FailNth<A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.refusals.admit()?;
        self.inner.allocate(layout)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.refusals.admit()?;
        self.inner.allocate_zeroed(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        unsafe { self.inner.deallocate(ptr, layout) };
    }

    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.refusals.admit()?;
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        unsafe { self.inner.grow(ptr, old, new) }
    }

    unsafe fn grow_zeroed(
        &self,
        ptr: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        self.refusals.admit()?;
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        unsafe { self.inner.grow_zeroed(ptr, old, new) }
    }

    unsafe fn shrink(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.refusals.admit()?;
        // SAFETY: the caller upholds the method's contract, which is the same for `inner`.
        unsafe { self.inner.shrink(ptr, old, new) }
    }
}
