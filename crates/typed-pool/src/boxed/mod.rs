//! `PooledBox`: a box whose memory comes from a pool of its type on each thread.

mod macros;
mod pools;
mod traits;
mod unsize;

pub use pools::{AnyPool, BoxPool, OfType, PoolOf, Pooled, erase_typed, give_typed};

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::{self, MaybeUninit};
use core::pin::Pin;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, handle_alloc_error};

use crate::error::TryAllocError;
use crate::stats::Stats;

/// An owned value in the pool of its type: a `Box` for types that have a pool.
///
/// [`pooled!`](crate::pooled) gives a type a pool on each thread. Any thread may drop a value, even
/// after the thread that allocated it has ended. The slot returns to the pool that allocated it.
/// Destructors of thread-locals may allocate and drop values.
///
/// `P` names the pool: [`OfType<T>`] for your own types, a tag for other types, and [`AnyPool`] for
/// values whose pool is not known statically, such as trait objects ([`unsize!`](crate::unsize)).
///
/// The box is one pointer wide (two for trait objects and slices), and so is an `Option` of it. It
/// is `Send` or `Sync` if a `Box` of the value is.
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
/// let sum = move || first.key + first.next.as_ref().map_or(0, |next| next.key);
/// let sum = std::thread::spawn(sum);
/// assert_eq!(sum.join().unwrap(), 3);
/// ```
///
/// A box of a type without a pool does not compile:
///
/// ```compile_fail,E0277
/// struct Plain(u32);
/// let plain = typed_pool::PooledBox::new(Plain(1));
/// ```
///
/// Moving a value that is not `Send` to another thread does not compile either:
///
/// ```compile_fail,E0277
/// struct Local(std::rc::Rc<u8>);
/// typed_pool::pooled!(Local);
/// let local = typed_pool::PooledBox::new(Local(std::rc::Rc::new(1)));
/// std::thread::spawn(move || drop(local));
/// ```
pub struct PooledBox<T: ?Sized, P: BoxPool = OfType<T>> {
    value: NonNull<T>,
    owns: PhantomData<T>,
    pool: PhantomData<fn() -> P>,
}

// SAFETY: the box owns its value, and any thread may free a slot.
unsafe impl<T: ?Sized + Send, P: BoxPool> Send for PooledBox<T, P> {}
// SAFETY: a shared box gives only shared references to its value.
unsafe impl<T: ?Sized + Sync, P: BoxPool> Sync for PooledBox<T, P> {}

impl<T: Pooled> PooledBox<T> {
    /// Allocates a slot from this thread's pool of the type, and moves `value` into it.
    ///
    /// A value of size zero needs no slot. A value larger than 32 KiB, or aligned to more than 4
    /// KiB, gets its own pages instead of a slot.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the allocation fails. [`PooledBox::try_new`] returns an error
    /// instead.
    #[inline]
    #[must_use]
    pub fn new(value: T) -> Self {
        Self::make(value)
    }

    /// Allocates a slot, then stores the result of `init` in it. If `init` panics, this function
    /// frees the slot.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the allocation fails.
    #[inline]
    #[must_use]
    pub fn new_with(init: impl FnOnce() -> T) -> Self {
        Self::make_with(init)
    }

    /// Allocates a slot from this thread's pool of the type, and moves `value` into it.
    ///
    /// # Errors
    /// Returns [`TryAllocError`], with the value, if the limit would be exceeded, or if the
    /// operating system refuses.
    #[inline]
    pub fn try_new(value: T) -> Result<Self, TryAllocError<T>> {
        Self::try_make(value)
    }

    /// Allocates a slot, then stores the result of `init` in it, like [`PooledBox::new_with`].
    ///
    /// # Errors
    /// Returns [`TryAllocError`], with `init`, if the limit would be exceeded, or if the operating
    /// system refuses.
    #[inline]
    pub fn try_new_with<F: FnOnce() -> T>(init: F) -> Result<Self, TryAllocError<F, T>> {
        Self::try_make_with(init)
    }

    /// Allocates a slot like [`PooledBox::new`], and pins the value in it.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the allocation fails.
    #[inline]
    #[must_use]
    pub fn pin(value: T) -> Pin<Self> {
        Self::into_pin(Self::make(value))
    }

    /// Returns statistics of this type's pools on all threads, such as the bytes held and the
    /// number of live slots.
    #[must_use]
    pub fn stats() -> Stats {
        T::__family().stats()
    }

