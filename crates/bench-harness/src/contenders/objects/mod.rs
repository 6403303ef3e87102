//! Contenders that hand out objects of one type.

mod free_list;
mod keys;
mod pools;
mod recycled;

use self::keys::{LockedSlab, PlainSlab, ShardedSlab};
use self::pools::{Boxed, Infinity, InfinityLocal, LockedTextbook};
pub(crate) use self::pools::{
    Boxes, Multitude, OurArena, OurPool, OurShared, Plurality, Textbook, Typed, TypedArena, UpstreamArena,
    UpstreamPool, UpstreamShared,
};
use self::recycled::{OPool, OPoolLocal, ObjectPool};
use super::blocks::{OurOneRing, OurPooled, Void};
use super::entry::{Entry, objects as entry, registry};

/// Returns the contenders in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    registry! {
        entry, Boxes<Void>, Boxes;
        PEERS "textbook": Textbook,
        PEERS "textbook-mutex": LockedTextbook,
        PEERS "slab": PlainSlab,
        MORE_PEERS "slab-mutex": LockedSlab,
        MORE_PEERS "sharded-slab": ShardedSlab,
        PEERS "typed-arena": TypedArena,
        MORE_PEERS "object-pool": ObjectPool,
        MORE_PEERS "opool": OPool,
        MORE_PEERS "opool-local": OPoolLocal,
        MORE_PEERS "multitude": Multitude,
        MORE_PEERS "plurality": Plurality,
        MORE_PEERS "infinity": Infinity,
        MORE_PEERS "infinity-local": InfinityLocal,
        PEERS "upstream-pool": UpstreamPool,
        PEERS "upstream-arena": UpstreamArena,
        PEERS "upstream-shared": UpstreamShared,
        OURS "one-ring": Boxes<OurOneRing>,
        OURS "pool": OurPool,
        OURS "arena": OurArena,
        OURS "shared": OurShared,
        OURS "typed-pool": Typed,
        OURS "pooled-box": Boxed,
        OURS "pooled-allocator": Boxes<OurPooled>,
    }
}
