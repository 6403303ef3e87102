//! Contenders that hold the nodes of a data structure: allocators of blocks and pools of objects, side by side.

mod cpp;
mod handles;
mod heap;
mod lists;
mod pooled;

pub use self::heap::NodeHeap;
#[cfg(feature = "cpp-peers")]
use super::blocks::SnMalloc;
#[cfg(feature = "rust-peers")]
use super::blocks::{Blink, BumpScope, Bumpalo, UpstreamOneRing, UpstreamRing};
#[cfg(feature = "c-peers")]
use super::blocks::{Jemalloc, MiMalloc};
use super::blocks::{OurOneRing, OurPooled, OurRing, System, Void};
#[cfg(feature = "rust-peers")]
use super::objects::{
    Multitude, Plurality, Textbook, TypedArena, UpstreamArena, UpstreamPool, UpstreamShared,
};
use super::objects::{OurArena, OurPool, OurShared, Typed};
use super::{Entry, nodes as entry, twin};

/// The registry, in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    let mut all = vec![
        entry::<NodeHeap<Void>>("nothing"),
        entry::<NodeHeap<System>>("glibc"),
        twin(entry::<NodeHeap<System>>("glibc-aa")),
        #[cfg(feature = "c-peers")]
        entry::<NodeHeap<MiMalloc>>("mimalloc"),
        #[cfg(feature = "c-peers")]
        entry::<NodeHeap<Jemalloc>>("jemalloc"),
        #[cfg(feature = "cpp-peers")]
        entry::<NodeHeap<SnMalloc>>("snmalloc"),
        #[cfg(feature = "rust-peers")]
        entry::<NodeHeap<Bumpalo>>("bumpalo"),
        #[cfg(feature = "rust-peers")]
        entry::<NodeHeap<BumpScope>>("bump-scope"),
        #[cfg(feature = "rust-peers")]
        entry::<NodeHeap<Blink<allocator_api2_04::alloc::Global>>>("blink-alloc"),
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
        entry::<NodeHeap<UpstreamRing>>("upstream-ring"),
        #[cfg(feature = "rust-peers")]
        entry::<NodeHeap<UpstreamOneRing>>("upstream-one-ring"),
        entry::<NodeHeap<OurRing>>("ring"),
        entry::<NodeHeap<OurOneRing>>("one-ring"),
        entry::<OurPool>("pool"),
        entry::<OurArena>("arena"),
        entry::<OurShared>("shared"),
        entry::<Typed>("typed-pool"),
        entry::<NodeHeap<OurPooled>>("pooled-allocator"),
    ];
    all.extend(cpp::all());
    all
}
