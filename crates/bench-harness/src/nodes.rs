//! Nodes of data structures: what an allocator or a pool must offer to hold them, and how a structure calls it.
//!
//! A structure has a few types of node, linked by owning handles one pointer wide. Where they come from, an allocator of
//! blocks or a pool for each type, is the contender's business: the two stand in one table here. Handles do not free by
//! themselves: a structure gives each node back, after it has taken the node's own links out, so that all contenders do
//! the same work whether their handles know their pool or not.

use core::hint::black_box;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::blocks::Contender;
use crate::card::Info;

/// What can be a node. Structures say themselves that they do not mind being moved.
pub trait Node: Unpin + 'static {}

impl<T: Unpin + 'static> Node for T {}

/// A contender: makes nodes of any type.
///
/// # Safety
///
/// A handle from [`raw_put`](Self::raw_put) owns a node at a fixed address that is its own until
/// [`raw_take`](Self::raw_take), a [`reset`](Self::reset), or the end of the pool or the family.
pub unsafe trait NodeFamily: Sized + 'static {
    /// Its card. Structures are used by one thread.
    const INFO: Info;

    /// What a node is held by.
    type Box<T: Node>: DerefMut<Target = T> + Unpin + 'static;

    /// Where nodes of a type come from.
    type Pool<T: Node>: 'static;

    /// The same over a backing allocator that counts, or `Self` where there is no such parameter.
    type Metered: NodeFamily;

    /// The heap below it, which littering fills with holes: itself for a general allocator, the system's for a pool.
    type Backing: Contender;

    /// Makes an instance.
    fn create() -> Self;

    /// The pool for nodes of a type.
    fn pool<T: Node>(&self) -> Self::Pool<T>;

    /// Makes a node; `None` where the contender refuses.
    ///
    /// # Safety
    ///
    /// The handle is not used, dereferenced or dropped once its pool or the family is gone or was reset.
    unsafe fn raw_put<T: Node>(pool: &Self::Pool<T>, value: T) -> Option<Self::Box<T>>;

    /// Drops a node.
    ///
    /// # Safety
    ///
    /// The node came from this pool.
    unsafe fn raw_take<T: Node>(pool: &Self::Pool<T>, node: Self::Box<T>);

    /// Takes everything back at once, where the contender can.
    ///
    /// # Safety
    ///
    /// None of its pools is left, and no node is used any more.
    unsafe fn reset(&mut self) {}

    /// What a structure calls to make a node: hidden from the optimiser.
    ///
    /// # Safety
    ///
    /// As for [`raw_put`](Self::raw_put).
    ///
    /// # Panics
    ///
    /// When the contender refuses: a workload that a contender cannot serve ends, and its cell says so.
    #[inline(always)]
    unsafe fn put<T: Node>(pool: &Self::Pool<T>, value: T) -> Self::Box<T> {
        // SAFETY: the caller's duty is the callee's.
        let Some(node) = (unsafe { Self::raw_put(pool, value) }) else { refused::<T>() };
        black_box(node)
    }

    /// What a structure calls to give a node back, hidden from the optimiser.
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

/// The handle of contenders that hand out raw memory: a pointer to a node, which frees nothing when it is dropped.
#[derive(Debug)]
pub struct Owned<T>(NonNull<T>, PhantomData<T>);

impl<T> Owned<T> {
    /// Takes a node over.
    ///
    /// # Safety
    ///
    /// The pointer is to a value that nobody else uses for as long as the handle is dereferenced.
    #[inline(always)]
    pub(crate) unsafe fn new(node: NonNull<T>) -> Self {
        Self(node, PhantomData)
    }

    /// The node itself.
    #[inline(always)]
    pub(crate) fn into_raw(self) -> NonNull<T> {
        self.0
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: by `new`, the node is alive and this handle's own.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Owned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: by `new`, the node is alive and this handle's own.
        unsafe { self.0.as_mut() }
    }
}
