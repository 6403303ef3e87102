//! Contenders that hold the nodes of a data structure: allocators of blocks and pools of objects,
//! side by side.

mod cpp;
mod heap;

pub(crate) use self::heap::NodeHeap;
use super::blocks::{
    Blink, BumpScope, Bumpalo, OurOneRing, OurPooled, OurRing, UpstreamOneRing, UpstreamRing, Void,
};
use super::objects::{
    Multitude, OurArena, OurPool, OurShared, Plurality, Textbook, Typed, TypedArena, UpstreamArena,
    UpstreamPool, UpstreamShared,
};
use super::{Entry, MORE_PEERS, PEERS, general, nodes as entry};

/// Returns the registry in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    let mut all = general!(entry, NodeHeap<Void>, NodeHeap);
    if PEERS {
        all.extend([entry::<NodeHeap<Bumpalo>>("bumpalo")]);
    }
    if MORE_PEERS {
        all.extend([entry::<NodeHeap<BumpScope>>("bump-scope"), entry::<NodeHeap<Blink>>("blink-alloc")]);
    }
    if PEERS {
        all.extend([entry::<Textbook>("textbook"), entry::<TypedArena>("typed-arena")]);
    }
    if MORE_PEERS {
        all.extend([entry::<Multitude>("multitude"), entry::<Plurality>("plurality")]);
    }
    if PEERS {
        all.extend([
            entry::<UpstreamPool>("upstream-pool"),
            entry::<UpstreamArena>("upstream-arena"),
            entry::<UpstreamShared>("upstream-shared"),
            entry::<NodeHeap<UpstreamRing>>("upstream-ring"),
            entry::<NodeHeap<UpstreamOneRing>>("upstream-one-ring"),
        ]);
    }
    all.extend([
        entry::<NodeHeap<OurRing>>("ring"),
        entry::<NodeHeap<OurOneRing>>("one-ring"),
        entry::<OurPool>("pool"),
        entry::<OurArena>("arena"),
        entry::<OurShared>("shared"),
        entry::<Typed>("typed-pool"),
        entry::<NodeHeap<OurPooled>>("pooled-allocator"),
    ]);
    all.extend(cpp::all());
    all
}
