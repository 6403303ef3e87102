//! `TypedPool`: a pool as a value, for one thread.

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

use crate::account::{Account, LocalAccount};
use crate::error::Refused;
use crate::geometry::{Spec, unit_of};
use crate::heap::{self, ChunkLen, Heap};
use crate::stats::Stats;
use crate::unit::Reach;

macro_rules! typed_pool {
    ($($default:tt)*) => {
        /// Pool of values of one type, for one thread, over a backing allocator `A`.
        ///
        /// [`alloc`](TypedPool::alloc) gives a handle that drops its value and frees its slot;
        /// [`allocate`](TypedPool::allocate) and [`deallocate`](TypedPool::deallocate) deal in raw slots. One of
        /// the pool's units is its front, which allocations come from: of the front's slots, the one freed last is the next
        /// to be handed out.
        ///
        /// Values larger than 32 KiB, or aligned to more than 4 KiB, are the backing allocator's own blocks. Values of size zero have no memory.
        ///
        /// # When it is dropped
        ///
        /// Handles borrow the pool, so none is left. Raw slots may be, and handles that were forgotten or leaked: their units are
        /// kept for ever, and so is the backing allocator. [`abandoned`](crate::abandoned()) counts them.
        ///
        /// # A backing allocator that unwinds
        ///
        /// A backing allocator must not unwind from `deallocate`, as `core`'s own contract has it. Should it do so, the
        /// panic goes through to the caller of the operation, the memory that was given back counts as gone, and all
        /// values and slots stay valid. If it happens while the pool is dropped, the units not given back by then are
        /// leaked, and the backing allocator with them.
        ///
        /// # Panics
        ///
        /// A debug build with `std` panics when a pool is dropped with slots out. All is done then that a drop does. Where a panic would
        /// end the process, while the thread is panicking already or in the destructor of a thread-local, the words go to standard
        /// error instead, as they do in programs without symbols, in which these destructors cannot be told from others.
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
        /// It goes to another thread with all that is in it, if that may, but is not shared:
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
        /// Handles do not outlive it:
        ///
        /// ```compile_fail,E0597
        /// let handle = {
        ///     let pool = typed_pool::TypedPool::new();
        ///     pool.alloc(1)
        /// };
        /// drop(handle);
        /// ```
        ///
        /// nor does it move while there are any:
        ///
        /// ```compile_fail,E0505
        /// let pool = typed_pool::TypedPool::new();
        /// let handle = pool.alloc(1);
        /// drop(pool);
        /// drop(handle);
        /// ```
        pub struct TypedPool<T, A: Allocator $($default)*> {
            pub(crate) heap: Heap,
            account: LocalAccount,
            /// Values alive that have no units: of size zero, or too large.
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

// SAFETY: nothing in a pool stands for the thread that made it; its units are reached by it alone, and by handles, which borrow
// it and do not leave their thread. Values that were forgotten in it go along, and are `Send`.
unsafe impl<T: Send, A: Allocator + Send> Send for TypedPool<T, A> {}

#[cfg(feature = "alloc")]
impl<T> TypedPool<T> {
    /// A pool over the global heap. It holds nothing until its first value.
    #[must_use]
    pub fn new() -> Self {
        Self::new_in(Global)
    }

    /// A pool that has room for so many values before it next asks the global heap, and keeps it until a [`trim`](TypedPool::trim). Of that
    /// room one page in eight, that with a unit's header, is touched. Values without units have their own block each, and no room before.
    ///
    /// Calls [`handle_alloc_error`](allocator_api2::alloc::handle_alloc_error) when there is no memory for that.
    #[must_use]
    pub fn with_capacity(slots: usize) -> Self {
        Self::builder().capacity(slots).build()
    }

    /// A pool that takes so many slots at a time from the global heap, not fewer than one, and no more than 64 units. Otherwise it begins with
    /// 64 slots, and takes twice as many with each unit that it holds, up to a whole unit.
    #[must_use]
    pub fn with_chunk_len(slots: usize) -> Self {
        Self::builder().chunk_len(slots).build()
    }

    /// Settings for a pool: a limit on bytes held, slots to take at a time, slots to begin with.
    pub const fn builder() -> Builder<T> {
        Builder::new()
    }
}

impl<T, A: Allocator> TypedPool<T, A> {
    const LAYOUT: Layout = Layout::new::<T>();
    /// Where its slots lie; `None` for values without units.
    pub(crate) const SPEC: Option<Spec> = Spec::of_one_thread(Self::LAYOUT);
    const UNIT: usize = unit_of_pooled(Self::LAYOUT);

    /// A pool over `backing`. It holds nothing until its first value.
    #[must_use]
    pub fn new_in(backing: A) -> Self {
        Self::from_settings(ChunkLen::Grows, crate::account::UNLIMITED, backing)
    }

    fn from_settings(chunk_len: ChunkLen, limit: usize, backing: A) -> Self {
        Self {
            heap: Heap::new(Self::SPEC.unwrap_or(Spec::NONE), chunk_len),
            account: LocalAccount::new(limit),
            loose: Cell::new(0),
            backing: ManuallyDrop::new(backing),
            marker: PhantomData,
        }
    }

    /// Stores `value` and returns its handle.
    ///
    /// # Panics
    /// When there is no memory: by way of `handle_alloc_error`, where there is one. [`TypedPool::try_alloc`] does not.
    #[inline]
    pub fn alloc(&self, value: T) -> TypedBox<'_, T, A> {
        match self.allocate() {
            Ok(slot) => self.fill(slot, value),
            Err(AllocError) => no_memory(Self::LAYOUT),
        }
    }

    /// Stores `value` and returns its handle.
    ///
    /// # Errors
    /// [`Refused`], with the value, when the limit would be exceeded, or the backing allocator refuses.
    #[inline]
    pub fn try_alloc(&self, value: T) -> Result<TypedBox<'_, T, A>, Refused<T>> {
        match self.allocate() {
            Ok(slot) => Ok(self.fill(slot, value)),
            Err(AllocError) => Err(Refused::new(value)),
        }
    }

    /// Stores what `init` returns and returns its handle. The slot is taken first; if `init` panics, it is free again.
    ///
    /// # Panics
    /// As [`TypedPool::alloc`], and where `init` does.
    #[inline]
    pub fn alloc_with(&self, init: impl FnOnce() -> T) -> TypedBox<'_, T, A> {
        match self.allocate() {
            Ok(slot) => {
                let claim = handle::Claim::new(self, slot);
                let value = init();
                self.fill(claim.keep(), value)
            }
            Err(AllocError) => no_memory(Self::LAYOUT),
        }
    }

    #[inline]
    fn fill(&self, slot: NonNull<T>, value: T) -> TypedBox<'_, T, A> {
        // SAFETY: a slot for a `T` that nobody else has.
        unsafe { slot.write(value) };
        // SAFETY: a live slot of this pool with a value, given to this handle alone.
        unsafe { TypedBox::new(self, slot) }
    }

    /// A raw slot for a value, not initialised. Whoever has it drops what is in it and gives it back with
    /// [`deallocate`](TypedPool::deallocate).
    ///
    /// # Errors
    /// [`AllocError`] when the limit would be exceeded, or the backing allocator refuses.
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

    /// Gives back a raw slot. What is in it is not dropped.
    ///
    /// # Safety
    /// `slot` is from [`allocate`](TypedPool::allocate) of this pool (or a handle's, by [`TypedBox::into_raw`]) and was not given back since.
    #[inline]
    pub unsafe fn deallocate(&self, slot: NonNull<T>) {
        if Self::SPEC.is_none() {
            // SAFETY: the caller's.
            return unsafe { self.deallocate_loose(slot) };
        }
        // SAFETY: the caller's slot, of this pool's only kind.
        unsafe { heap::give(self, slot.cast(), Self::UNIT, size_of::<T>(), Reach::Slot) };
    }

    fn allocate_loose(&self) -> Result<NonNull<T>, AllocError> {
        let slot = heap::allocate_large(&*self.backing, &self.account, Self::LAYOUT, false)?;
        self.loose.set(self.loose.get() + 1);
        Ok(slot.cast())
    }

    /// # Safety
    /// As [`TypedPool::deallocate`], for a type without units.
    unsafe fn deallocate_loose(&self, slot: NonNull<T>) {
        self.loose.set(self.loose.get() - 1);
        // SAFETY: the caller's; the backing allocator's own block, or no memory.
        unsafe { heap::deallocate_large(&*self.backing, &self.account, slot.cast(), Self::LAYOUT) };
    }

    /// The handle of a slot that [`TypedBox::into_raw`] gave.
    ///
    /// # Safety
    /// `slot` is a live slot of this pool with a value in it, and nobody else has it.
    #[inline]
    pub unsafe fn from_raw(&self, slot: NonNull<T>) -> TypedBox<'_, T, A> {
        // SAFETY: the caller's.
        unsafe { TypedBox::new(self, slot) }
    }

    /// Values alive, raw slots among them. Walks along the units.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stats().slots_live + self.loose.get()
    }

    /// Whether no value is alive.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values that there is room for in what the pool holds, those alive among them. Walks along the units. Of values without units, those
    /// alive.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.stats().slots + self.loose.get()
    }

    /// What this pool holds and what of it is alive.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::of_account(self.account.now());
        stats.add_heap(&self.heap, true);
        stats
    }

    /// Gives every unit in which nothing is alive back to the backing allocator.
    ///
    /// Without it, a pool keeps 4 such units for its next need and those that it began with, gives back others as they run empty, and keeps
    /// one more each time that it has to ask for one that it gave back.
    pub fn trim(&self) {
        heap::trim(self);
    }
}

/// The mask's size for a type that has units; of no meaning for others.
const fn unit_of_pooled(layout: Layout) -> usize {
    if crate::geometry::is_pooled(layout) { unit_of(layout) } else { 1 }
}

#[cfg(feature = "alloc")]
impl<T> Default for TypedPool<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, A: Allocator> fmt::Debug for TypedPool<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        f.debug_struct("TypedPool")
            .field("type", &core::any::type_name::<T>())
            .field("len", &(stats.slots_live + self.loose.get()))
            .field("bytes_held", &stats.bytes_held)
            .finish_non_exhaustive()
    }
}

/// There is no memory, and the caller did not ask for a `Result`.
#[cold]
fn no_memory(layout: Layout) -> ! {
    #[cfg(feature = "alloc")]
    allocator_api2::alloc::handle_alloc_error(layout);
    // The handler is `alloc`'s.
    #[cfg(not(feature = "alloc"))]
    panic!("no memory for {} bytes", layout.size());
}
