//! `BoxPool` and `PoolOf`: the traits and types that name the pool of a box.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::account::Account;
use ephemera_prim::pages::Pages;

use crate::geometry::{is_pooled, unit_of};
use crate::heap;
use crate::local_frees::Reach;
use crate::threads::{self, Family, ThisCell};

/// A pool that a [`PooledBox`](crate::PooledBox) names.
///
/// # Safety
/// Only this crate and its macros implement this trait.
pub unsafe trait BoxPool: Sized + 'static {
    /// Frees a slot.
    ///
    /// # Safety
    /// `slot` is a live slot of this pool for a value of this layout, and nothing uses it after
    /// this call.
    #[doc(hidden)]
    unsafe fn __give(slot: NonNull<u8>, layout: Layout);

    /// Prepares a box for its conversion to a box of [`AnyPool`]: removes the box's value, of this
    /// layout, from the pool's account if the value is a large block.
    ///
    /// # Safety
    /// The value belongs to a box of this pool, and this function is called once for the box.
    #[doc(hidden)]
    unsafe fn __erase(layout: Layout);
}

/// A pool for values of type `T`: [`OfType<T>`] for a type that has a pool, or a tag that
/// [`pooled!`](crate::pooled) declared for `T`.
///
/// # Safety
/// Only this crate and its macros implement this trait. The thread-local that `__cell` reads and
/// the family that `__family` returns belong to one pool for values of type `T`. The methods of
/// [`BoxPool`] call `give_typed` and `erase_typed`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a pool for values of type `{T}`",
    note = "`pooled!({T});` beside your own type gives it a pool; for other types, `pooled!(struct Tag: {T});` makes one"
)]
pub unsafe trait PoolOf<T>: BoxPool {
    #[doc(hidden)]
    fn __cell() -> ThisCell;
    #[doc(hidden)]
    fn __family() -> &'static Family;
}

/// A type with its own pool. [`pooled!`](crate::pooled) implements this trait.
///
/// # Safety
/// Only this crate and its macros implement this trait. The thread-local that `__cell` reads and
/// the family that `__family` returns belong to one pool for values of type `Self`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no pool",
    note = "`pooled!({Self});` beside your own type gives it one; for other types, `pooled!(struct Tag: {Self});` makes one"
)]
pub unsafe trait Pooled: Sized + 'static {
    #[doc(hidden)]
    fn __cell() -> ThisCell;
    #[doc(hidden)]
    fn __family() -> &'static Family;
}

/// The pool that [`pooled!`](crate::pooled) declares for your own type `T`.
///
/// `OfType<T>` is invariant in `T`, because a supertype of `T` has a different pool. A box
/// therefore does not coerce to a box of a supertype.
pub struct OfType<T: ?Sized>(PhantomData<fn(*mut T) -> *mut T>);

impl<T: ?Sized> fmt::Debug for OfType<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfType")
    }
}

// SAFETY: this crate implements the trait, and the methods call `give_typed` and `erase_typed`.
unsafe impl<T: Pooled> BoxPool for OfType<T> {
    #[inline]
    unsafe fn __give(slot: NonNull<u8>, _: Layout) {
        // SAFETY: this method has the same contract as `give_typed`.
        unsafe { give_typed::<T, Self>(slot) };
    }

    #[inline]
    unsafe fn __erase(layout: Layout) {
        // SAFETY: this method has the same contract as `erase_typed`.
        unsafe { erase_typed::<T, Self>(layout) };
    }
}

// SAFETY: the thread-local and the family both belong to the pool of `T`.
unsafe impl<T: Pooled> PoolOf<T> for OfType<T> {
    #[inline]
    fn __cell() -> ThisCell {
        T::__cell()
    }

    #[inline]
    fn __family() -> &'static Family {
        T::__family()
    }
}

/// The pool of a box whose type does not name a pool. Such a box finds its pool when it is dropped,
/// with two loads more than a box that names its pool.
///
/// If the size or alignment of the value is too large for a unit, no account counts the value of
/// such a box, so limits and statistics do not include it.
#[derive(Debug)]
pub enum AnyPool {}

// SAFETY: the layout of a slot leads to its unit, and the unit names the slot's own heap.
unsafe impl BoxPool for AnyPool {
    #[inline]
    unsafe fn __give(slot: NonNull<u8>, layout: Layout) {
        if is_pooled(layout) {
            // SAFETY: the caller frees a live slot of a family's heap. This thread holds
            // `this_record`, or no unit names it.
            unsafe { threads::give_erased(threads::this_record(), slot, layout) };
        } else if layout.size() != 0 {
            // SAFETY: a live value that has no unit and is not of size zero is a block of pages.
            unsafe { free_unbooked(slot, layout) };
        }
    }

    unsafe fn __erase(_: Layout) {}
}

/// Frees a block of pages that no account counts.
///
/// # Safety
/// `block` is a live block of pages of this layout, whose size is not zero. Nothing uses the block
/// after this call.
#[cold]
#[inline(never)]
unsafe fn free_unbooked(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's block is live and has this layout.
    unsafe { Pages.deallocate(block, layout) };
}

/// Allocates a slot for a value of type `T`.
#[inline]
pub(super) fn allocate<T, P: PoolOf<T>>() -> Result<NonNull<T>, AllocError> {
    let layout = Layout::new::<T>();
    if !is_pooled(layout) {
        return threads::allocate_large(P::__family(), layout, false).map(NonNull::cast);
    }
    // SAFETY: T2: the thread may use these heaps. Each family has a heap with index 0.
    let owner = unsafe { P::__cell().heaps().owner(0) };
    match heap::PoolEnv::heap(&owner).take(layout.size()) {
        Some(slot) => Ok(slot.cast()),
        // SAFETY: each family has a heap with index 0.
        None => unsafe { threads::refill(P::__family(), 0, layout.size()) }.map(NonNull::cast),
    }
}

/// Frees a slot of a pool of one type. [`OfType`] and the macro [`pooled!`](crate::pooled) call
/// this function.
///
/// # Safety
/// `slot` is a live slot of this pool for a value of type `T`, and nothing uses it after this call.
#[doc(hidden)]
#[inline]
pub unsafe fn give_typed<T, P: PoolOf<T>>(slot: NonNull<u8>) {
    let layout = Layout::new::<T>();
    if is_pooled(layout) {
        // SAFETY: T2: the thread may use these heaps. Each family has a heap with index 0.
        let owner = unsafe { P::__cell().heaps().owner(0) };
        // SAFETY: the caller frees a live slot of this family, whose slots all have one type.
        unsafe { heap::give(owner, slot, unit_of(layout), layout.size(), Reach::Slot) };
    } else {
        // SAFETY: the caller frees a live value. No unit serves its layout, so it has size zero or
        // is a block of pages on the family's account.
        unsafe { threads::deallocate_large(P::__family(), slot, layout) };
    }
}

/// Removes the value of a box from the account of its pool of one type, if the value is a large
/// block. `layout` is the layout of the value. [`OfType`] and the macro
/// [`pooled!`](crate::pooled) call this function.
///
/// # Safety
/// The value belongs to a box of this pool, and this function is called once for the box.
#[doc(hidden)]
#[inline]
pub unsafe fn erase_typed<T, P: PoolOf<T>>(layout: Layout) {
    if !is_pooled(layout) && layout.size() != 0 {
        P::__family().account().large(1, layout.size(), false);
        P::__family().account().release(layout.size());
    }
}
