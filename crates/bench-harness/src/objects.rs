//! Objects of one type: the interface of contenders, and the calls of workloads.
//!
//! Pools hand out different things: their own boxes, keys, or raw slots. So the handle is the value
//! that a pool's user keeps, and a free is a call. As for blocks, every handle passes through
//! [`black_box`].

use core::hint::black_box;
use core::ops::DerefMut;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use typed_pool::Pooled;

use crate::card::Info;
use crate::contenders::blocks::System;
use crate::nodes::{Node, NodeFamily};

/// The type of the objects in a pool. One of the pools requires the supertrait `Pooled`.
pub(crate) trait Object: Send + Sync + Pooled + Node {
    /// Creates an object with `tag` in every word.
    fn new(tag: u64) -> Self;

    /// Returns the first and the last word.
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

/// A pool of values of one type, objects or nodes, as a workload sees it.
///
/// # Safety
///
/// * A handle names its own value, from [`raw_put`](Self::raw_put) to
///   [`raw_take`](Self::raw_take), at a fixed address. If
///   [`Caps::keeps_contents`](crate::card::Caps::keeps_contents) is off, values may overlap.
/// * If the maker's [`Caps::any_thread_free`](crate::card::Caps::any_thread_free) is on, `raw_take`
///   and `look` may be called on any thread at the same time as `raw_put`. If `shared_alloc` is on,
///   so may `raw_put`.
pub(crate) unsafe trait RawPool<T>: Sized + 'static {
    /// Whether the workload verifies the bytes that it wrote. Only a check run does; a timed run
    /// does not.
    const CHECKED: bool = false;

    /// The value that the pool's user keeps.
    type Handle: 'static;

    /// Puts a value into the pool. Returns `None` if the pool refuses.
    ///
    /// # Safety
    ///
    /// If a family made the pool, it exists. The handle is not used, dereferenced or dropped after
    /// the pool or its family ends or is reset.
    unsafe fn raw_put(&self, value: T) -> Option<Self::Handle>;

    /// Passes the value to `look`.
    ///
    /// # Safety
    ///
    /// This pool returned the handle, and it was not taken.
    unsafe fn look<R>(&self, handle: &Self::Handle, look: impl FnOnce(&T) -> R) -> R;

    /// Drops a value.
    ///
    /// # Safety
    ///
    /// This pool returned the handle, which is consumed.
    unsafe fn raw_take(&self, handle: Self::Handle);

    /// Frees everything at once, if the pool can. No value is live.
    fn reset(&mut self) {}

    /// Announces the number of live values at a time. Only the pool that does nothing uses it.
    fn expect_live(&mut self, values: usize) {
        let _ = values;
    }

    /// Puts a value into the pool for a workload, hidden from the optimiser.
    ///
    /// # Safety
    ///
    /// As for [`raw_put`](Self::raw_put).
    ///
    /// # Panics
    ///
    /// If the contender refuses. The workload ends, and its cell says so.
    #[inline(always)]
    unsafe fn put(&self, value: T) -> Self::Handle {
        // SAFETY: the caller's duty is the callee's.
        let Some(handle) = (unsafe { self.raw_put(value) }) else { refused::<T>() };
        black_box(handle)
    }

    /// Drops a value of a workload, hidden from the optimiser.
    ///
    /// # Safety
    ///
    /// As for [`raw_take`](Self::raw_take).
    #[inline(always)]
    unsafe fn take(&self, handle: Self::Handle) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.raw_take(black_box(handle)) }
    }
}

/// Ends a workload whose pool refused a value.
#[cold]
#[inline(never)]
fn refused<T>() -> ! {
    panic!("the pool refused a value of {} bytes", size_of::<T>());
}

/// A contender that makes pools of any type of object.
pub(crate) trait Maker: 'static {
    /// The contender's card.
    const INFO: Info;

    /// The pool of a type.
    type Pool<T: Object>: RawPool<T>;

    /// Creates a pool.
    fn make<T: Object>() -> Self::Pool<T>;

    /// Creates a pool for at most `objects` live objects, as its user would know. Only bounded
    /// pools use the number.
    fn make_for<T: Object>(objects: usize) -> Self::Pool<T> {
        let _ = objects;
        Self::make()
    }
}

/// A contender that makes pools of any type, whose handles dereference to their values. It takes
/// part as a maker of pools of objects, and of nodes.
pub(crate) trait PoolFamily: Default + 'static {
    /// The contender's card.
    const INFO: Info;

    /// The handle of a value.
    type Box<T: Node>: DerefMut<Target = T> + Unpin + 'static;

    /// The pool of a type.
    type Pool<T: Node>: RawPool<T, Handle = Self::Box<T>>;

    /// Creates a pool.
    fn pool_of<T: Node>() -> Self::Pool<T>;
}

impl<A: PoolFamily> Maker for A {
    const INFO: Info = A::INFO;
    type Pool<T: Object> = A::Pool<T>;

    fn make<T: Object>() -> Self::Pool<T> {
        A::pool_of()
    }
}

impl<A: PoolFamily> NodeFamily for A {
    const INFO: Info = A::INFO;
    type Box<T: Node> = A::Box<T>;
    type Pool<T: Node> = A::Pool<T>;
    type Metered = Self;
    type Backing = System;

    fn create() -> Self {
        Self::default()
    }

    fn pool<T: Node>(&self) -> Self::Pool<T> {
        A::pool_of()
    }
}
