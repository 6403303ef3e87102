//! Contenders that hold the nodes of a data structure: allocators of blocks and pools of objects, side by side.

mod cpp;
mod handles;
mod heap;
mod lists;
mod pooled;

pub use self::heap::Heap;
#[cfg(feature = "cpp-peers")]
use super::blocks::SnMalloc;
#[cfg(feature = "rust-peers")]
use super::blocks::{Blink, BumpScope, Bumpalo, UpstreamOneRingAlloc, UpstreamRingAlloc};
#[cfg(feature = "c-peers")]
use super::blocks::{Jemalloc, MiMalloc};
use super::blocks::{OneRingAlloc, PooledAllocator, RingAlloc, System, Void};
#[cfg(feature = "rust-peers")]
use super::objects::{
    Multitude, Plurality, Textbook, TypedArena, UpstreamArena, UpstreamPool, UpstreamShared,
};
use super::objects::{OurArena, OurPool, OurShared, Typed};
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
        #[cfg(feature = "cpp-peers")]
        entry::<Heap<SnMalloc>>("snmalloc"),
        #[cfg(feature = "rust-peers")]
        entry::<Heap<Bumpalo>>("bumpalo"),
        #[cfg(feature = "rust-peers")]
        entry::<Heap<BumpScope>>("bump-scope"),
        #[cfg(feature = "rust-peers")]
        entry::<Heap<Blink<allocator_api2_04::alloc::Global>>>("blink-alloc"),
        #[cfg(feature = "rust-peers")]
        entry::<Textbook>("textbook"),
        #[cfg(feature = "rust-peers")]
        entry::<TypedArena>("typed-arena"),
        #[cfg(feature = "rust-peers")]
        entry::<Multitude>("multitude"),
        #[cfg(feature = "rust-peers")]
        entry::<Plurality>("plurality"),
        #[cfg(feature = "rust-peers")]
        entry::<UpstreamPool>("upstream-pool"),
        #[cfg(feature = "rust-peers")]
        entry::<UpstreamArena>("upstream-arena"),
        #[cfg(feature = "rust-peers")]
        entry::<UpstreamShared>("upstream-shared"),
        #[cfg(feature = "rust-peers")]
        entry::<Heap<UpstreamRingAlloc>>("upstream-ring"),
        #[cfg(feature = "rust-peers")]
        entry::<Heap<UpstreamOneRingAlloc>>("upstream-one-ring"),
        entry::<Heap<RingAlloc>>("ring"),
        entry::<Heap<OneRingAlloc>>("one-ring"),
        entry::<OurPool>("pool"),
        entry::<OurArena>("arena"),
        entry::<OurShared>("shared"),
        entry::<Typed>("typed-pool"),
        entry::<Heap<PooledAllocator>>("pooled-allocator"),
    ];
    all.extend(cpp::all());
    all
}
