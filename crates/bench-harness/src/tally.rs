//! Counts the calls that reach a contender in a counted run, which is a check or the memory pass.
//! Calls in timed runs are not counted.

pub(crate) mod watch;

use core::alloc::Layout;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use crate::blocks::{Contender, RawAlloc};
use crate::buffers::{Buffer, Demand, Readable, Source};
use crate::card::Info;
use crate::nodes::{Node, NodeFamily};
use crate::objects::{Maker, Object};
use crate::pools::RawPool;

static ALLOCS: AtomicU64 = AtomicU64::new(0);
static RESIZES: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
static DAMAGED: AtomicU64 = AtomicU64::new(0);

/// The numbers of calls since the last reset, and the peak of live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CallTally {
    /// The number of allocations.
    pub allocs: u64,
    /// The number of calls that grow or shrink a block.
    pub resizes: u64,
    /// The number of frees.
    pub frees: u64,
    /// The largest number of bytes that were live at once.
    pub peak_live: u64,
    /// The number of times that the workload read other contents than it wrote.
    pub damaged: u64,
}

pub(crate) fn reset() {
    for counter in [&ALLOCS, &RESIZES, &FREES, &LIVE, &PEAK, &DAMAGED] {
        counter.store(0, Relaxed);
    }
}

/// Reads the counters. The result is exact if no thread uses a counted contender at the same time.
pub(crate) fn read() -> CallTally {
    CallTally {
        allocs: ALLOCS.load(Relaxed),
        resizes: RESIZES.load(Relaxed),
        frees: FREES.load(Relaxed),
        peak_live: PEAK.load(Relaxed),
        damaged: DAMAGED.load(Relaxed),
    }
}

/// Counts a read of contents that changed while the workload held them.
#[cold]
pub(crate) fn damaged() {
    DAMAGED.fetch_add(1, Relaxed);
}

fn born(bytes: usize) {
    let live = LIVE.fetch_add(bytes as u64, Relaxed) + bytes as u64;
    PEAK.fetch_max(live, Relaxed);
    watch::note(ALLOCS.load(Relaxed), live);
}

fn died(bytes: usize) {
    LIVE.fetch_sub(bytes as u64, Relaxed);
}

/// A contender, a reference to one or a pool whose calls are counted. Workloads over it verify the
/// bytes that they wrote.
#[derive(Clone, Copy)]
pub(crate) struct Counted<C>(C);

impl<C: Contender> Contender for Counted<C> {
    const INFO: Info = C::INFO;
    type Metered = Self;
    type Backing = C::Backing;
    type Ref<'a> = Counted<C::Ref<'a>>;

    fn create() -> Self {
        Self(C::create())
    }

    fn by_ref(&self) -> Self::Ref<'_> {
        Counted(self.0.by_ref())
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn expect_live(&mut self, bytes: usize) {
        self.0.expect_live(bytes);
    }
}

// SAFETY: every call is forwarded to the contender's own reference, which upholds the contract.
unsafe impl<R: RawAlloc> RawAlloc for Counted<R> {
    const CHECKED: bool = true;

    unsafe fn raw_alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCS.fetch_add(1, Relaxed);
        born(layout.size());
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.0.raw_alloc(layout) }
    }

    unsafe fn raw_alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCS.fetch_add(1, Relaxed);
        born(layout.size());
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.0.raw_alloc_zeroed(layout) }
    }

    unsafe fn raw_dealloc(&self, ptr: *mut u8, layout: Layout) {
        FREES.fetch_add(1, Relaxed);
        died(layout.size());
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.0.raw_dealloc(ptr, layout) }
    }

    unsafe fn raw_resize<const GROW: bool>(&self, ptr: *mut u8, old: Layout, new: Layout) -> *mut u8 {
        RESIZES.fetch_add(1, Relaxed);
        died(old.size());
        born(new.size());
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.0.raw_resize::<GROW>(ptr, old, new) }
    }
}

impl<M: Maker> Maker for Counted<M> {
    const INFO: Info = M::INFO;
    type Pool<T: Object> = Counted<M::Pool<T>>;

    fn make<T: Object>(objects: usize) -> Self::Pool<T> {
        Counted(M::make(objects))
    }
}

// SAFETY: every call is forwarded to the contender's own pool, which upholds the contract.
unsafe impl<T, P: RawPool<T>> RawPool<T> for Counted<P> {
    const CHECKED: bool = true;
    type Handle = P::Handle;

