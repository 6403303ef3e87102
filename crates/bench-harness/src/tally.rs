//! Counts what reaches a contender: for the check run and the memory pass, never for a timed one.

mod buffers;
mod nodes;
pub(crate) mod watch;

use core::alloc::Layout;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use self::buffers::{CountedBuffer, OwnLife, Several};
#[cfg(ephemera_cpp)]
pub(crate) use self::nodes::add_allocations;
use crate::blocks::{Contender, RawAlloc};
use crate::card::Info;
use crate::objects::{Maker, Object, RawPool};

static ALLOCS: AtomicU64 = AtomicU64::new(0);
static RESIZES: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
static DAMAGED: AtomicU64 = AtomicU64::new(0);

/// What was counted since the last [`reset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CallTally {
    /// Allocations that reached the contender.
    pub allocs: u64,
    /// Grows and shrinks that reached it.
    pub resizes: u64,
    /// Blocks given back.
    pub frees: u64,
    /// Bytes asked for in all.
    pub bytes: u64,
    /// Most bytes alive at a time.
    pub peak_live: u64,
    /// Blocks that did not hold what was written into them.
    pub damaged: u64,
}

/// Starts again from zero.
pub fn reset() {
    for counter in [&ALLOCS, &RESIZES, &FREES, &BYTES, &LIVE, &PEAK, &DAMAGED] {
        counter.store(0, Relaxed);
    }
}

/// Reads the counters; exact when no thread is using a counted contender.
pub fn read() -> CallTally {
    CallTally {
        allocs: ALLOCS.load(Relaxed),
        resizes: RESIZES.load(Relaxed),
        frees: FREES.load(Relaxed),
        bytes: BYTES.load(Relaxed),
        peak_live: PEAK.load(Relaxed),
        damaged: DAMAGED.load(Relaxed),
    }
}

/// Notes a block whose contents changed under its holder.
#[cold]
pub fn damaged() {
    DAMAGED.fetch_add(1, Relaxed);
}

fn born(bytes: usize) {
    BYTES.fetch_add(bytes as u64, Relaxed);
    let live = LIVE.fetch_add(bytes as u64, Relaxed) + bytes as u64;
    PEAK.fetch_max(live, Relaxed);
    watch::note(ALLOCS.load(Relaxed), live);
}

fn died(bytes: usize) {
    LIVE.fetch_sub(bytes as u64, Relaxed);
}

/// A contender whose calls are counted, and whose workloads verify what they wrote.
#[derive(Debug)]
pub struct Counted<C>(C);

impl<C: Contender> Contender for Counted<C> {
    const INFO: Info = C::INFO;
    type Metered = Self;
    type Backing = C::Backing;
    type Ref<'a> = CountedRef<C::Ref<'a>>;

    fn create() -> Self {
        Self(C::create())
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        CountedRef(self.0.by_ref())
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn expect_live(&mut self, bytes: usize) {
        self.0.expect_live(bytes);
    }
}

/// The reference that [`Counted`] lends.
#[derive(Clone, Copy, Debug)]
pub struct CountedRef<R>(R);

// SAFETY: every call is forwarded to the contender's own reference, which keeps the contract.
unsafe impl<R: RawAlloc> RawAlloc for CountedRef<R> {
    const CHECKED: bool = true;

    unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCS.fetch_add(1, Relaxed);
        born(layout.size());
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.raw_alloc(layout) }
    }

    unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCS.fetch_add(1, Relaxed);
        born(layout.size());
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.raw_alloc_zeroed(layout) }
    }

    unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout) {
        FREES.fetch_add(1, Relaxed);
        died(layout.size());
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.raw_dealloc(ptr, layout) }
    }

    unsafe fn raw_grow(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        RESIZES.fetch_add(1, Relaxed);
        died(old.size());
        born(new.size());
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.raw_grow(ptr, old, new) }
    }

    unsafe fn raw_shrink(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        RESIZES.fetch_add(1, Relaxed);
        died(old.size());
        born(new.size());
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.raw_shrink(ptr, old, new) }
    }
}

impl<M: Maker> Maker for Counted<M> {
    const INFO: Info = M::INFO;
    type Pool<T: Object> = Counted<M::Pool<T>>;

    fn make<T: Object>() -> Self::Pool<T> {
        Counted(M::make())
    }

    fn make_for<T: Object>(objects: usize) -> Self::Pool<T> {
        Counted(M::make_for(objects))
    }
}

// SAFETY: every call is forwarded to the contender's own pool, which keeps the contract.
unsafe impl<T: Object, P: RawPool<T>> RawPool<T> for Counted<P> {
    const CHECKED: bool = true;
    type Handle = P::Handle;

    fn raw_put(&self, value: T) -> Option<P::Handle> {
        ALLOCS.fetch_add(1, Relaxed);
        born(size_of::<T>());
        self.0.raw_put(value)
    }

    unsafe fn look<R>(&self, handle: &P::Handle, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.look(handle, look) }
    }

    unsafe fn raw_take(&self, handle: P::Handle) {
        FREES.fetch_add(1, Relaxed);
        died(size_of::<T>());
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.raw_take(handle) }
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn expect_live(&mut self, objects: usize) {
        self.0.expect_live(objects);
    }
}
