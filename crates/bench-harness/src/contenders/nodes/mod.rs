//! Contenders that hand out the nodes of data structures: allocators of blocks, and pools of
//! objects.

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
use super::{Entry, nodes as entry, registry};

/// Returns the contenders in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    let mut all = registry! {
        entry, NodeHeap<Void>, NodeHeap;
        PEERS "bumpalo": NodeHeap<Bumpalo>,
        MORE_PEERS "bump-scope": NodeHeap<BumpScope>,
        MORE_PEERS "blink-alloc": NodeHeap<Blink>,
        PEERS "textbook": Textbook,
        PEERS "typed-arena": TypedArena,
        MORE_PEERS "multitude": Multitude,
        MORE_PEERS "plurality": Plurality,
        PEERS "upstream-pool": UpstreamPool,
        PEERS "upstream-arena": UpstreamArena,
        PEERS "upstream-shared": UpstreamShared,
        PEERS "upstream-ring": NodeHeap<UpstreamRing>,
        PEERS "upstream-one-ring": NodeHeap<UpstreamOneRing>,
        OURS "ring": NodeHeap<OurRing>,
        OURS "one-ring": NodeHeap<OurOneRing>,
        OURS "pool": OurPool,
        OURS "arena": OurArena,
        OURS "shared": OurShared,
        OURS "typed-pool": Typed,
        OURS "pooled-allocator": NodeHeap<OurPooled>,
    };
    all.extend(cpp::all());
    all
}
