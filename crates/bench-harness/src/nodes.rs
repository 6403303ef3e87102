//! Nodes of data structures: the interface of contenders, and the calls of structures.
//!
//! A structure has a few types of node, linked by owning handles one pointer wide. The contender
//! decides whether nodes come from an allocator of blocks or from a pool for each type; one table
//! compares both. Handles do not free by themselves. A structure takes the links out of a node and
//! then frees it, so that all contenders do the same work, whether their handles know their pool or
//! not.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::blocks::Contender;
use crate::card::Info;
use crate::pools::RawPool;

/// A type of node. It is `Unpin`, so a contender may move a node.
pub(crate) trait Node: Unpin + 'static {}

impl<T: Unpin + 'static> Node for T {}

/// A contender that makes nodes of any type. One thread uses a structure.
pub(crate) trait NodeFamily: Sized + 'static {
    /// The contender's card.
    const INFO: Info;

    /// The handle of a node.
    type Box<T: Node>: DerefMut<Target = T> + Unpin + 'static;

    /// The source of nodes of a type.
    type Pool<T: Node>: RawPool<T, Handle = Self::Box<T>>;

    /// The same contender over a backing allocator that counts. `Self` if it has no such parameter.
    type Metered: NodeFamily;

    /// The heap below the contender, which littering fills with holes. A general allocator is its
    /// own; a pool names the system's.
    type Backing: Contender;

    /// Creates an instance.
    fn create() -> Self;

    /// Creates the pool for nodes of a type. It ends before the family.
    fn pool<T: Node>(&self) -> Self::Pool<T>;

    /// Frees everything at once, if the contender can.
    ///
    /// # Safety
    ///
    /// All pools have ended, and no node is used any more.
    unsafe fn reset(&mut self) {}
}

/// The handle of contenders that hand out raw memory: a pointer to a node. Its drop frees nothing.
pub(crate) struct Owned<T>(NonNull<T>, PhantomData<T>);

impl<T> Owned<T> {
    /// Creates a handle that owns a node.
    ///
    /// # Safety
    ///
    /// Nothing else uses the value while the handle is dereferenced.
    #[inline(always)]
    pub(crate) unsafe fn new(node: NonNull<T>) -> Self {
        Self(node, PhantomData)
    }

    /// Returns the pointer to the node.
    #[inline(always)]
    pub(crate) fn into_raw(self) -> NonNull<T> {
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
