//! The state that the handles of one ring share.
//!
//! # Invariant
//! * **I1** The state lives as long as `handles` is not zero, and each handle is counted in it once.

use core::alloc::Layout;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::raw;

use crate::account::{Account, Limit, LocalAccount};
use crate::chunk::{ChunkPtr, HEADER};
use crate::geometry::{self, Class, Geometry};
use crate::heap::{self, Env, Heap};
use crate::live::Live;
use crate::stats::Stats;

/// What a ring is made with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) limit: usize,
    pub(super) retain: usize,
}

#[repr(C)]
pub(super) struct Inner<A: Allocator, G: Geometry> {
    heap: Heap,
    handles: Cell<usize>,
    account: LocalAccount,
    retain: usize,
    backing: A,
    geometry: PhantomData<fn() -> G>,
}

impl<A: Allocator, G: Geometry> Inner<A, G> {
    const LAYOUT: Layout = Layout::new::<Self>();
    const GEOMETRY: () = geometry::check::<G>(HEADER);

    /// The state of a new ring, with one handle.
    pub(super) fn create(settings: Settings, backing: A) -> Result<NonNull<Self>, AllocError> {
        const { Self::GEOMETRY };
        let account = LocalAccount::new(settings.limit, 0);
        if !account.reserve(Self::LAYOUT.size()) {
            return Err(AllocError);
        }
        let place = raw::acquire(&backing, Self::LAYOUT)?.cast::<Self>();
        let heap = Heap::new();
        heap.enter();
        let retain = settings.retain;
        let inner = Self { heap, handles: Cell::new(1), account, retain, backing, geometry: PhantomData };
        // SAFETY: fresh memory of this layout.
        unsafe { place.write(inner) };
        Ok(place)
    }

    /// Counts one more handle.
    #[inline]
    pub(super) fn add_handle(&self) {
        let handles = self.handles.get();
        if handles == usize::MAX {
            abort();
        }
        self.handles.set(handles + 1);
    }

    /// Counts one handle less; `true` if that was the last one.
    #[inline]
    pub(super) fn drop_handle(&self) -> bool {
        let handles = self.handles.get() - 1;
        self.handles.set(handles);
        handles == 0
    }

    /// Frees the ring: every chunk without a live block, then the state. Chunks with live blocks are left alone,
    /// since a block may be pinned, or hold what is dropped right now.
    ///
    /// # Safety
    /// There is no handle any more (I1).
    #[cold]
    pub(super) unsafe fn destroy(this: NonNull<Self>) {
        let left = {
            // SAFETY: I1: the last handle is on its way out, the state is still there.
            let inner = unsafe { this.as_ref() };
            let (chunks, large) = (heap::dissolve(inner), inner.account.large_now());
            (chunks.0 + large.0, chunks.1 + large.1)
        };
        // SAFETY: as above.
        let backing = unsafe { &raw const (*this.as_ptr()).backing };
        // SAFETY: as above; nobody reads it again.
        let backing = ManuallyDrop::new(unsafe { backing.read() });
        // SAFETY: acquired with this layout from this backing allocator.
        unsafe { raw::release(&*backing, this.cast(), Self::LAYOUT) };
        // The memory of live blocks may go with their backing allocator. So it is dropped only where there are none, and not
        // if it unwinds above, against its contract.
        if left.0 == 0 {
            drop(ManuallyDrop::into_inner(backing));
        } else {
            report(left);
        }
    }

    pub(super) fn stats(&self) -> Stats {
        let mut stats = Stats::of_account(&self.account);
        stats.add_heap::<G>(&self.heap);
        stats
    }
}

// SAFETY: the handles do not leave their thread, which therefore owns the one heap; all its chunks come from `backing`.
unsafe impl<A: Allocator, G: Geometry> Env for &Inner<A, G> {
    type Geometry = G;
    type Backing = A;
    type Account = LocalAccount;

    #[inline]
    fn heap(&self) -> &Heap {
        &self.heap
    }

    #[inline]
    fn refill(self, layout: Layout, class: Class, limit: Limit) -> Result<NonNull<u8>, AllocError> {
        heap::refill(self, layout, class, limit)
    }

    fn backing(&self) -> &A {
        &self.backing
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

    fn settle(&self) {}

    fn trim_asked(&self) -> bool {
        false
    }

    fn last_resort(&self) {}

    #[inline]
    unsafe fn give_back(self, chunk: ChunkPtr, _: Live) {
        // It owns every chunk, so nothing comes here.
        ephemera_prim::invariant!(self.owns(chunk), "a ring for one thread met a chunk that is not its own");
    }
}

/// Says that blocks outlive their ring. Must not unwind, so an error of standard error is nobody's business.
#[cold]
fn report((blocks, bytes): (usize, usize)) {
    #[cfg(all(feature = "std", debug_assertions))]
    {
        use std::io::Write;
        let _ = std::writeln!(
            std::io::stderr(),
            "ring-alloc: a RingAlloc was dropped with {blocks} blocks ({bytes} bytes) alive; they are left alone"
        );
    }
    #[cfg(not(all(feature = "std", debug_assertions)))]
    let _ = (blocks, bytes);
}

/// The count of handles is about to overflow: handles were leaked, 2^32 of them at least.
#[cold]
fn abort() -> ! {
    #[cfg(feature = "std")]
    std::process::abort();
    #[cfg(not(feature = "std"))]
    {
        /// A panic while panicking aborts, which is the only abort that `core` has.
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("handles of a RingAlloc overflowed");
            }
        }
        let _bomb = Bomb;
        panic!("handles of a RingAlloc overflowed");
    }
}
