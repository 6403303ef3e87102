//! The allocators that the program runs over.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use ring_alloc::OneRingAlloc;
use ringal::{FixedBufMut, RingAl};
use shared_arena::{ArenaBox, SharedArena};
use typed_pool::{PooledAllocator, PooledBox, pooled};

use crate::traced::{LARGEST, TracedAllocator, TracedRun};
use crate::workloads;

/// Runs a workload over the contender with this key. Returns `None`, without running anything, if
/// this build has no such contender.
pub(crate) fn run(key: &str, run: &TracedRun) -> Option<()> {
    match key {
        "glibc" => workloads::run(&Global(System), run),
        "one-ring" => workloads::run(&Chunked(OneRingAlloc), run),
        "pooled-allocator" => workloads::run(&Chunked(PooledAllocator), run),
        "pooled-box" => workloads::run(&PooledBoxes, run),
        "shared" => workloads::run(&ArenaSlots(SharedArena::new()), run),
        "ringal" => workloads::run(&Rings, run),
        #[cfg(feature = "c-peers")]
        "mimalloc" => workloads::run(&Global(mimalloc::MiMalloc), run),
        #[cfg(feature = "c-peers")]
        "jemalloc" => workloads::run(&Global(tikv_jemallocator::Jemalloc), run),
        #[cfg(feature = "cpp-peers")]
        "snmalloc" => workloads::run(&Global(snmalloc_rs::SnMalloc), run),
        _ => return None,
    }
    Some(())
}

/// A block with the function that frees it.
pub(crate) struct TracedBlock {
    ptr: NonNull<u8>,
    layout: Layout,
    free: unsafe fn(NonNull<u8>, Layout),
}

// SAFETY: each contender that hands out blocks can free them on any thread, and a block has one
// owner.
unsafe impl Send for TracedBlock {}

impl Drop for TracedBlock {
    fn drop(&mut self) {
        // SAFETY: the allocator that `free` calls allocated the block with this layout. The block
        // is live, because only this drop frees it.
        unsafe { (self.free)(self.ptr, self.layout) };
    }
}

impl TracedBlock {
    fn new(ptr: Option<NonNull<u8>>, layout: Layout, free: unsafe fn(NonNull<u8>, Layout)) -> Self {
        Self { ptr: ptr.expect("the host has memory"), layout, free }
    }

    fn fill(&mut self) {
        // SAFETY: the block is live, has this size, and this thread owns it.
        unsafe { self.ptr.write_bytes(1, self.layout.size()) };
        black_box(self);
    }

    fn look(&self) {
        // SAFETY: `fill` wrote all bytes of the live block, and only its owner writes it.
        let bytes = unsafe { NonNull::slice_from_raw_parts(self.ptr, self.layout.size()).as_ref() };
        look(bytes);
    }
}

/// Reads every 64th byte.
#[inline(always)]
fn look(bytes: &[u8]) {
    black_box(bytes.iter().step_by(64).fold(0, |sum, byte| sum ^ byte));
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).expect("the size is small")
}

/// Defines a type that wraps a zero-sized allocator and implements [`TracedAllocator`] with items
/// of type [`TracedBlock`].
macro_rules! of_blocks {
    ($name:ident: $api:ident, $alloc:expr, $free:expr) => {
        struct $name<A>(A);

        impl<A: $api + Sync> TracedAllocator for $name<A> {
            type Item = TracedBlock;
            type Heap = ();

            fn heap(&self) {}

            #[inline(always)]
            fn make(&self, _heap: &mut (), bytes: usize) -> TracedBlock {
                const { assert!(size_of::<A>() == 0, "a free needs a zero-sized allocator") };
                let layout = layout(bytes);
                TracedBlock::new($alloc(&self.0, layout), layout, $free)
            }

            fn fill(item: &mut TracedBlock) {
                item.fill();
            }

            fn look(item: &TracedBlock) {
                item.look();
            }
        }
    };
}

of_blocks! {
    Global: GlobalAlloc,
    // SAFETY: no requested size is zero.
    |alloc: &A, layout| NonNull::new(unsafe { alloc.alloc(layout) }),
    |ptr, layout| {
        let alloc = NonNull::<A>::dangling();
        // SAFETY: `A` is zero-sized (`make` asserts it), so a dangling pointer to `A` is valid.
        let alloc = unsafe { alloc.as_ref() };
        // SAFETY: `TracedBlock::drop` passes a live block of this allocator with its layout.
        unsafe { alloc.dealloc(ptr.as_ptr(), layout) };
    }
}

of_blocks! {
    Chunked: Allocator,
    |alloc: &A, layout| alloc.allocate(layout).ok().map(NonNull::cast),
    |ptr, layout| {
        let alloc = NonNull::<A>::dangling();
        // SAFETY: `A` is zero-sized (`make` asserts it), so a dangling pointer to `A` is valid.
        let alloc = unsafe { alloc.as_ref() };
        // SAFETY: `TracedBlock::drop` passes a live block of this allocator with its layout.
        unsafe { alloc.deallocate(ptr, layout) };
    }
}

/// A value of 48 bytes. Its bytes are uninitialised until `fill` writes them.
pub(crate) struct Value(MaybeUninit<[u64; 6]>);

impl Value {
    fn fill(&mut self) {
        self.0.write([1; 6]);
        black_box(self);
    }

    fn look(&self) {
        black_box(self);
        // SAFETY: workloads fill each item before they look at it.
        black_box(unsafe { self.0.assume_init_ref() }[0]);
    }
}

pooled!(Value);

/// The contender `pooled-box`: values of one type.
struct PooledBoxes;

impl TracedAllocator for PooledBoxes {
    type Item = PooledBox<Value>;
    type Heap = ();

    fn heap(&self) {}

    fn make(&self, _heap: &mut (), _bytes: usize) -> Self::Item {
        PooledBox::new(Value(MaybeUninit::uninit()))
    }

    fn fill(item: &mut Self::Item) {
        Value::fill(item);
    }

    fn look(item: &Self::Item) {
        Value::look(item);
    }
}

/// The contender `shared`: an arena that all threads share.
struct ArenaSlots(SharedArena<Value>);

impl TracedAllocator for ArenaSlots {
    type Item = ArenaBox<Value>;
    type Heap = ();

    fn heap(&self) {}

    fn make(&self, _heap: &mut (), _bytes: usize) -> Self::Item {
        self.0.alloc(Value(MaybeUninit::uninit()))
    }

    fn fill(item: &mut Self::Item) {
        Value::fill(item);
    }

    fn look(item: &Self::Item) {
        Value::look(item);
    }
}

/// The contender `ringal`: each thread has its own ring of byte buffers.
struct Rings;

impl TracedAllocator for Rings {
    type Item = FixedBufMut;
    type Heap = RingAl;

    fn heap(&self) -> RingAl {
        RingAl::new(1 << 20)
    }

    fn make(&self, heap: &mut RingAl, bytes: usize) -> FixedBufMut {
        heap.fixed(bytes).expect("the ring is larger than all live buffers")
    }

    fn fill(item: &mut FixedBufMut) {
        let bytes = item.capacity().min(LARGEST);
        item.write_all(&[1; LARGEST][..bytes]).expect("the buffer has room");
    }

    fn look(item: &FixedBufMut) {
        look(item);
    }
}
