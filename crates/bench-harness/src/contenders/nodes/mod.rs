//! Contenders that hold the nodes of a data structure: allocators of blocks and pools of objects, side by side.

mod cpp;
mod handles;
mod heap;
mod lists;
mod pooled;

pub use self::heap::Heap;
use super::blocks::{
    Blink, Bumpalo, OneRingAlloc, PooledAllocator, RingAlloc, System, UpstreamOneRingAlloc,
    UpstreamRingAlloc, Void,
};
#[cfg(feature = "c-peers")]
use super::blocks::{Jemalloc, MiMalloc};
use super::objects::{
    OurArena, OurPool, OurShared, Plurality, Textbook, Typed, TypedArena, UpstreamArena, UpstreamPool,
    UpstreamShared,
};
use super::{Entry, nodes as entry, twin};

/// The registry, in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    let mut all = vec![
        entry::<Heap<Void>>("nothing"),
        entry::<Heap<System>>("glibc"),
        twin(entry::<Heap<System>>("glibc-aa")),
        #[cfg(feature = "c-peers")]
        entry::<Heap<MiMalloc>>("mimalloc"),
        #[cfg(feature = "c-peers")]
        entry::<Heap<Jemalloc>>("jemalloc"),
        entry::<Heap<Bumpalo, System>>("bumpalo"),
        entry::<Heap<Blink<allocator_api2_04::alloc::Global>, System>>("blink-alloc"),
        entry::<Textbook>("textbook"),
        entry::<TypedArena>("typed-arena"),
        entry::<Plurality>("plurality"),
        entry::<UpstreamPool>("upstream-pool"),
        entry::<UpstreamArena>("upstream-arena"),
        entry::<UpstreamShared>("upstream-shared"),
        entry::<Heap<UpstreamRingAlloc, System>>("upstream-ring"),
        entry::<Heap<UpstreamOneRingAlloc, System>>("upstream-one-ring"),
        entry::<Heap<RingAlloc, System>>("ring"),
        entry::<Heap<OneRingAlloc, System>>("one-ring"),
        entry::<OurPool>("pool"),
        entry::<OurArena>("arena"),
        entry::<OurShared>("shared"),
        entry::<Typed>("typed-pool"),
        entry::<Heap<PooledAllocator, System>>("pooled-allocator"),
    ];
    all.extend(cpp::all());
    all
}
