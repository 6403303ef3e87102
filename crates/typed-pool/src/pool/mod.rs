//! `TypedPool`: a pool for one thread, with a backing allocator of the caller's choice.

mod builder;
mod env;
mod handle;

pub use builder::Builder;
pub use handle::TypedBox;

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

#[cfg(feature = "alloc")]
use allocator_api2::alloc::Global;
use allocator_api2::alloc::{AllocError, Allocator};
use ephemera_prim::account::{Account, Limit, LocalAccount};
use ephemera_prim::large;

use crate::geometry::UnitSpec;
use crate::heap::{self, ChunkLen, UnitHeap};
use crate::local_frees::Reach;
use crate::stats::Stats;

macro_rules! typed_pool {
    ($($default:tt)*) => {
        /// A pool of values of one type, for one thread, over a backing allocator `A`.
        ///
        /// [`alloc`](TypedPool::alloc) returns a handle, which drops its value and frees its slot.
        /// [`allocate`](TypedPool::allocate) and [`deallocate`](TypedPool::deallocate) work with
        /// raw slots. The pool allocates from one unit at a time, its *front*. It takes the most
        /// recently freed slot of the front first. If the slot that was freed last is in another
        /// unit, the next allocation may take that slot instead.
        ///
        /// A value larger than 32 KiB, or aligned to more than 4 KiB, is a separate block of the
        /// backing allocator. A value of size zero takes no memory.
        ///
        /// # Drop
        ///
        /// Handles borrow the pool, so they are gone when the pool is dropped. The pool may still
        /// have live raw slots, and values whose handles were forgotten or leaked. If so, the units
        /// of these slots, and the blocks of values without a unit, are never freed, and the
        /// backing allocator is not dropped. [`abandoned`](crate::abandoned()) counts these pools
        /// and slots.
        ///
        /// # Backing allocators that unwind
        ///
        /// The contract of `Allocator` forbids a backing allocator to unwind from `deallocate`. If
        /// it unwinds anyway, the panic reaches the caller of the operation. The pool counts the
        /// memory as freed, and all values and slots stay valid. If this happens in the drop of the
        /// pool, the drop leaks the remaining units and the backing allocator.
        ///
        /// # Panics
        ///
        /// A debug build with `std` panics at the end of the drop of a pool with live slots. If the
        /// thread is already panicking, or runs the destructor of a thread-local, a panic would end
        /// the process, so the pool prints the message to standard error instead. A program without
        /// symbols always prints the message, because it cannot recognise these destructors.
        ///
        /// # Examples
        ///
        /// ```
        /// # #[cfg(feature = "alloc")] {
        /// use typed_pool::TypedPool;
        ///
        /// let pool = TypedPool::new();
        /// let mut word = pool.alloc(String::from("short"));
        /// word.push_str("-lived");
        /// assert_eq!((word.as_str(), pool.len()), ("short-lived", 1));
        /// drop(word);
        /// assert_eq!(pool.len(), 0);
        /// # }
        /// ```
        ///
        /// A pool may move to another thread if its values may, but threads cannot share it:
        ///
        /// ```compile_fail,E0277
        /// fn share<T: Sync>(_: T) {}
        /// share(typed_pool::TypedPool::<u8>::new());
        /// ```
        ///
        /// ```compile_fail,E0277
        /// fn send<T: Send>(_: T) {}
        /// send(typed_pool::TypedPool::<std::rc::Rc<u8>>::new());
        /// ```
        ///
        /// A handle cannot outlive its pool:
        ///
        /// ```compile_fail,E0597
        /// let handle = {
        ///     let pool = typed_pool::TypedPool::new();
        ///     pool.alloc(1)
        /// };
        /// drop(handle);
        /// ```
        ///
        /// A pool cannot move while it has handles:
        ///
        /// ```compile_fail,E0505
        /// let pool = typed_pool::TypedPool::new();
        /// let handle = pool.alloc(1);
        /// drop(pool);
        /// drop(handle);
        /// ```
        pub struct TypedPool<T, A: Allocator $($default)*> {
            pub(crate) heap: UnitHeap,
            account: LocalAccount,
            /// The number of live slots of units other than the front. The guest counts as live
            /// (H8).
            others: Cell<usize>,
            /// The number of live values that are not in a unit, because their size is zero or
            /// their size or alignment is too large.
            loose: Cell<usize>,
            backing: ManuallyDrop<A>,
            marker: PhantomData<fn() -> T>,
        }
    };
}

#[cfg(feature = "alloc")]
typed_pool!(= Global);
#[cfg(not(feature = "alloc"))]
typed_pool!();

// SAFETY: a pool is not tied to the thread that made it. Only the pool and its handles reach its
// units, and a pool with handles is borrowed, so it does not move. Forgotten values move with the
// pool, and they are `Send`.
unsafe impl<T: Send, A: Allocator + Send> Send for TypedPool<T, A> {}

#[cfg(feature = "alloc")]
impl<T> TypedPool<T> {
    /// Creates a pool over the global heap. It holds no memory until its first value.
    #[must_use]
    pub fn new() -> Self {
        Self::new_in(Global)
    }
}

