//! Nodes from pools whose handle is a smart pointer one word wide, with a pool for each type of
//! node.

use shared_arena as ours;
use upstream_shared_arena as upstream;

use super::super::blocks::System;
use super::super::objects::{
    Multitude, OurArena, OurPool, OurShared, Plurality, UpstreamArena, UpstreamPool, UpstreamShared,
};
use crate::card::Info;
use crate::nodes::{Node, NodeFamily};
use crate::objects::Maker;

/// Lets a contender of objects hold nodes. The arguments are its pool, the constructor, the method
/// that takes a value, and the handle.
macro_rules! family {
    ($name:ident = $pool:ty, $make:expr, $method:ident -> $handle:ty) => {
        // SAFETY: a handle owns its node, and the node does not move until the handle is dropped.
        unsafe impl NodeFamily for $name {
            const INFO: Info = <Self as Maker>::INFO;
            type Box<T: Node> = $handle;
            type Pool<T: Node> = $pool;
            type Metered = Self;
            type Backing = System;

            fn create() -> Self {
                Self
            }

            fn pool<T: Node>(&self) -> $pool {
                $make
            }

            #[inline(always)]
            unsafe fn raw_put<T: Node>(pool: &$pool, value: T) -> Option<$handle> {
                Some(pool.$method(value))
            }

            #[inline(always)]
            unsafe fn raw_take<T: Node>(_pool: &$pool, node: $handle) {
                drop(node);
            }
        }
    };
}

family! { UpstreamPool = upstream::Pool<T>, upstream::Pool::new(), alloc -> upstream::PoolBox<T> }
family! { UpstreamArena = upstream::Arena<T>, upstream::Arena::new(), alloc -> upstream::ArenaBox<T> }
family! { UpstreamShared = upstream::SharedArena<T>, upstream::SharedArena::new(), alloc -> upstream::ArenaBox<T> }
family! { OurPool = ours::Pool<T>, ours::Pool::new(), alloc -> ours::PoolBox<T> }
family! { OurArena = ours::Arena<T>, ours::Arena::new(), alloc -> ours::ArenaBox<T> }
family! { OurShared = ours::SharedArena<T>, ours::SharedArena::new(), alloc -> ours::ArenaBox<T> }
family! { Multitude = multitude::Arena, multitude::Arena::new(), alloc_box -> multitude::Box<T> }
family! { Plurality = plurality::Pool<T>, plurality::Pool::new(), alloc_box -> plurality::Box<T> }
