//! The textbook free list: last in, first out, linked through the free slots of chunks. It shows
//! what a simple pool costs. One contender uses the list on a single thread, and another guards it
//! with a mutex.

use core::cell::{Cell, RefCell};
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use crate::nodes::Owned;
use crate::pools::{RawPool, look_through};

/// The number of slots in a chunk.
const CHUNK: usize = 64;

/// A slot, which holds an object or the link to the next free slot. The union only provides the
/// size and alignment. Each access casts to the type of one field.
union ListSlot<T> {
    _object: ManuallyDrop<T>,
    _next: *mut ListSlot<T>,
}

/// A free list. Dropping it frees the chunks.
pub(crate) struct FreeList<T> {
    head: Cell<*mut ListSlot<T>>,
    /// The memory of the slots. These vectors stay empty, so they drop no slots.
    chunks: RefCell<Vec<Vec<ListSlot<T>>>>,
}

// SAFETY: the list owns all its chunks, and `T` is `Send`.
unsafe impl<T: Send> Send for FreeList<T> {}

impl<T> FreeList<T> {
    pub(super) fn new() -> Self {
        Self { head: Cell::new(ptr::null_mut()), chunks: RefCell::new(Vec::new()) }
    }

    /// Allocates a chunk, links its slots, and returns the first.
    #[cold]
    #[inline(never)]
    fn grow(&self) -> *mut ListSlot<T> {
        let mut chunk = Vec::with_capacity(CHUNK);
        let first: *mut ListSlot<T> = chunk.as_mut_ptr();
        for index in 0..CHUNK {
            // SAFETY: the index is within the chunk.
            let slot = unsafe { first.add(index) };
            let next = if index + 1 == CHUNK { ptr::null_mut() } else { slot.wrapping_add(1) };
            // SAFETY: the slot is within the chunk, and is large enough and aligned for a link.
            unsafe { slot.cast::<*mut ListSlot<T>>().write(next) };
        }
        self.chunks.borrow_mut().push(chunk);
        first
    }
}

// SAFETY: a slot is not in the list while its value is live, and chunks do not move.
unsafe impl<T: 'static> RawPool<T> for FreeList<T> {
    type Handle = Owned<T>;

    #[inline(always)]
    unsafe fn raw_put(&self, value: T) -> Option<Owned<T>> {
        let mut slot = self.head.get();
        if slot.is_null() {
            slot = self.grow();
        }
        // SAFETY: a slot in the list is free and holds a link, which was written when the slot was
        // pushed.
        self.head.set(unsafe { slot.cast::<*mut ListSlot<T>>().read() });
        // SAFETY: the slot is within a chunk, so its address is not null.
        let slot = unsafe { NonNull::new_unchecked(slot.cast::<T>()) };
        // SAFETY: the slot is large enough and aligned for the value, and is not in the list until
        // `raw_take`.
        Some(unsafe { Owned::put(slot, value) })
    }

    look_through! { T, Owned<T> }

    /// Drops a value and pushes its slot onto the list.
    #[inline(always)]
    unsafe fn raw_take(&self, handle: Owned<T>) {
        // SAFETY: the caller passes the handle of a live value.
        let slot = unsafe { handle.take() }.as_ptr().cast::<ListSlot<T>>();
        // SAFETY: the value is dropped, so the slot is free and may hold a link.
        unsafe { slot.cast::<*mut ListSlot<T>>().write(self.head.get()) };
        self.head.set(slot);
    }
}