impl<T, A: Allocator> TypedPool<T, A> {
    const LAYOUT: Layout = Layout::new::<T>();
    /// The layout of the pool's units, or `None` for values without units.
    pub(crate) const SPEC: Option<UnitSpec> = UnitSpec::of_one_thread(Self::LAYOUT);

    /// Creates a pool over `backing`. It holds no memory until its first value.
    #[must_use]
    pub fn new_in(backing: A) -> Self {
        Self::from_settings(ChunkLen::Grows, ephemera_prim::account::UNLIMITED, backing)
    }

    fn from_settings(chunk_len: ChunkLen, limit: usize, backing: A) -> Self {
        Self {
            heap: UnitHeap::new(Self::SPEC.unwrap_or(UnitSpec::NONE), chunk_len),
            account: LocalAccount::new(limit),
            others: Cell::new(0),
            loose: Cell::new(0),
            backing: ManuallyDrop::new(backing),
            marker: PhantomData,
        }
    }

    /// Allocates a raw slot without storing a value in it. The caller is responsible for dropping a
    /// value that it stores there, and for freeing the slot with
    /// [`deallocate`](TypedPool::deallocate).
    ///
    /// # Errors
    /// Returns [`AllocError`] if the limit would be exceeded, or if the backing allocator refuses.
    #[inline]
    pub fn allocate(&self) -> Result<NonNull<T>, AllocError> {
        if Self::SPEC.is_none() {
            return self.allocate_loose();
        }
        match self.heap.take(size_of::<T>()) {
            Some(slot) => Ok(slot.cast()),
            None => heap::refill(self, size_of::<T>()).map(NonNull::cast),
        }
    }

    /// Frees a raw slot without dropping a value in it.
    ///
    /// # Safety
    /// `slot` is a live slot of this pool: it came from [`allocate`](TypedPool::allocate) or, for a
    /// handle of this pool, from [`TypedBox::into_raw`]. It has not been freed since.
    #[inline]
    pub unsafe fn deallocate(&self, slot: NonNull<T>) {
        let Some(spec) = Self::SPEC else {
            // SAFETY: the caller frees a live slot, and values of this type have no units.
            return unsafe { self.deallocate_loose(slot) };
        };
        // SAFETY: the caller frees a live slot of this pool, whose slots all have one type.
        unsafe { heap::give(self, slot.cast(), spec.unit, size_of::<T>(), Reach::Slot) };
    }

    #[cold]
    fn allocate_loose(&self) -> Result<NonNull<T>, AllocError> {
        let slot = large::allocate(&*self.backing, &self.account, Self::LAYOUT, Limit::Applies, false)?;
        self.loose.set(self.loose.get() + 1);
        Ok(slot.cast())
    }

    /// Frees the block of a value without a unit.
    ///
    /// # Safety
    /// `slot` is a live slot of this pool, and values of this type have no units.
    #[cold]
    unsafe fn deallocate_loose(&self, slot: NonNull<T>) {
        self.loose.set(self.loose.get() - 1);
        // SAFETY: the slot is a live block of the backing allocator, or has size zero.
        unsafe { large::deallocate(&*self.backing, &self.account, slot.cast(), Self::LAYOUT) };
    }

    /// Returns the number of live values, including raw slots.
    ///
    /// The time that this call takes does not depend on the number of values or units. The pool
    /// follows the free list of its front, which has at most the slots of one unit: 32 KiB for
    /// values of up to 512 bytes. For all other units, it keeps a count of the live slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.others.get() - self.heap.guests() + self.heap.live_in_front() + self.loose.get()
    }

    /// Returns whether no value is live. This takes at most as long as [`len`](TypedPool::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.loose.get() == 0 && self.others.get() <= 1 && self.len() == 0
    }

    /// Returns the number of values for which the pool holds memory, including the live values.
    /// This takes constant time. For values without units, the result is the number of live values.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.heap.slots_len() + self.loose.get()
    }

    /// Returns statistics of this pool, such as the bytes held and the number of live slots.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::of_account(self.account.now());
        stats.add_heap(&self.heap, true, |_| 0);
        stats.add_large();
        stats
    }

    /// Returns all empty units to the backing allocator.
    ///
    /// Without a trim, a pool keeps 4 empty units and the units of its initial capacity, and frees
    /// others as they become empty. Each time it frees a unit and later requests one, it keeps one
    /// more, until its load no longer needs it.
    ///
    /// There is no `trim_all`, because a pool belongs to one thread and shares nothing with other
    /// pools.
    pub fn trim(&self) {
        heap::trim(self);
    }
}

#[cfg(feature = "alloc")]
impl<T> Default for TypedPool<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, A: Allocator> fmt::Debug for TypedPool<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedPool")
            .field("type", &core::any::type_name::<T>())
            .field("len", &self.len())
            .field("bytes_held", &self.account.now().held)
            .finish_non_exhaustive()
    }
}

/// Reports a failed allocation, for methods that do not return a `Result`.
#[cold]
fn no_memory(layout: Layout) -> ! {
    #[cfg(feature = "alloc")]
    allocator_api2::alloc::handle_alloc_error(layout);
    // `handle_alloc_error` is not available without the crate `alloc`.
    #[cfg(not(feature = "alloc"))]
    panic!("no memory for {} bytes", layout.size());
}
