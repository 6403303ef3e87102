//! Nodes from an allocator of blocks: one allocation for each node.

use core::ptr::NonNull;

use crate::blocks::Contender;
use crate::card::Info;
use crate::contenders::objects::Lent;
use crate::nodes::{Node, NodeFamily, Owned};

/// Hands out nodes from the contender `C`, one block for each node.
pub(crate) struct NodeHeap<C: Contender> {
    /// The contender, in a box, so that its address stays the same when the family moves.
    contender: NonNull<C>,
}

impl<C: Contender> Drop for NodeHeap<C> {
    fn drop(&mut self) {
        // SAFETY: `create` took the pointer from a box, and nothing uses it after this drop.
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
        // contracts of `RawPool::raw_put` and `reset`, no pool is in use at either time.
        let contender: &'static C = unsafe { self.contender.as_ref() };
        Lent(contender.by_ref())
    }

    unsafe fn reset(&mut self) {
        // SAFETY: the caller guarantees that no pool is left, so nothing else refers to the
        // contender.
        unsafe { self.contender.as_mut() }.reset();
    }
}
