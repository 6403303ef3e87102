//! Objects of one type: the traits that contenders implement.
//!
//! Some pools hand out their own boxes, others keys or raw slots, so each pool defines the type of
//! its handles, and a workload frees an object through `RawPool::take`.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use typed_pool::Pooled;

use crate::card::Info;
use crate::nodes::Node;
use crate::pools::RawPool;

/// A type of object in a pool. `PooledBox` requires the supertrait `Pooled`.
pub(crate) trait Object: Send + Sync + Pooled + Node {
    /// Creates an object that holds `tag` in every word.
    fn new(tag: u64) -> Self;

    /// Returns the first and the last word of the object.
    fn ends(&self) -> (u64, u64);
}

/// An object of `N` words.
pub(crate) struct WordObject<const N: usize>([u64; N]);

impl<const N: usize> Object for WordObject<N>
where
    Self: Pooled,
{
    #[inline(always)]
    fn new(tag: u64) -> Self {
        Self([tag; N])
    }

    #[inline(always)]
    fn ends(&self) -> (u64, u64) {
        (self.0[0], self.0[N - 1])
    }
}

/// An object of one word, which is written through a shared reference.
pub(crate) struct Counter(pub(crate) AtomicU64);

impl Object for Counter {
    #[inline(always)]
    fn new(tag: u64) -> Self {
        Self(AtomicU64::new(tag))
    }

    #[inline(always)]
    fn ends(&self) -> (u64, u64) {
        let word = self.0.load(Relaxed);
        (word, word)
    }
}

/// A contender that makes pools for objects of any type.
pub(crate) trait Maker: 'static {
    const INFO: Info;

    /// The pool of values of type `T`.
    type Pool<T: Object>: RawPool<T>;

    /// Creates a pool for at most `objects` live objects, a number that a user would know in
    /// advance. Only bounded pools use this number.
    fn make<T: Object>(objects: usize) -> Self::Pool<T>;
}
