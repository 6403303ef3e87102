//! Contenders that hand out the nodes of data structures: allocators of blocks, and pools of
//! objects.

mod cpp;

use std::sync::Arc;

use super::entry::{Entry, nodes as entry, registry};
use super::{blocks, objects};
use crate::blocks::Contender;
use crate::card::Info;
use crate::nodes::{Node, NodeFamily, Owned};

/// Hands out nodes from the contender `C`, one block for each node. The pools share the contender.
pub(crate) struct NodeHeap<C>(Arc<C>);

impl<C: Contender> NodeFamily for NodeHeap<C> {
    const INFO: Info = C::INFO;
    type Box<T: Node> = Owned<T>;
    type Pool<T: Node> = objects::Boxes<Arc<C>>;
    type Metered = NodeHeap<C::Metered>;
    type Backing = C::Backing;

    fn create() -> Self {
        Self(Contender::create())
    }

    fn pool<T: Node>(&self) -> Self::Pool<T> {
        objects::Boxes(Arc::clone(&self.0))
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}

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
