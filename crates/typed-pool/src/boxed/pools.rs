//! Which pool a box is of.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::thread::LocalKey;

use allocator_api2::alloc::{AllocError, Global};

use crate::account::Account;
use crate::geometry::{is_pooled, unit_of};
use crate::heap;
use crate::threads::{self, Family, Here};
use crate::unit::Reach;

/// A pool that boxes name.
///
/// # Safety
/// Implemented by this crate and its macros alone.
pub unsafe trait Pool: Sized + 'static {
    /// Gives back a slot.
    ///
    /// # Safety
    /// `slot` is a live slot of such a pool for a value of this layout, and the caller gives it up.
    #[doc(hidden)]
    unsafe fn __give(slot: NonNull<u8>, layout: Layout);

    /// A box of this layout is [`AnyPool`]'s from here on.
    ///
    /// # Safety
    /// There is such a box of this pool, and it is told once.
    #[doc(hidden)]
    unsafe fn __erase(layout: Layout);
}

/// A pool that has values of type `T`: [`OfType<T>`] of a type that [`pooled!`](crate::pooled) gave one, or a tag that it made for `T`.
///
/// # Safety
/// Implemented by this crate and its macros alone: the thread-local and the family are those of one pool for values of type `T`, and
/// the methods of [`Pool`] are those of `typed`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no pool for values of type `{T}`",
    note = "`pooled!({T});` beside your own type gives it a pool; for other types, `pooled!(struct Tag: {T});` makes one"
)]
pub unsafe trait PoolOf<T>: Pool {
    #[doc(hidden)]
    fn __here() -> &'static LocalKey<Here>;
    #[doc(hidden)]
    fn __family() -> &'static Family;
}

/// A type with a pool of its own. Implemented by [`pooled!`](crate::pooled).
///
/// # Safety
/// As [`PoolOf`], for `Self`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no pool",
    note = "`pooled!({Self});` beside your own type gives it one; for other types, `pooled!(struct Tag: {Self});` makes one"
)]
pub unsafe trait Pooled: Sized + 'static {
    #[doc(hidden)]
    fn __here() -> &'static LocalKey<Here>;
    #[doc(hidden)]
    fn __family() -> &'static Family;
}

/// The pool of a type of your own, which [`pooled!`](crate::pooled) gave it.
///
/// Of exactly that type: where one type is a subtype of another, a box of the one does not become a box of the other, whose pool is
/// another one.
pub struct OfType<T: ?Sized>(PhantomData<fn(*mut T) -> *mut T>);

impl<T: ?Sized> fmt::Debug for OfType<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfType")
    }
}

// SAFETY: those of `typed`.
unsafe impl<T: Pooled> Pool for OfType<T> {
    #[inline]
    unsafe fn __give(slot: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { typed::give::<T, Self>(slot, layout) };
    }

    #[inline]
    unsafe fn __erase(layout: Layout) {
        // SAFETY: the caller's.
        unsafe { typed::erase::<T, Self>(layout) };
    }
}

// SAFETY: those of `T` itself.
unsafe impl<T: Pooled> PoolOf<T> for OfType<T> {
    #[inline]
    fn __here() -> &'static LocalKey<Here> {
        T::__here()
    }

    #[inline]
    fn __family() -> &'static Family {
        T::__family()
    }
}

/// Whichever pool the value is from: it is found when the value is dropped. A drop then takes two loads more than one that knows its pool.
///
/// A value too large for units is on no pool's books any more once its box is of `AnyPool`: neither limits nor statistics know of it.
#[derive(Debug)]
pub enum AnyPool {}

// SAFETY: a slot finds its owner by its layout.
unsafe impl Pool for AnyPool {
    #[inline]
    unsafe fn __give(slot: NonNull<u8>, layout: Layout) {
        if is_pooled(layout) {
            // SAFETY: the caller's slot, of some family's heap.
            unsafe { threads::give_erased(threads::this_record(), slot, layout) };
        } else if layout.size() != 0 {
            // SAFETY: without units it is the global heap's own block.
            unsafe { heap::deallocate_unbooked(&Global, slot, layout) };
        }
    }

    unsafe fn __erase(_: Layout) {}
}

/// A slot for a value of type `T`.
#[inline]
pub(super) fn allocate<T, P: PoolOf<T>>() -> Result<NonNull<T>, AllocError> {
    let layout = Layout::new::<T>();
    if !is_pooled(layout) {
        return threads::allocate_large(P::__family(), layout, false).map(NonNull::cast);
    }
    // SAFETY: each family has a heap of index 0.
    let owner = unsafe { Here::get(P::__here()).owner(0) };
    match heap::Env::heap(&owner).take(layout.size()) {
        Some(slot) => Ok(slot.cast()),
        // SAFETY: as above.
        None => unsafe { threads::refill(P::__family(), 0, layout.size()) }.map(NonNull::cast),
    }
}

/// What the pool of one type does.
#[doc(hidden)]
pub mod typed {
    use super::{Account, Here, Layout, NonNull, PoolOf, Reach, heap, is_pooled, threads, unit_of};

    /// Gives back a slot.
    ///
    /// # Safety
    /// `slot` is a live slot of this pool for a value of this layout, which is that of `T`, and the caller gives it up.
    #[inline]
    pub unsafe fn give<T, P: PoolOf<T>>(slot: NonNull<u8>, _: Layout) {
        let layout = Layout::new::<T>();
        if is_pooled(layout) {
            // SAFETY: each family has a heap of index 0.
            let owner = unsafe { Here::get(P::__here()).owner(0) };
            // SAFETY: the caller's slot, of this family's only kind.
            unsafe { heap::give(owner, slot, unit_of(layout), layout.size(), Reach::Slot) };
        } else {
            // SAFETY: without units it is the global heap's own block.
            unsafe { threads::deallocate_large(P::__family(), slot, layout) };
        }
    }

    /// A large block is on the books no more.
    ///
    /// # Safety
    /// There is such a block of this pool, and it is told once.
    #[inline]
    pub unsafe fn erase<T, P: PoolOf<T>>(layout: Layout) {
        if !is_pooled(layout) && layout.size() != 0 {
            P::__family().account().large(1, layout.size(), false);
            P::__family().account().release(layout.size());
        }
    }
}
