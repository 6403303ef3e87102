//! Nodes from an allocator of blocks, with one allocation for each.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::blocks::{Contender, RawAlloc};
use crate::card::Info;
use crate::nodes::{Node, NodeFamily, Owned};

/// Nodes from `C`.
#[derive(Debug)]
pub struct NodeHeap<C: Contender> {
    /// From a box, so that the address survives moves of the family.
    contender: NonNull<C>,
}

impl<C: Contender> NodeHeap<C> {
    /// The reference that pools keep. By the contracts of [`NodeFamily::raw_put`] and
    /// [`NodeFamily::reset`], pools end before the family.
    fn lend(&self) -> C::Ref<'static> {
        // SAFETY: only `drop` frees the box, and only `reset` takes exclusive access, when no pool
        // is left.
        let contender: &'static C = unsafe { self.contender.as_ref() };
        contender.by_ref()
    }
}

impl<C: Contender> Drop for NodeHeap<C> {
    fn drop(&mut self) {
        // SAFETY: the pointer is from a box in `create` and is not used again.
        drop(unsafe { Box::from_raw(self.contender.as_ptr()) });
    }
}

// SAFETY: by the contract of `RawAlloc`, a block is valid and exclusive until it is freed or
// everything is reset.
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
        // SAFETY: the block fits the layout and is exclusive to this node.
        unsafe { node.write(value) };
        // SAFETY: the block now holds a value.
        Some(unsafe { Owned::new(node) })
    }

    #[inline(always)]
    unsafe fn raw_take<T: Node>(pool: &Self::Pool<T>, node: Owned<T>) {
        let node = node.into_raw();
        // SAFETY: the node is live and ends here.
        unsafe { node.drop_in_place() };
        // SAFETY: this allocator returned the block for this layout.
        unsafe { pool.raw_dealloc(node.as_ptr().cast(), Layout::new::<T>()) };
    }

    unsafe fn reset(&mut self) {
        // SAFETY: no pool is left, so nothing else refers to the contender.
        unsafe { self.contender.as_mut() }.reset();
    }
}
