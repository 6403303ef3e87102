//! Objects of one type: what a pool must offer to be a contender, and how a workload calls it.
//!
//! Pools differ in what they hand out: a box of their own, a key, a raw slot. So a handle here is whatever the pool's
//! users would keep, and giving it back is a call. As for blocks, every handle passes through [`black_box`] on its way.

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use typed_pool::Pooled;

use crate::card::Info;

/// What the workloads put into pools. The supertrait is what one of them asks of its types.
pub trait Object: Send + Sync + Pooled + 'static {
    /// Makes one, every word of it filled with `tag`.
    fn new(tag: u64) -> Self;

    /// Its first and its last word.
    fn ends(&self) -> (u64, u64);
}

/// An object of `N` words.
#[derive(Clone, Copy, Debug)]
pub struct WordObject<const N: usize>([u64; N]);

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

/// An object of one word that is written through a shared reference.
#[derive(Debug)]
pub struct Counter(pub AtomicU64);

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

/// A pool of objects, as the workloads see it.
///
/// # Safety
///
/// * A handle names an object of its own, from [`raw_put`](Self::raw_put) to [`raw_take`](Self::raw_take), at a fixed
///   address (unless [`Caps::keeps_contents`](crate::card::Caps::keeps_contents) is off: then objects may overlap).
/// * Where the maker's [`Caps::any_thread_free`](crate::card::Caps::any_thread_free) is on, `raw_take` and `look` may be
///   called on any thread at the same time as `raw_put`; where `shared_alloc` is on, so may `raw_put` itself.
pub unsafe trait RawPool<T: Object>: Sized + 'static {
    /// Whether the workload shall verify what it wrote: on in the check run alone, off in the timed one.
    const CHECKED: bool = false;

    /// What a user of the pool keeps.
    type Handle: 'static;

    /// Puts an object into the pool; `None` where it refuses.
    fn raw_put(&self, value: T) -> Option<Self::Handle>;

    /// Shows the object to `look`.
    ///
    /// # Safety
    ///
    /// The handle came from this pool and was not taken.
    unsafe fn look<R>(&self, handle: &Self::Handle, look: impl FnOnce(&T) -> R) -> R;

    /// Drops an object.
    ///
    /// # Safety
    ///
    /// The handle came from this pool; it is used up.
    unsafe fn raw_take(&self, handle: Self::Handle);

    /// Takes everything back at once, where the pool can; no object is alive.
    fn reset(&mut self) {}

    /// Tells how many objects will be alive at a time. Only the pool that does nothing listens.
    fn expect_live(&mut self, objects: usize) {
        let _ = objects;
    }

    /// What a workload calls to make an object: hidden from the optimiser.
    ///
    /// # Panics
    ///
    /// When the contender refuses: a workload that a contender cannot serve ends, and its cell says so.
    #[inline(always)]
    fn put(&self, value: T) -> Self::Handle {
        let Some(handle) = self.raw_put(value) else { refused::<T>() };
        black_box(handle)
    }

    /// What a workload calls to drop an object, hidden from the optimiser.
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

/// Ends a workload whose pool refused an object.
#[cold]
#[inline(never)]
fn refused<T>() -> ! {
    panic!("the pool refused an object of {} bytes", size_of::<T>());
}

/// A contender: makes pools of any type.
pub trait Maker: 'static {
    /// Its card.
    const INFO: Info;

    /// The pool of a type.
    type Pool<T: Object>: RawPool<T>;

    /// Makes a pool.
    fn make<T: Object>() -> Self::Pool<T>;

    /// Makes a pool of which so many objects will be alive at a time at most, as its user would know. Only pools that keep a
    /// bounded number listen.
    fn make_for<T: Object>(objects: usize) -> Self::Pool<T> {
        let _ = objects;
        Self::make()
    }
}
