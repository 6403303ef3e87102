//! Contenders that hand out objects of one type.

mod boxes;
mod free_list;
mod keys;
mod pools;
mod recycled;

pub(crate) use self::boxes::{Boxes, Lent};
use self::keys::{LockedSlab, PlainSlab, ShardedSlab};
use self::pools::{Boxed, Infinity, InfinityLocal, LockedTextbook};
pub(crate) use self::pools::{
    Multitude, OurArena, OurPool, OurShared, Plurality, Textbook, Typed, TypedArena, UpstreamArena,
    UpstreamPool, UpstreamShared,
};
use self::recycled::{OPool, OPoolLocal, ObjectPool};
use super::blocks::{OurOneRing, OurPooled, Void};
use super::{Entry, MORE_PEERS, PEERS, general, objects as entry};

/// Returns the registry in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    let mut all = general!(entry, Boxes<Void>, Boxes);
    if PEERS {
        all.extend([
            entry::<Textbook>("textbook"),
            entry::<LockedTextbook>("textbook-mutex"),
            entry::<PlainSlab>("slab"),
        ]);
    }
    if MORE_PEERS {
        all.extend([entry::<LockedSlab>("slab-mutex"), entry::<ShardedSlab>("sharded-slab")]);
    }
    if PEERS {
        all.extend([entry::<TypedArena>("typed-arena")]);
    }
    if MORE_PEERS {
        all.extend([
            entry::<ObjectPool>("object-pool"),
            entry::<OPool>("opool"),
            entry::<OPoolLocal>("opool-local"),
            entry::<Multitude>("multitude"),
            entry::<Plurality>("plurality"),
            entry::<Infinity>("infinity"),
            entry::<InfinityLocal>("infinity-local"),
        ]);
    }
    if PEERS {
        all.extend([
            entry::<UpstreamPool>("upstream-pool"),
            entry::<UpstreamArena>("upstream-arena"),
            entry::<UpstreamShared>("upstream-shared"),
        ]);
    }
    all.extend([
        entry::<Boxes<OurOneRing>>("one-ring"),
        entry::<OurPool>("pool"),
        entry::<OurArena>("arena"),
        entry::<OurShared>("shared"),
        entry::<Typed>("typed-pool"),
        entry::<Boxed>("pooled-box"),
        entry::<Boxes<OurPooled>>("pooled-allocator"),
    ]);
    all
}
