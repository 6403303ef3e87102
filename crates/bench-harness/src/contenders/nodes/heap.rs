//! Nodes from an allocator of blocks: one allocation for each node.

use std::sync::Arc;

use crate::blocks::Contender;
use crate::card::Info;
use crate::contenders::objects::Boxes;
use crate::nodes::{Node, NodeFamily, Owned};

/// Hands out nodes from the contender `C`, one block for each node. The pools share the contender.
pub(crate) struct NodeHeap<C>(Arc<C>);

impl<C: Contender> NodeFamily for NodeHeap<C> {
    const INFO: Info = C::INFO;
    type Box<T: Node> = Owned<T>;
    type Pool<T: Node> = Boxes<Arc<C>>;
    type Metered = NodeHeap<C::Metered>;
    type Backing = C::Backing;

    fn create() -> Self {
        Self(Contender::create())
    }

    fn pool<T: Node>(&self) -> Self::Pool<T> {
        Boxes(Arc::clone(&self.0))
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}
