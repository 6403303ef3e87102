//! The textbook free list: slots in chunks, linked through the freed slots themselves, last in
//! first out. Every pool has to be faster. There is one with a mutex and one without.

use core::cell::{Cell, RefCell};
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use crate::card::{Caps, Info, MemoryBy};
use crate::objects::{Maker, Object, RawPool};

/// The slots of a chunk.
const CHUNK: usize = 64;

/// A slot: an object, or a link to the next free slot. Only its size and alignment matter here;
/// each access has the type of one or the other.
union ListSlot<T> {
    _object: ManuallyDrop<T>,
    _next: *mut ListSlot<T>,
}

/// The free list. Its drop frees the memory.
pub struct FreeList<T> {
    head: Cell<*mut ListSlot<T>>,
    chunks: RefCell<Vec<Chunk<T>>>,
}

type Chunk<T> = Box<[MaybeUninit<ListSlot<T>>; CHUNK]>;

impl<T> core::fmt::Debug for FreeList<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FreeList").field("chunks", &self.chunks.borrow().len()).finish_non_exhaustive()
    }
}

// SAFETY: the list owns all its chunks, and the trait makes objects `Send`.
unsafe impl<T: Send> Send for FreeList<T> {}

impl<T> FreeList<T> {
    pub(in crate::contenders) fn new() -> Self {
        Self { head: Cell::new(ptr::null_mut()), chunks: RefCell::new(Vec::new()) }
    }

    /// Links the slots of a new chunk.
    #[cold]
    #[inline(never)]
    fn grow(&self) -> *mut ListSlot<T> {
        let mut chunk = Box::new([const { MaybeUninit::uninit() }; CHUNK]);
        let first: *mut ListSlot<T> = chunk.as_mut_ptr().cast();
        for index in 0..CHUNK {
            // SAFETY: the index is within the chunk.
            let slot = unsafe { first.add(index) };
            let next = if index + 1 == CHUNK { ptr::null_mut() } else { slot.wrapping_add(1) };
            // SAFETY: the slot is memory of the chunk, and receives a link.
            unsafe { slot.cast::<*mut ListSlot<T>>().write(next) };
        }
        self.chunks.borrow_mut().push(chunk);
        first
    }

    #[inline(always)]
    pub(in crate::contenders) fn put(&self, value: T) -> NonNull<T> {
        let mut slot = self.head.get();
        if slot.is_null() {
            slot = self.grow();
        }
        // SAFETY: a slot on the list is free, and has a link since it was pushed.
        self.head.set(unsafe { slot.cast::<*mut ListSlot<T>>().read() });
        let object = slot.cast::<T>();
        // SAFETY: the slot is exclusive to this object, large enough and aligned.
        unsafe { object.write(value) };
        // SAFETY: the slot is in a chunk, so it is not null.
        unsafe { NonNull::new_unchecked(object) }
    }

    /// Drops an object and puts its slot onto the list.
    ///
    /// # Safety
    ///
    /// [`put`](Self::put) returned the object, which is consumed.
    #[inline(always)]
    pub(in crate::contenders) unsafe fn take(&self, object: NonNull<T>) {
        // SAFETY: the object is live.
        unsafe { object.drop_in_place() };
        let slot = object.as_ptr().cast::<ListSlot<T>>();
        // SAFETY: the slot is free from now on.
        unsafe { slot.cast::<*mut ListSlot<T>>().write(self.head.get()) };
        self.head.set(slot);
    }
}

const fn card(name: &'static str, caps: Caps, notes: &'static str) -> Info {
    Info { name, version: "none", caps, memory: MemoryBy::HighWater, notes }
}

/// The list for one thread.
#[derive(Clone, Copy, Debug)]
pub struct Textbook;

impl Maker for Textbook {
    const INFO: Info = card("textbook free list", Caps::LOCAL, "one thread; returns no memory");
    type Pool<T: Object> = FreeList<T>;

    fn make<T: Object>() -> FreeList<T> {
        FreeList::new()
    }
}

// SAFETY: a slot is not on the list while its object is live, and chunks do not move.
unsafe impl<T: Object> RawPool<T> for FreeList<T> {
    type Handle = NonNull<T>;

    #[inline(always)]
    fn raw_put(&self, value: T) -> Option<NonNull<T>> {
        Some(self.put(value))
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &NonNull<T>, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the object is live.
        look(unsafe { handle.as_ref() })
    }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: NonNull<T>) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.take(handle) }
    }
}

/// The list behind a mutex.
#[derive(Clone, Copy, Debug)]
pub struct LockedTextbook;

impl Maker for LockedTextbook {
    const INFO: Info = card("textbook and a mutex", Caps::GENERAL, "a lock; returns no memory");
    type Pool<T: Object> = Mutex<FreeList<T>>;

    fn make<T: Object>() -> Self::Pool<T> {
        Mutex::new(FreeList::new())
    }
}

// SAFETY: the list fulfils the contract on one thread, and the mutex extends it to all threads.
unsafe impl<T: Object> RawPool<T> for Mutex<FreeList<T>> {
    type Handle = NonNull<T>;

    #[inline(always)]
    fn raw_put(&self, value: T) -> Option<NonNull<T>> {
        Some(self.lock().unwrap_or_else(PoisonError::into_inner).put(value))
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &NonNull<T>, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the object is live.
        look(unsafe { handle.as_ref() })
    }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: NonNull<T>) {
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.lock().unwrap_or_else(PoisonError::into_inner).take(handle) }
    }
}
