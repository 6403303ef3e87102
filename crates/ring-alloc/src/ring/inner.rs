//! Defines the state that all handles of one ring share.
//!
//! # Invariant
//! * **I1** The state lives while `handles` is not zero, and `handles` counts each handle once.

use core::alloc::Layout;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::account::{Account, Limit, LocalAccount};
use ephemera_prim::raw;

use super::source::ChunkSource;
use crate::chunk::{self, ChunkPtr};
use crate::geometry::{self, ChunkClass, Geometry};
use crate::heap::{self, ChunkHeap, RingEnv};
use crate::live::LiveCount;
use crate::stats::Stats;

#[repr(C)]
pub(super) struct Inner<A: Allocator, G: Geometry> {
    heap: ChunkHeap,
    handles: Cell<usize>,
    account: LocalAccount,
    retain: usize,
    source: ChunkSource<A>,
    geometry: PhantomData<fn() -> G>,
}

// The documentation of `RingAlloc::new` and `Builder::limit` states this size.
#[cfg(all(feature = "alloc", target_pointer_width = "64", not(ephemera_loom)))]
const _: () = assert!(size_of::<Inner<allocator_api2::alloc::Global, geometry::Standard>>() == 256);

impl<A: Allocator, G: Geometry> Inner<A, G> {
    const LAYOUT: Layout = Layout::new::<Self>();

    /// Creates the state of a new ring, with one handle.
    pub(super) fn create(
        limit: usize,
        retain: usize,
        source: ChunkSource<A>,
    ) -> Result<NonNull<Self>, AllocError> {
        const { geometry::check::<G>(chunk::headers::<G>()) };
        let account = LocalAccount::new(limit);
        if !account.reserve(Self::LAYOUT.size()) {
            return Err(AllocError);
        }
        let place = raw::acquire(&source.allocator, Self::LAYOUT)?.cast::<Self>();
        let heap = ChunkHeap::new();
        heap.enter();
        let inner = Self { heap, handles: Cell::new(1), account, retain, source, geometry: PhantomData };
        // SAFETY: `place` is new memory of this layout, which nothing else uses.
        unsafe { place.write(inner) };
        Ok(place)
    }

    /// Adds a handle to the count. Aborts if the count would overflow.
    #[inline]
    pub(super) fn add_handle(&self) {
        let handles = self.handles.get();
        if handles == usize::MAX {
            abort();
        }
        self.handles.set(handles + 1);
    }

    /// Removes a handle from the count. Returns whether it was the last one.
    #[inline]
    pub(super) fn drop_handle(&self) -> bool {
        let handles = self.handles.get() - 1;
        self.handles.set(handles);
        handles == 0
    }

    /// Frees every chunk without a live block, then the state. Leaks chunks with live blocks,
    /// because a block may be pinned by `Pin`, or contain the very value that is being dropped.
    ///
    /// # Safety
    /// No handle is left (I1).
    #[cold]
    pub(super) unsafe fn destroy(this: NonNull<Self>) {
        let left = {
            // SAFETY: no handle is left, and the state is freed only below.
            let inner = unsafe { this.as_ref() };
            let (chunks, large) = (heap::dissolve(inner), inner.account.now());
            (chunks.0 + large.large_blocks, chunks.1 + large.large_bytes)
        };
        // SAFETY: the state is freed only below.
        let source = unsafe { &raw const (*this.as_ptr()).source };
        // SAFETY: the state is not freed yet, and the field is not read again.
        let source = ManuallyDrop::new(unsafe { source.read() });
        // SAFETY: the state was acquired from this allocator with this layout, and nothing uses it
        // again.
        unsafe { raw::release(&source.allocator, this.cast(), Self::LAYOUT) };
        // Drop the backing allocator only if no block is live, because its drop may free the memory
        // of the blocks. If the backing allocator unwinds from `release`, against its contract, it
        // is not dropped either.
        if left.0 == 0 {
            drop(ManuallyDrop::into_inner(source));
        } else {
            report(left);
        }
    }

    pub(super) fn stats(&self) -> Stats {
        let mut stats = Stats::of_account(self.account.now());
        stats.add_heap::<G>(&self.heap);
        stats
    }
}

// SAFETY: handles do not leave their thread, so that thread owns the heap (H1), which `create`
// entered. All chunks of the ring belong to this heap and come from `source`.
unsafe impl<A: Allocator, G: Geometry> RingEnv for &Inner<A, G> {
    type Geometry = G;
    type Backing = ChunkSource<A>;
    type Account = LocalAccount;

    #[inline]
    fn heap(&self) -> &ChunkHeap {
        &self.heap
    }

    #[inline]
    fn refill(self, layout: Layout, class: ChunkClass, limit: Limit) -> Result<NonNull<u8>, AllocError> {
        heap::refill(self, layout, class, limit)
    }

    fn backing(&self) -> &ChunkSource<A> {
        &self.source
    }

    fn account(&self) -> &LocalAccount {
        &self.account
    }

    fn identity(&self) -> *const () {
        ptr::null()
    }

    #[inline]
    fn owns(&self, _: ChunkPtr) -> bool {
        true
    }

    fn retain(&self) -> usize {
        self.retain
    }

    #[inline]
    unsafe fn free_remotely(self, _: ChunkPtr, _: LiveCount) {
        ephemera_prim::invariant!(false, "a ring for one thread owns all of its chunks");
    }
}

/// Reports on standard error that blocks outlive their ring, in debug builds with `std`. This
/// function must not unwind, so it ignores write errors.
#[cold]
fn report((blocks, bytes): (usize, usize)) {
    #[cfg(all(feature = "std", debug_assertions))]
    {
        use std::io::Write;
        let _ = std::writeln!(
            std::io::stderr(),
            "ring-alloc: a RingAlloc was dropped with {blocks} live blocks ({bytes} bytes), which are leaked"
        );
    }
    #[cfg(not(all(feature = "std", debug_assertions)))]
    let _ = (blocks, bytes);
}

/// Aborts because the count of handles would overflow, which takes 2^32 leaked handles or more.
/// Without `std`, panics instead: a panic cannot leave an `extern "C"` function, so it aborts.
#[cold]
extern "C" fn abort() -> ! {
    #[cfg(feature = "std")]
    std::process::abort();
    #[cfg(not(feature = "std"))]
    panic!("the count of RingAlloc handles overflowed");
}
