//! Contenders that hand out objects of one type.

mod boxes;
mod free_list;
mod handles;
mod keys;
mod pooled;
mod recycled;
mod typed_arena;

pub use self::boxes::Boxes;
pub use self::free_list::{FreeList, LockedTextbook, Textbook};
pub use self::handles::{
    Handles, Infinity, InfinityLocal, Multitude, OurArena, OurPool, OurShared, Plurality, UpstreamArena,
    UpstreamPool, UpstreamShared,
};
pub use self::keys::{LockedSlab, PlainSlab, ShardedSlab};
pub use self::pooled::{Boxed, EveryPool, Typed};
pub use self::recycled::{
    Fresh, Guarded, Kept, LocalGuarded, LocalKept, OPool, OPoolLocal, ObjectPool, RecycledBoxes,
};
pub use self::typed_arena::{Bump, TypedArena};
#[cfg(feature = "cpp-peers")]
use super::blocks::SnMalloc;
#[cfg(feature = "c-peers")]
use super::blocks::{Jemalloc, MiMalloc};
use super::blocks::{OurOneRing, OurPooled, System, Void};
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
        #[cfg(feature = "cpp-peers")]
        entry::<Boxes<SnMalloc>>("snmalloc"),
        #[cfg(feature = "rust-peers")]
        entry::<Textbook>("textbook"),
        #[cfg(feature = "rust-peers")]
        entry::<LockedTextbook>("textbook-mutex"),
        #[cfg(feature = "rust-peers")]
        entry::<PlainSlab>("slab"),
        #[cfg(feature = "rust-peers")]
        entry::<LockedSlab>("slab-mutex"),
        #[cfg(feature = "rust-peers")]
        entry::<ShardedSlab>("sharded-slab"),
        #[cfg(feature = "rust-peers")]
        entry::<TypedArena>("typed-arena"),
        #[cfg(feature = "rust-peers")]
        entry::<ObjectPool>("object-pool"),
        #[cfg(feature = "rust-peers")]
        entry::<OPool>("opool"),
        #[cfg(feature = "rust-peers")]
        entry::<OPoolLocal>("opool-local"),
        #[cfg(feature = "rust-peers")]
        entry::<Multitude>("multitude"),
        #[cfg(feature = "rust-peers")]
        entry::<Plurality>("plurality"),
        #[cfg(feature = "rust-peers")]
        entry::<Infinity>("infinity"),
        #[cfg(feature = "rust-peers")]
        entry::<InfinityLocal>("infinity-local"),
        #[cfg(feature = "rust-peers")]
        entry::<UpstreamPool>("upstream-pool"),
        #[cfg(feature = "rust-peers")]
        entry::<UpstreamArena>("upstream-arena"),
        #[cfg(feature = "rust-peers")]
        entry::<UpstreamShared>("upstream-shared"),
        entry::<Boxes<OurOneRing>>("one-ring"),
        entry::<OurPool>("pool"),
        entry::<OurArena>("arena"),
        entry::<OurShared>("shared"),
        entry::<Typed>("typed-pool"),
        entry::<Boxed>("pooled-box"),
        entry::<Boxes<OurPooled>>("pooled-allocator"),
    ]
}
