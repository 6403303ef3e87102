//! `PooledBox`: a box whose memory comes from its type's pool on each thread.

mod macros;
mod pools;
mod traits;
mod unsize;

pub use pools::{AnyPool, OfType, Pool, PoolOf, Pooled, typed};

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::{self, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, handle_alloc_error};

use crate::error::Refused;
use crate::stats::Stats;
use crate::threads;

/// An owned value in its type's pool: what `Box` is, for types that have a pool.
///
/// Every thread has a pool of its own for each such type ([`pooled!`](crate::pooled)). A value may be dropped on any thread, also after the one that made
/// it ended, and made and dropped in destructors of thread-locals: its slot goes back to the pool that it is from.
///
/// `P` names the pool: [`OfType<T>`] for types of your own, a tag for other types, [`AnyPool`] for values of which the pool is not
/// known any more, trait objects above all ([`unsize!`](crate::unsize)).
///
/// One pointer wide (two for trait objects and slices), and so is an `Option` of it. `Send` and `Sync` as `Box` is.
///
/// # Examples
///
/// ```
/// use typed_pool::{PooledBox, pooled};
///
/// struct Node {
///     key: u32,
///     next: Option<PooledBox<Node>>,
/// }
///
/// pooled!(Node);
///
/// let last = PooledBox::new(Node { key: 2, next: None });
/// let first = PooledBox::new(Node { key: 1, next: Some(last) });
/// let sum = std::thread::spawn(move || first.key + first.next.as_ref().map_or(0, |next| next.key));
/// assert_eq!(sum.join().unwrap(), 3);
/// ```
///
/// A type without a pool is refused when the program is compiled:
///
/// ```compile_fail,E0277
/// struct Plain(u32);
/// let plain = typed_pool::PooledBox::new(Plain(1));
/// ```
///
/// and so is a value on a thread where it may not be:
///
/// ```compile_fail,E0277
/// struct Local(std::rc::Rc<u8>);
/// typed_pool::pooled!(Local);
/// let local = typed_pool::PooledBox::new(Local(std::rc::Rc::new(1)));
/// std::thread::spawn(move || drop(local));
/// ```
pub struct PooledBox<T: ?Sized, P: Pool = OfType<T>> {
    value: NonNull<T>,
    owns: PhantomData<T>,
    pool: PhantomData<fn() -> P>,
}

// SAFETY: it owns its value, as a box does; its slot may be freed on any thread.
unsafe impl<T: ?Sized + Send, P: Pool> Send for PooledBox<T, P> {}
// SAFETY: shared, it gives out shared references to the value and nothing else.
unsafe impl<T: ?Sized + Sync, P: Pool> Sync for PooledBox<T, P> {}

impl<T: Pooled> PooledBox<T> {
    /// Stores `value` in this thread's pool of its type.
    ///
    /// Calls `handle_alloc_error` when there is no memory: see [`PooledBox::try_new`]. Of size zero it has no slot, and larger than 32 KiB
    /// it is a block of the global heap's.
    #[inline]
    #[must_use]
    pub fn new(value: T) -> Self {
        Self::make(value)
    }

    /// Stores what `init` returns. The slot is taken first; if `init` panics, it is free again.
    #[inline]
    #[must_use]
    pub fn new_with(init: impl FnOnce() -> T) -> Self {
        Self::make_with(init)
    }

    /// Stores `value` in this thread's pool of its type.
    ///
    /// # Errors
    /// [`Refused`], with the value, when the limit would be exceeded, or the global heap refuses.
    #[inline]
    pub fn try_new(value: T) -> Result<Self, Refused<T>> {
        Self::try_make(value)
    }

    /// Stores `value`, pinned.
    #[inline]
    #[must_use]
    pub fn pin(value: T) -> Pin<Self> {
        Self::into_pin(Self::make(value))
    }

    /// What this type's pools hold, on all threads, and what of it is alive.
    #[must_use]
    pub fn stats() -> Stats {
        T::__family().stats()
    }

    /// Sets the most bytes that this type's pools may hold from the global heap, on all threads together, from now on; `usize::MAX` for no
    /// limit, which is how a program starts.
    ///
    /// Requests beyond it fail, after this thread and the records of ended ones gave back what they held in vain. What is held already stays.
    pub fn set_limit(bytes: usize) {
        T::__family().account().set_limit(bytes);
    }

    /// Gives this thread's units in which nothing is alive back to the global heap, after booking what other threads freed.
    ///
    /// Without it, a thread keeps 4 such units of each type for its next need, gives back others as they run empty, and keeps one more each
    /// time that it has to ask for one that it gave back; it gives back all when it ends.
    pub fn trim() {
        threads::trim_here(T::__family());
    }

    /// As [`PooledBox::trim`], also for what ended threads left behind; and asks the threads that run to do the same when they next have no
    /// free slot at hand.
    ///
    /// A thread that makes no such value any more is not reached: what it keeps goes at its end or at its own `trim`.
    pub fn trim_all() {
        threads::trim_all(T::__family());
    }
}

impl<T, P: PoolOf<T>> PooledBox<T, P> {
    /// As [`PooledBox::new`], in the pool that a tag of [`pooled!`](crate::pooled) stands for.
    #[inline]
    #[must_use]
    pub fn new_in(value: T, _: P) -> Self {
        Self::make(value)
    }

    /// As [`PooledBox::new_with`], in the pool of a tag.
    #[inline]
    #[must_use]
    pub fn new_with_in(init: impl FnOnce() -> T, _: P) -> Self {
        Self::make_with(init)
    }

