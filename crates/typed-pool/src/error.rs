//! `TryAllocError`: the error of an allocation that failed, with the value that was not stored.

use core::alloc::Layout;
use core::error::Error;
use core::fmt;

use allocator_api2::alloc::AllocError;

/// The error of an allocation that would exceed the limit, or that the backing allocator refused.
/// It holds the value that was not stored.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use typed_pool::TypedPool;
///
/// let pool: TypedPool<u64> = TypedPool::builder().limit(0).build();
/// let refused = pool.try_alloc(7).unwrap_err();
/// assert_eq!(refused.to_string(), "no slot for a value of 8 bytes, aligned to 8");
/// assert_eq!(refused.into_value(), 7);
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TryAllocError<T>(T);

impl<T> TryAllocError<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value that was not stored.
    #[inline]
    pub fn into_value(self) -> T {
        self.0
    }

    /// Returns the layout of the value: its size and alignment in bytes.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        Layout::new::<T>()
    }
}

impl<T> fmt::Debug for TryAllocError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryAllocError").field("layout", &self.layout()).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for TryAllocError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = self.layout();
        write!(f, "no slot for a value of {} bytes, aligned to {}", layout.size(), layout.align())
    }
}

impl<T> Error for TryAllocError<T> {}

impl<T> From<TryAllocError<T>> for AllocError {
    fn from(_: TryAllocError<T>) -> Self {
        Self
    }
}
