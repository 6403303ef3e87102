//! Nodes from an allocator of blocks: an allocation each, by the layout of their type.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::blocks::{Contender, RawAlloc};
use crate::card::Info;
use crate::nodes::{Node, NodeFamily, Owned};

/// Nodes from `C`.
#[derive(Debug)]
pub struct NodeHeap<C: Contender> {
    /// From a box, so that its address outlives moves of the family.
    contender: NonNull<C>,
}

impl<C: Contender> NodeHeap<C> {
    /// The reference that pools keep. They end before the family does, which is their makers' duty by
    /// [`NodeFamily::raw_put`] and [`NodeFamily::reset`].
    fn lend(&self) -> C::Ref<'static> {
        // SAFETY: the box is freed in `drop` alone; exclusive access is taken in `reset` alone, when no pool is left.
        let contender: &'static C = unsafe { self.contender.as_ref() };
        contender.by_ref()
    }
}

impl<C: Contender> Drop for NodeHeap<C> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box in `create`, and is used no more.
        drop(unsafe { Box::from_raw(self.contender.as_ptr()) });
    }
}

// SAFETY: by `RawAlloc`, a block is valid and its holder's own until it is freed or everything is reset.
unsafe impl<C: Contender> NodeFamily for NodeHeap<C> {
    const INFO: Info = C::INFO;
    type Box<T: Node> = Owned<T>;
    type Pool<T: Node> = C::Ref<'static>;
    type Metered = NodeHeap<C::Metered>;
    type Backing = C::Backing;

    fn create() -> Self {
        Self { contender: NonNull::from(Box::leak(Box::new(C::create()))) }
    }

    fn pool<T: Node>(&self) -> Self::Pool<T> {
        self.lend()
    }

    #[inline(always)]
    unsafe fn raw_put<T: Node>(pool: &Self::Pool<T>, value: T) -> Option<Owned<T>> {
        const { assert!(size_of::<T>() > 0, "allocators of blocks are not asked for nothing") };
        // SAFETY: the size is above zero.
        let block = unsafe { pool.raw_alloc(Layout::new::<T>()) };
        let node = NonNull::new(block)?.cast::<T>();
        // SAFETY: the block fits the layout and is this node's own.
        unsafe { node.write(value) };
        // SAFETY: it holds a value now.
        Some(unsafe { Owned::new(node) })
    }

    #[inline(always)]
    unsafe fn raw_take<T: Node>(pool: &Self::Pool<T>, node: Owned<T>) {
        let node = node.into_raw();
        // SAFETY: the node is alive, and this is its end.
        unsafe { node.drop_in_place() };
        // SAFETY: the block came from this allocator for this layout.
        unsafe { pool.raw_dealloc(node.as_ptr().cast(), Layout::new::<T>()) };
    }

    unsafe fn reset(&mut self) {
        // SAFETY: no pool is left, so nobody else refers to the contender.
        unsafe { self.contender.as_mut() }.reset();
    }
}