    /// As [`PooledBox::try_new`], in the pool of a tag.
    ///
    /// # Errors
    /// As [`PooledBox::try_new`].
    #[inline]
    pub fn try_new_in(value: T, _: P) -> Result<Self, Refused<T>> {
        Self::try_make(value)
    }

    /// As [`PooledBox::pin`], in the pool of a tag.
    #[inline]
    #[must_use]
    pub fn pin_in(value: T, _: P) -> Pin<Self> {
        Self::into_pin(Self::make(value))
    }

    #[inline]
    fn make(value: T) -> Self {
        match pools::allocate::<T, P>() {
            // SAFETY: a fresh slot.
            Ok(slot) => unsafe { Self::fill(slot, value) },
            Err(AllocError) => handle_alloc_error(Layout::new::<T>()),
        }
    }

    #[inline]
    fn try_make(value: T) -> Result<Self, Refused<T>> {
        match pools::allocate::<T, P>() {
            // SAFETY: a fresh slot.
            Ok(slot) => Ok(unsafe { Self::fill(slot, value) }),
            Err(AllocError) => Err(Refused::new(value)),
        }
    }

    #[inline]
    fn make_with(init: impl FnOnce() -> T) -> Self {
        let Ok(slot) = pools::allocate::<T, P>() else { handle_alloc_error(Layout::new::<T>()) };
        let end = End::<MaybeUninit<T>, P> { value: slot.cast(), pool: PhantomData };
        let value = init();
        mem::forget(end);
        // SAFETY: the fresh slot, which was not freed.
        unsafe { Self::fill(slot, value) }
    }

    /// # Safety
    /// `slot` is a live slot of such a pool, and nobody else has it.
    #[inline]
    unsafe fn fill(slot: NonNull<T>, value: T) -> Self {
        // SAFETY: the caller's slot.
        unsafe { slot.write(value) };
        // SAFETY: the caller's slot, now with a value.
        unsafe { Self::from_raw(slot) }
    }
}

impl<T, P: Pool> PooledBox<T, P> {
    /// Takes the value out and frees its slot.
    #[inline]
    #[must_use]
    pub fn into_inner(this: Self) -> T {
        let slot = Self::into_raw(this);
        // SAFETY: the box's value, which nobody else has.
        let value = unsafe { slot.read() };
        // SAFETY: the box's slot, given up.
        unsafe { P::__give(slot.cast(), Layout::new::<T>()) };
        value
    }
}

impl<T: ?Sized, P: Pool> PooledBox<T, P> {
    /// The value for the rest of the program, or less. It is not dropped, and its slot not freed.
    #[inline]
    #[must_use]
    pub fn leak<'a>(this: Self) -> &'a mut T
    where
        T: 'a,
    {
        // SAFETY: the box's value, which nobody else has, and which nobody frees.
        unsafe { Self::into_raw(this).as_mut() }
    }

    /// The pointer to the value. [`PooledBox::from_raw`] takes it back.
    #[inline]
    #[must_use]
    pub fn into_raw(this: Self) -> NonNull<T> {
        let value = this.value;
        mem::forget(this);
        value
    }

    /// The box of a pointer that [`PooledBox::into_raw`] gave.
    ///
    /// # Safety
    /// `value` is from `into_raw` of a box with the same `P`, and nobody else has it.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(value: NonNull<T>) -> Self {
        Self { value, owns: PhantomData, pool: PhantomData }
    }

    /// The pointer to the value, which the box goes on to own.
    #[inline]
    #[must_use]
    pub fn as_ptr(this: &Self) -> *const T {
        this.value.as_ptr()
    }

    /// The pointer to the value, which the box goes on to own.
    #[inline]
    #[must_use]
    pub fn as_mut_ptr(this: &mut Self) -> *mut T {
        this.value.as_ptr()
    }

    /// The same box, pinned.
    #[inline]
    #[must_use]
    pub fn into_pin(this: Self) -> Pin<Self> {
        // SAFETY: the value stays in its slot until it is dropped, wherever the box goes; a leaked one stays there for ever.
        unsafe { Pin::new_unchecked(this) }
    }
}

impl<T: ?Sized, P: Pool> Drop for PooledBox<T, P> {
    #[inline]
    fn drop(&mut self) {
        // Freed behind the value, also where that panics; the value's destructor may use the pool.
        let _end = End::<T, P> { value: self.value, pool: PhantomData };
        // No reference to the value is made before: one that is pinned may hold references into itself, which its destructor uses.
        // SAFETY: the box's value, dropped here alone.
        unsafe { self.value.drop_in_place() };
    }
}

/// The slot of a value whose end has come, or that never was: it is free again when this is dropped.
struct End<T: ?Sized, P: Pool> {
    value: NonNull<T>,
    pool: PhantomData<fn() -> P>,
}

impl<T: ?Sized, P: Pool> Drop for End<T, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the slot is there still, and what is left in it is not looked at: a size is a matter of the type and of what comes with
        // the pointer.
        let layout = Layout::for_value::<T>(unsafe { self.value.as_ref() });
        // SAFETY: the slot of a box that was dropped or never made, for a value of this layout.
        unsafe { P::__give(self.value.cast(), layout) };
    }
}

impl<T: ?Sized, P: Pool> Deref for PooledBox<T, P> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the box's value.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized, P: Pool> DerefMut for PooledBox<T, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the box's value, which nobody else has.
        unsafe { self.value.as_mut() }
    }
}

/// The value does not move with its box.
impl<T: ?Sized, P: Pool> Unpin for PooledBox<T, P> {}
