//! Nodes from an allocator of blocks, with one allocation for each.

use core::ptr::NonNull;

use crate::blocks::Contender;
use crate::card::Info;
use crate::contenders::objects::Lent;
use crate::nodes::{Node, NodeFamily, Owned};

/// Nodes from `C`.
pub(crate) struct NodeHeap<C: Contender> {
    /// From a box, so that the address survives moves of the family.
    contender: NonNull<C>,
}

impl<C: Contender> Drop for NodeHeap<C> {
    fn drop(&mut self) {
        // SAFETY: the pointer is from a box in `create` and is not used again.
        drop(unsafe { Box::from_raw(self.contender.as_ptr()) });
    }
}

impl<C: Contender> NodeFamily for NodeHeap<C> {
    const INFO: Info = C::INFO;
    type Box<T: Node> = Owned<T>;
    type Pool<T: Node> = Lent<C::Ref<'static>>;
    type Metered = NodeHeap<C::Metered>;
    type Backing = C::Backing;

    fn create() -> Self {
        Self { contender: NonNull::from(Box::leak(Box::new(C::create()))) }
    }

    fn pool<T: Node>(&self) -> Self::Pool<T> {
        // SAFETY: only `drop` frees the box, and only `reset` takes exclusive access. By the
        // contracts of `RawPool::raw_put` and `reset`, nothing uses a pool then.
        let contender: &'static C = unsafe { self.contender.as_ref() };
        Lent(contender.by_ref())
    }

    unsafe fn reset(&mut self) {
        // SAFETY: no pool is left, so nothing else refers to the contender.
        unsafe { self.contender.as_mut() }.reset();
    }
}
