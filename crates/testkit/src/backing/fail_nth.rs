//! Refuses a chosen call.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use allocator_api2::alloc::{AllocError, Allocator, Global};

use crate::violation::Refusing;

/// Which allocating calls are refused, and how many were. All through `&self`, while no call is in progress.
///
/// `allocate`, `allocate_zeroed`, `grow`, `grow_zeroed` and `shrink` are allocating calls, counted together, from 1.
#[derive(Debug, Default)]
pub struct Refusals {
    calls: AtomicUsize,
    refused: AtomicUsize,
    /// First call to refuse; 0 for none. As wide as a pointer, as all counts: not every target has 64-bit atomics.
    first: AtomicUsize,
    /// Last call to refuse.
    last: AtomicUsize,
}

impl Refusals {
    /// Refuses nothing until armed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            calls: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            first: AtomicUsize::new(0),
            last: AtomicUsize::new(0),
        }
    }

    /// Sets both counts to 0 and refuses from now on what `refusing` says.
    ///
    /// # Panics
    ///
    /// If it names call 0: the first call is call 1.
    pub fn arm(&self, refusing: Refusing) {
        // No program makes as many calls as do not fit.
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

    /// Allocating calls since it was last armed, refused ones included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed) as u64
    }

    /// Calls refused since it was last armed.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed) as u64
    }

    /// Counts a call and says whether it may go on.
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

/// Passes calls on until one that was chosen beforehand, which gets `AllocError`.
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
    /// Refuses on the way to the global allocator.
    #[must_use]
    pub const fn new() -> Self {
        Self::over(Global)
    }
}

impl<A> FailNth<A> {
    /// Refuses on the way to `inner`.
    #[must_use]
    pub const fn over(inner: A) -> Self {
        Self { inner, refusals: Refusals::new() }
    }

    /// The allocator below.
    #[must_use]
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Which calls are refused: arm it here.
    #[must_use]
    pub const fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}

// SAFETY: a call is passed on to `inner`, which keeps the contract, or refused with nothing changed.
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
        // SAFETY: the caller's duties are passed on as they are.
        unsafe { self.inner.deallocate(ptr, layout) };
    }

    unsafe fn grow(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.refusals.admit()?;
        // SAFETY: the caller's duties are passed on as they are.
        unsafe { self.inner.grow(ptr, old, new) }
    }

    unsafe fn grow_zeroed(
        &self,
        ptr: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        self.refusals.admit()?;
        // SAFETY: the caller's duties are passed on as they are.
        unsafe { self.inner.grow_zeroed(ptr, old, new) }
    }

    unsafe fn shrink(&self, ptr: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.refusals.admit()?;
        // SAFETY: the caller's duties are passed on as they are.
        unsafe { self.inner.shrink(ptr, old, new) }
    }
}
