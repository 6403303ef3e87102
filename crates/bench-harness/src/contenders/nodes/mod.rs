//! Contenders that hand out the nodes of data structures: allocators of blocks, and pools of
//! objects.

mod cpp;
mod heap;

pub(crate) use self::heap::NodeHeap;
use super::{Entry, blocks, nodes as entry, objects, registry};

/// Returns the contenders in the order of the tables.
pub(super) fn all() -> Vec<Entry> {
    let mut all = registry! {
        entry, NodeHeap<blocks::Void>, NodeHeap;
        PEERS "bumpalo": NodeHeap<blocks::Bumpalo>,
        MORE_PEERS "bump-scope": NodeHeap<blocks::BumpScope>,
        MORE_PEERS "blink-alloc": NodeHeap<blocks::Blink>,
        PEERS "textbook": objects::Textbook,
        PEERS "typed-arena": objects::TypedArena,
        MORE_PEERS "multitude": objects::Multitude,
        MORE_PEERS "plurality": objects::Plurality,
        PEERS "upstream-pool": objects::UpstreamPool,
        PEERS "upstream-arena": objects::UpstreamArena,
        PEERS "upstream-shared": objects::UpstreamShared,
        PEERS "upstream-ring": NodeHeap<blocks::UpstreamRing>,
        PEERS "upstream-one-ring": NodeHeap<blocks::UpstreamOneRing>,
        OURS "ring": NodeHeap<blocks::OurRing>,
        OURS "one-ring": NodeHeap<blocks::OurOneRing>,
        OURS "pool": objects::OurPool,
        OURS "arena": objects::OurArena,
        OURS "shared": objects::OurShared,
        OURS "typed-pool": objects::Typed,
        OURS "pooled-allocator": NodeHeap<blocks::OurPooled>,
    };
    all.extend(cpp::all());
    all
}