    /// Sets the limit on the bytes that this type's pools hold, on all threads together.
    /// `usize::MAX`, the initial value, means no limit.
    ///
    /// Before the limit refuses a request, the requesting thread frees its own empty units and the
    /// empty units of ended threads, and asks running threads to free theirs. A new limit does not
    /// free memory that is already held. At a refusal, [`try_new`](Self::try_new) returns an error,
    /// and [`new`](Self::new) aborts the process.
    pub fn set_limit(bytes: usize) {
        T::__family().set_limit(bytes);
    }

    /// Publishes the remote frees that wait in this thread's bundle, books the remote frees of the
    /// thread's own slots, then frees all empty units of the thread's pool. Also moves this
    /// thread's freed large blocks to the cache of the process.
    ///
    /// Without a trim, a thread keeps 4 empty units of each type (fewer, but at least one, if a
    /// unit exceeds 32 KiB) and frees others as they become empty. Each time it frees a unit and
    /// later requests one, it keeps one more, up to 4 MiB, until its load no longer needs it. While
    /// other threads free many of its values, it keeps up to 2 MiB. It frees all empty units when
    /// it ends.
    pub fn trim() {
        T::__family().trim();
    }

    /// Trims this thread and the records of ended threads, and asks running threads to trim at
    /// their next slow path.
    ///
    /// A running thread that takes slow paths only for other types trims this pool within 64 of
    /// these slow paths. The request does not reach a thread that takes no slow path. That thread
    /// frees its empty units and publishes its remote frees when it calls `trim` or ends.
    pub fn trim_all() {
        T::__family().trim_all();
    }
}

impl<T, P: PoolOf<T>> PooledBox<T, P> {
    /// Allocates a slot like [`PooledBox::new`], in the pool of a [`pooled!`](crate::pooled) tag.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the allocation fails.
    #[inline]
    #[must_use]
    pub fn new_in(value: T, _: P) -> Self {
        Self::make(value)
    }

    /// Allocates a slot like [`PooledBox::new_with`], in the pool of a tag.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the allocation fails.
    #[inline]
    #[must_use]
    pub fn new_with_in(init: impl FnOnce() -> T, _: P) -> Self {
        Self::make_with(init)
    }

    /// Allocates a slot like [`PooledBox::try_new`], in the pool of a tag.
    ///
    /// # Errors
    /// Returns [`TryAllocError`], with the value, if the allocation fails.
    #[inline]
    pub fn try_new_in(value: T, _: P) -> Result<Self, TryAllocError<T>> {
        Self::try_make(value)
    }

    /// Allocates a slot like [`PooledBox::try_new_with`], in the pool of a tag.
    ///
    /// # Errors
    /// Returns [`TryAllocError`], with `init`, if the allocation fails.
    #[inline]
    pub fn try_new_with_in<F: FnOnce() -> T>(init: F, _: P) -> Result<Self, TryAllocError<F, T>> {
        Self::try_make_with(init)
    }

    /// Allocates a slot like [`PooledBox::pin`], in the pool of a tag.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if the allocation fails.
    #[inline]
    #[must_use]
    pub fn pin_in(value: T, _: P) -> Pin<Self> {
        Self::into_pin(Self::make(value))
    }

    #[inline]
    fn make(value: T) -> Self {
        match pools::allocate::<T, P>() {
            // SAFETY: the slot was just allocated from this pool, so nothing else uses it.
            Ok(slot) => unsafe { Self::fill(slot, value) },
            Err(AllocError) => handle_alloc_error(Layout::new::<T>()),
        }
    }

    #[inline]
    fn try_make(value: T) -> Result<Self, TryAllocError<T>> {
        match pools::allocate::<T, P>() {
            // SAFETY: the slot was just allocated from this pool, so nothing else uses it.
            Ok(slot) => Ok(unsafe { Self::fill(slot, value) }),
            Err(AllocError) => Err(TryAllocError::new(value)),
        }
    }

    #[inline]
    fn make_with(init: impl FnOnce() -> T) -> Self {
        match pools::allocate::<T, P>() {
            Ok(slot) => Self::fill_with(slot, init),
            Err(AllocError) => handle_alloc_error(Layout::new::<T>()),
        }
    }

    #[inline]
    fn try_make_with<F: FnOnce() -> T>(init: F) -> Result<Self, TryAllocError<F, T>> {
        match pools::allocate::<T, P>() {
            Ok(slot) => Ok(Self::fill_with(slot, init)),
            Err(AllocError) => Err(TryAllocError::new(init)),
        }
    }

