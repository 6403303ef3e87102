//! Contenders that hand out objects of one type.

mod boxes;
mod free_list;
mod handles;
mod keys;
mod pooled;
mod typed_arena;

pub use self::boxes::Boxes;
pub use self::free_list::{FreeList, LockedTextbook, Textbook};
pub use self::handles::{
    Handles, Infinity, InfinityLocal, OurArena, OurPool, OurShared, Plurality, UpstreamArena, UpstreamPool,
    UpstreamShared,
};
pub use self::keys::{LockedSlab, PlainSlab, ShardedSlab};
pub use self::pooled::{Boxed, EveryPool, Typed};
pub use self::typed_arena::{Bump, TypedArena};
#[cfg(feature = "c-peers")]
use super::blocks::{Jemalloc, MiMalloc};
use super::blocks::{OneRingAlloc, PooledAllocator, System, Void};
use super::{Entry, objects as entry, twin};

/// The registry, in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    vec![
        entry::<Boxes<Void>>("nothing"),
        entry::<Boxes<System>>("glibc"),
        twin(entry::<Boxes<System>>("glibc-aa")),
        #[cfg(feature = "c-peers")]
        entry::<Boxes<MiMalloc>>("mimalloc"),
        #[cfg(feature = "c-peers")]
        entry::<Boxes<Jemalloc>>("jemalloc"),
        entry::<Textbook>("textbook"),
        entry::<LockedTextbook>("textbook-mutex"),
        entry::<PlainSlab>("slab"),
        entry::<LockedSlab>("slab-mutex"),
        entry::<ShardedSlab>("sharded-slab"),
        entry::<TypedArena>("typed-arena"),
        entry::<Plurality>("plurality"),
        entry::<Infinity>("infinity"),
        entry::<InfinityLocal>("infinity-local"),
        entry::<UpstreamPool>("upstream-pool"),
        entry::<UpstreamArena>("upstream-arena"),
        entry::<UpstreamShared>("upstream-shared"),
        entry::<Boxes<OneRingAlloc>>("one-ring"),
        entry::<OurPool>("pool"),
        entry::<OurArena>("arena"),
        entry::<OurShared>("shared"),
        entry::<Typed>("typed-pool"),
        entry::<Boxed>("pooled-box"),
        entry::<Boxes<PooledAllocator>>("pooled-allocator"),
    ]
}
