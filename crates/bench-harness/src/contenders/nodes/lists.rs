//! Nodes from the textbook's free list and from `typed-arena`: a list or an arena for each type.

use core::ptr::NonNull;

use typed_arena::Arena;

use super::super::blocks::System;
use super::super::objects::{FreeList, Textbook, TypedArena};
use crate::card::Info;
use crate::nodes::{Node, NodeFamily, Owned};
use crate::objects::Maker;

// SAFETY: a slot is off the list while its node is alive, and chunks do not move.
unsafe impl NodeFamily for Textbook {
    const INFO: Info = <Self as Maker>::INFO;
    type Box<T: Node> = Owned<T>;
    type Pool<T: Node> = FreeList<T>;
    type Metered = Self;
    type Backing = System;

    fn create() -> Self {
        Self
    }

    fn pool<T: Node>(&self) -> FreeList<T> {
        FreeList::new()
    }

    #[inline(always)]
    unsafe fn raw_put<T: Node>(pool: &FreeList<T>, value: T) -> Option<Owned<T>> {
        // SAFETY: the slot holds the value, and is off the list until `raw_take`.
        Some(unsafe { Owned::new(pool.put(value)) })
    }

    #[inline(always)]
    unsafe fn raw_take<T: Node>(pool: &FreeList<T>, node: Owned<T>) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { pool.take(node.into_raw()) }
    }
}

// SAFETY: a node stays where it is until the arena is dropped.
unsafe impl NodeFamily for TypedArena {
    const INFO: Info = <Self as Maker>::INFO;
    type Box<T: Node> = Owned<T>;
    type Pool<T: Node> = Arena<T>;
    type Metered = Self;
    type Backing = System;

    fn create() -> Self {
        Self
    }

    fn pool<T: Node>(&self) -> Arena<T> {
        Arena::new()
    }

    #[inline(always)]
    unsafe fn raw_put<T: Node>(pool: &Arena<T>, value: T) -> Option<Owned<T>> {
        // SAFETY: the arena lends the slot out once, and keeps it until it is dropped.
        Some(unsafe { Owned::new(NonNull::from(pool.alloc(value))) })
    }

    #[inline(always)]
    unsafe fn raw_take<T: Node>(_pool: &Arena<T>, _node: Owned<T>) {}
}
