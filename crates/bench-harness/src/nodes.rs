//! Nodes of data structures: the traits that contenders implement and data structures use.
//!
//! A structure has a few types of nodes, linked by owning handles that are one pointer wide. The
//! contender decides whether nodes come from an allocator of blocks or from a pool for each type,
//! so one table compares both. A structure takes the links out of a node and then frees the node
//! explicitly, so all contenders do the same work, whether or not their handles know their pool.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::blocks::Contender;
use crate::card::Info;
use crate::pools::RawPool;

/// A type of node. It must be `Unpin`, so that handles can implement `DerefMut`.
pub(crate) trait Node: Unpin + 'static {}

impl<T: Unpin + 'static> Node for T {}

/// A contender that makes nodes of any type. Only one thread uses a structure.
pub(crate) trait NodeFamily: Sized + 'static {
    const INFO: Info;

    /// The handle of a node.
    type Box<T: Node>: DerefMut<Target = T> + Unpin + 'static;

    /// The pool that hands out nodes of a type.
    type Pool<T: Node>: RawPool<T, Handle = Self::Box<T>>;

    /// The same contender over a backing allocator that counts bytes, or `Self` if it does not
    /// accept a backing allocator.
    type Metered: NodeFamily;

    /// The heap that is littered before a workload on a littered heap runs. An allocator of blocks
    /// names its [`Contender::Backing`], and a pool names the system's heap.
    type Backing: Contender;

    fn create() -> Self;

    /// Creates the pool for nodes of type `T`. The pool may outlive the family.
    fn pool<T: Node>(&self) -> Self::Pool<T>;

    /// Frees everything at once, if the contender can do so and all pools of this family have been
    /// dropped. By the contract of [`RawPool::raw_put`], the nodes are not used afterwards.
    fn reset(&mut self) {}
}

/// The handle of contenders that hand out raw memory: a pointer to a node. Dropping the handle does
/// not free the node.
pub(crate) struct Owned<T>(NonNull<T>);

impl<T> Owned<T> {
    /// Creates a handle that owns a node.
    ///
    /// # Safety
    ///
    /// Whenever the handle is dereferenced, `node` must point to a live value, and nothing else may
    /// use the value.
    #[inline(always)]
    pub(crate) unsafe fn new(node: NonNull<T>) -> Self {
        Self(node)
    }

    /// Writes a value to a slot, and returns the handle that owns the value.
    ///
    /// # Safety
    ///
    /// The slot must be aligned and large enough for the value. Nothing else may use it until
    /// [`take`](Self::take) returns it.
    #[inline(always)]
    pub(crate) unsafe fn put(slot: NonNull<T>, value: T) -> Self {
        // SAFETY: by the contract, the slot has room for the value, and nothing else uses it.
        unsafe { slot.write(value) };
        Self(slot)
    }

    /// Drops the value, and returns its slot.
    ///
    /// # Safety
    ///
    /// The value must be live.
    #[inline(always)]
    pub(crate) unsafe fn take(self) -> NonNull<T> {
        // SAFETY: the value is live, and only this handle, which ends here, uses it.
        unsafe { self.0.drop_in_place() };
        self.0
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: by the contract of `new`, the node is live and exclusive to this handle.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Owned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: by the contract of `new`, the node is live and exclusive to this handle.
        unsafe { self.0.as_mut() }
    }
}
