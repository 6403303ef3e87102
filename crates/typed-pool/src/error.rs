//! `TryAllocError`: the error of a failed allocation. It holds the caller's value or initialiser.

use core::alloc::Layout;
use core::error::Error;
use core::fmt;
use core::marker::PhantomData;

use allocator_api2::alloc::AllocError;

/// The error of an allocation that would exceed the limit, or that the backing allocator refused.
/// It holds the caller's argument: the value, or the initialiser of a value of type `T`.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use typed_pool::TypedPool;
///
/// let pool: TypedPool<u64> = TypedPool::builder().limit(0).build();
/// let refused = pool.try_alloc(7).unwrap_err();
/// let text = refused.to_string();
/// assert!(text.starts_with("a value of 8 bytes, aligned to 8, was refused by the limit"));
/// assert_eq!(refused.into_value(), 7);
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TryAllocError<V, T = V>(V, PhantomData<fn() -> T>);

impl<V, T> TryAllocError<V, T> {
    pub(crate) const fn new(value: V) -> Self {
        Self(value, PhantomData)
    }

    /// Returns the value that was not stored, or the initialiser that was not called.
    #[inline]
    pub fn into_value(self) -> V {
        self.0
    }

    /// Returns the layout of the value: its size and alignment in bytes.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        Layout::new::<T>()
    }
}

impl<V, T> fmt::Debug for TryAllocError<V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryAllocError").field("layout", &self.layout()).finish_non_exhaustive()
    }
}

impl<V, T> fmt::Display for TryAllocError<V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = self.layout();
        let (size, align) = (layout.size(), layout.align());
        write!(
            f,
            "a value of {size} bytes, aligned to {align}, was refused by the limit or the backing allocator"
        )
    }
}

impl<V, T> Error for TryAllocError<V, T> {}

impl<V, T> From<TryAllocError<V, T>> for AllocError {
    fn from(_: TryAllocError<V, T>) -> Self {
        Self
    }
}
