//! Nodes from our `TypedPool`, a pool for each type. (`PooledBox` names one concrete type; for the generic nodes of the
//! structures here, `PooledAllocator` stands for it.)

use typed_pool::TypedPool;

use super::super::blocks::System;
use super::super::objects::Typed;
use crate::card::Info;
use crate::nodes::{Node, NodeFamily, Owned};
use crate::objects::Maker;

// SAFETY: a slot is its node's own until it is given back, and units do not move.
unsafe impl NodeFamily for Typed {
    const INFO: Info = <Self as Maker>::INFO;
    type Box<T: Node> = Owned<T>;
    type Pool<T: Node> = TypedPool<T>;
    type Metered = Self;
    type Backing = System;

    fn create() -> Self {
        Self
    }

    fn pool<T: Node>(&self) -> TypedPool<T> {
        TypedPool::new()
    }

    #[inline(always)]
    unsafe fn raw_put<T: Node>(pool: &TypedPool<T>, value: T) -> Option<Owned<T>> {
        let slot = pool.allocate().ok()?;
        // SAFETY: the slot is this node's own.
        unsafe { slot.write(value) };
        // SAFETY: it holds a value now.
        Some(unsafe { Owned::new(slot) })
    }

    #[inline(always)]
    unsafe fn raw_take<T: Node>(pool: &TypedPool<T>, node: Owned<T>) {
        let slot = node.into_raw();
        // SAFETY: the node is alive, and this is its end.
        unsafe { slot.drop_in_place() };
        // SAFETY: the slot is this pool's, and empty.
        unsafe { pool.deallocate(slot) };
    }
}
