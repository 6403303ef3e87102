//! The traits that a box forwards to its value, and the conversions that create boxes.

use core::error::Error;
use core::future::Future;
use core::hash::Hasher;
use core::iter::FusedIterator;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::{BoxPool, PoolOf, PooledBox};
use crate::forward::forward_to_value;

impl<T: Default, P: PoolOf<T>> Default for PooledBox<T, P> {
    /// Creates a box with the default value of `T`, in the pool of the calling thread.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the pool has no memory for a slot.
    fn default() -> Self {
        Self::make_with(T::default)
    }
}

impl<T, P: PoolOf<T>> From<T> for PooledBox<T, P> {
    /// Moves the value into a box, in the pool of the calling thread.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the pool has no memory for a slot.
    fn from(value: T) -> Self {
        Self::make(value)
    }
}

impl<T: ?Sized, P: BoxPool> From<PooledBox<T, P>> for Pin<PooledBox<T, P>> {
    fn from(boxed: PooledBox<T, P>) -> Self {
        PooledBox::into_pin(boxed)
    }
}

impl<T: Clone, P: PoolOf<T>> Clone for PooledBox<T, P> {
    /// Clones the value into a slot of the calling thread's pool, even if another thread made this
    /// box.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the pool has no memory for a slot.
    fn clone(&self) -> Self {
        Self::make_with(|| T::clone(self))
    }

    fn clone_from(&mut self, source: &Self) {
        T::clone_from(self, source);
    }
}

forward_to_value!([T: ?Sized, P: BoxPool] PooledBox<T, P>, value);

/// Forwards each `write_*` method to the same method of the value, because a hasher may treat a
/// number differently from its bytes.
macro_rules! forward_writes {
    ($($name:ident: $number:ty),*) => {$(
        fn $name(&mut self, number: $number) {
            (**self).$name(number);
        }
    )*};
}

impl<T: ?Sized + Hasher, P: BoxPool> Hasher for PooledBox<T, P> {
    fn finish(&self) -> u64 {
        (**self).finish()
    }

    fn write(&mut self, bytes: &[u8]) {
        (**self).write(bytes);
    }

    forward_writes! {
        write_u8: u8, write_u16: u16, write_u32: u32, write_u64: u64, write_u128: u128, write_usize: usize,
        write_i8: i8, write_i16: i16, write_i32: i32, write_i64: i64, write_i128: i128, write_isize: isize
    }
}

impl<T: ?Sized + Iterator, P: BoxPool> Iterator for PooledBox<T, P> {
    type Item = T::Item;

    fn next(&mut self) -> Option<T::Item> {
        (**self).next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (**self).size_hint()
    }

    fn nth(&mut self, n: usize) -> Option<T::Item> {
        (**self).nth(n)
    }
}

impl<T: ?Sized + DoubleEndedIterator, P: BoxPool> DoubleEndedIterator for PooledBox<T, P> {
    fn next_back(&mut self) -> Option<T::Item> {
        (**self).next_back()
    }

    fn nth_back(&mut self, n: usize) -> Option<T::Item> {
        (**self).nth_back(n)
    }
}

impl<T: ?Sized + ExactSizeIterator, P: BoxPool> ExactSizeIterator for PooledBox<T, P> {
    fn len(&self) -> usize {
        (**self).len()
    }
}

impl<T: ?Sized + FusedIterator, P: BoxPool> FusedIterator for PooledBox<T, P> {}

impl<T: ?Sized + Future + Unpin, P: BoxPool> Future for PooledBox<T, P> {
    type Output = T::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T::Output> {
        Pin::new(&mut **self).poll(context)
    }
}

impl<T: ?Sized + Error, P: BoxPool> Error for PooledBox<T, P> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        (**self).source()
    }
}