    /// Stores the result of `init` in a fresh slot.
    #[inline]
    fn fill_with(slot: NonNull<T>, init: impl FnOnce() -> T) -> Self {
        let guard = SlotGuard::<MaybeUninit<T>, P> { value: slot.cast(), pool: PhantomData };
        let value = init();
        mem::forget(guard);
        // SAFETY: nothing else uses the fresh slot, and the guard was forgotten, so it does not
        // free the slot.
        unsafe { Self::fill(slot, value) }
    }

    /// Stores `value` in a slot.
    ///
    /// # Safety
    /// `slot` is a live slot of this pool that nothing else uses.
    #[inline]
    unsafe fn fill(slot: NonNull<T>, value: T) -> Self {
        // SAFETY: the caller has exclusive access to the slot.
        unsafe { slot.write(value) };
        // SAFETY: the slot now has a value, and nothing else uses it.
        unsafe { Self::from_raw(slot) }
    }
}

impl<T, P: BoxPool> PooledBox<T, P> {
    /// Consumes the box, frees its slot, and returns the value.
    #[inline]
    #[must_use]
    pub fn into_inner(this: Self) -> T {
        let slot = Self::into_raw(this);
        // SAFETY: the box owned the value, and nothing reads or drops the copy in the slot again.
        let value = unsafe { slot.read() };
        // SAFETY: the box owned the slot, which is not used again.
        unsafe { P::__give(slot.cast(), Layout::new::<T>()) };
        value
    }
}

impl<T: ?Sized, P: BoxPool> PooledBox<T, P> {
    /// Leaks the box, and returns a reference with any lifetime to its value. The value is not
    /// dropped, and its slot is not freed.
    #[inline]
    #[must_use]
    pub fn leak<'a>(this: Self) -> &'a mut T
    where
        T: 'a,
    {
        // SAFETY: the box owned the value, and nothing frees it.
        unsafe { Self::into_raw(this).as_mut() }
    }

    /// Consumes the box and returns the pointer to its value. [`PooledBox::from_raw`] turns the
    /// pointer into a box again.
    #[inline]
    #[must_use]
    pub fn into_raw(this: Self) -> NonNull<T> {
        let value = this.value;
        mem::forget(this);
        value
    }

    /// Creates a box from a pointer that [`PooledBox::into_raw`] returned.
    ///
    /// # Safety
    /// `value` came from `into_raw` of a box with the same `P`, and nothing else uses it.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(value: NonNull<T>) -> Self {
        Self { value, owns: PhantomData, pool: PhantomData }
    }

    /// Returns the pointer to the value. The box still owns the value.
    #[inline]
    #[must_use]
    pub fn as_ptr(this: &Self) -> *const T {
        this.value.as_ptr()
    }

    /// Returns the pointer to the value. The box still owns the value.
    #[inline]
    #[must_use]
    pub fn as_mut_ptr(this: &mut Self) -> *mut T {
        this.value.as_ptr()
    }

    /// Converts the box into a pinned box.
    #[inline]
    #[must_use]
    pub fn into_pin(this: Self) -> Pin<Self> {
        // SAFETY: the value stays in its slot until it is dropped, even if the box moves. A leaked
        // value stays in its slot permanently.
        unsafe { Pin::new_unchecked(this) }
    }
}

impl<T: ?Sized, P: BoxPool> Drop for PooledBox<T, P> {
    #[inline]
    fn drop(&mut self) {
        // `_guard` frees the slot after the value's destructor, even if the destructor panics. The
        // destructor may use the pool.
        let _guard = SlotGuard::<T, P> { value: self.value, pool: PhantomData };
        // This function creates no reference to the value, because a pinned value may hold
        // references into itself that its destructor uses.
        // SAFETY: the box owns its value, which is dropped only here.
        unsafe { self.value.drop_in_place() };
    }
}

/// Guards a slot whose value is being dropped, or is not stored yet. Dropping the guard frees the
/// slot.
struct SlotGuard<T: ?Sized, P: BoxPool> {
    value: NonNull<T>,
    pool: PhantomData<fn() -> P>,
}

impl<T: ?Sized, P: BoxPool> Drop for SlotGuard<T, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the slot is still live, and `for_value` reads only the type and the pointer's
        // metadata.
        let layout = Layout::for_value::<T>(unsafe { self.value.as_ref() });
        // SAFETY: the slot is live and has this layout. Its value was dropped or never stored, so
        // nothing uses the slot after this call.
        unsafe { P::__give(self.value.cast(), layout) };
    }
}

/// A box is `Unpin` for every `T`, because moving the box does not move its value.
impl<T: ?Sized, P: BoxPool> Unpin for PooledBox<T, P> {}
