//! Nodes of data structures: the interface of contenders, and the calls of structures.
//!
//! A structure has a few types of node, linked by owning handles one pointer wide. The contender
//! decides whether nodes come from an allocator of blocks or from a pool for each type; one table
//! compares both. Handles do not free by themselves. A structure takes the links out of a node and
//! then frees it, so that all contenders do the same work, whether their handles know their pool or
//! not.

use core::hint::black_box;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::blocks::Contender;
use crate::card::Info;

/// A type of node. It is `Unpin`, so a contender may move a node.
pub trait Node: Unpin + 'static {}

impl<T: Unpin + 'static> Node for T {}

/// A contender that makes nodes of any type.
///
/// # Safety
///
/// A handle from [`raw_put`](Self::raw_put) owns a node at a fixed address. The node is exclusive
/// until [`raw_take`](Self::raw_take), [`reset`](Self::reset), or the end of the pool or the
/// family.
pub unsafe trait NodeFamily: Sized + 'static {
    /// The contender's card. One thread uses a structure.
    const INFO: Info;

    /// The handle of a node.
    type Box<T: Node>: DerefMut<Target = T> + Unpin + 'static;

    /// The source of nodes of a type.
    type Pool<T: Node>: 'static;

    /// The same contender over a backing allocator that counts. `Self` if it has no such parameter.
    type Metered: NodeFamily;

    /// The heap below the contender, which littering fills with holes. A general allocator is its
    /// own; a pool names the system's.
    type Backing: Contender;

    /// Creates an instance.
    fn create() -> Self;

    /// Creates the pool for nodes of a type.
    fn pool<T: Node>(&self) -> Self::Pool<T>;

    /// Makes a node. Returns `None` if the contender refuses.
    ///
    /// # Safety
    ///
    /// The handle is not used, dereferenced or dropped after its pool or the family ends or is
    /// reset.
    unsafe fn raw_put<T: Node>(pool: &Self::Pool<T>, value: T) -> Option<Self::Box<T>>;

    /// Drops a node.
    ///
    /// # Safety
    ///
    /// This pool made the node.
    unsafe fn raw_take<T: Node>(pool: &Self::Pool<T>, node: Self::Box<T>);

    /// Frees everything at once, if the contender can.
    ///
    /// # Safety
    ///
    /// All pools have ended, and no node is used any more.
    unsafe fn reset(&mut self) {}

    /// Makes a node for a structure, hidden from the optimiser.
    ///
    /// # Safety
    ///
    /// As for [`raw_put`](Self::raw_put).
    ///
    /// # Panics
    ///
    /// If the contender refuses. The workload ends, and its cell says so.
    #[inline(always)]
    unsafe fn put<T: Node>(pool: &Self::Pool<T>, value: T) -> Self::Box<T> {
        // SAFETY: the caller's duty is the callee's.
        let Some(node) = (unsafe { Self::raw_put(pool, value) }) else { refused::<T>() };
        black_box(node)
    }

    /// Frees a node of a structure, hidden from the optimiser.
    ///
    /// # Safety
    ///
    /// As for [`raw_take`](Self::raw_take).
    #[inline(always)]
    unsafe fn take<T: Node>(pool: &Self::Pool<T>, node: Self::Box<T>) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { Self::raw_take(pool, black_box(node)) }
    }
}

/// Ends a workload whose contender refused a node.
#[cold]
#[inline(never)]
fn refused<T>() -> ! {
    panic!("the contender refused a node of {} bytes", size_of::<T>());
}

/// The handle of contenders that hand out raw memory: a pointer to a node. Its drop frees nothing.
#[derive(Debug)]
pub struct Owned<T>(NonNull<T>, PhantomData<T>);

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