    unsafe fn raw_put(&self, value: T) -> Option<P::Handle> {
        ALLOCS.fetch_add(1, Relaxed);
        born(size_of::<T>());
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.0.raw_put(value) }
    }

    unsafe fn look<R>(&self, handle: &P::Handle, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.0.look(handle, look) }
    }

    unsafe fn raw_take(&self, handle: P::Handle) {
        FREES.fetch_add(1, Relaxed);
        died(size_of::<T>());
        // SAFETY: the caller upholds the callee's contract.
        unsafe { self.0.raw_take(handle) }
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn expect_live(&mut self, objects: usize) {
        self.0.expect_live(objects);
    }
}

impl<F: NodeFamily> NodeFamily for Counted<F> {
    const INFO: Info = F::INFO;
    type Box<T: Node> = F::Box<T>;
    type Pool<T: Node> = Counted<F::Pool<T>>;
    type Metered = Self;
    type Backing = F::Backing;

    fn create() -> Self {
        Self(F::create())
    }

    fn pool<T: Node>(&self) -> Self::Pool<T> {
        Counted(self.0.pool())
    }

    fn reset(&mut self) {
        // A reset also frees the nodes that were not freed individually.
        LIVE.store(0, Relaxed);
        self.0.reset();
    }
}

/// The size of one counted buffer, in bytes. `begin` counts an allocation, and `drop` counts a
/// free.
pub(crate) struct BufferLife(usize);

impl BufferLife {
    fn begin(bytes: usize) -> Self {
        ALLOCS.fetch_add(1, Relaxed);
        born(bytes);
        Self(bytes)
    }
}

impl Drop for BufferLife {
    fn drop(&mut self) {
        FREES.fetch_add(1, Relaxed);
        died(self.0);
    }
}

/// A counted buffer. The handles of a frozen buffer share one [`BufferLife`].
#[derive(Clone)]
pub(crate) struct CountedBuffer<B, L = BufferLife> {
    inner: B,
    life: L,
}

impl<B: Readable, L> Readable for CountedBuffer<B, L> {
    fn start(&self) -> *const u8 {
        self.inner.start()
    }

    fn read(&self, each: impl FnMut(&[u8])) {
        self.inner.read(each);
    }
}

impl<B: Buffer> Buffer for CountedBuffer<B> {
    type Frozen = CountedBuffer<B::Frozen, Arc<BufferLife>>;

    fn write(&mut self, bytes: &[u8]) {
        self.inner.write(bytes);
    }

    fn freeze(self) -> Self::Frozen {
        CountedBuffer { inner: self.inner.freeze(), life: Arc::new(self.life) }
    }
}

// SAFETY: every call is forwarded to the contender's own source, which upholds the contract.
unsafe impl<S: Source> Source for Counted<S> {
    const INFO: Info = S::INFO;
    const CHECKED: bool = true;
    type Backing = S::Backing;
    type Buf = CountedBuffer<S::Buf>;

    fn create(demand: &Demand) -> Self {
        Self(S::create(demand))
    }

    unsafe fn raw_take(&mut self, capacity: usize) -> Option<Self::Buf> {
        // A refused request counts as an allocation and, at once, as a free. The buffer that the
        // heap serves instead is not counted.
        let life = BufferLife::begin(capacity);
        // SAFETY: the caller upholds the callee's contract.
        Some(CountedBuffer { inner: unsafe { self.0.raw_take(capacity) }?, life })
    }

    unsafe fn raw_grown(
        &mut self,
        first: usize,
        pieces: impl Iterator<Item: AsRef<[u8]>>,
    ) -> Option<Self::Buf> {
        let mut life = BufferLife::begin(0);
        // Counts the bytes as the buffer grows.
        let counted = pieces.inspect(|piece| {
            life.0 += piece.as_ref().len();
            born(piece.as_ref().len());
        });
        // SAFETY: the caller upholds the callee's contract.
        Some(CountedBuffer { inner: unsafe { self.0.raw_grown(first, counted) }?, life })
    }
}

/// Adds the allocations that a contender written in C++ counted itself.
#[cfg(ephemera_cpp)]
pub(crate) fn add_allocations(allocations: u64) {
    ALLOCS.fetch_add(allocations, Relaxed);
}
