//! The textbook free list: slots in chunks, linked through the freed slots themselves, last in
//! first out. Every pool has to be faster. There is one with a mutex and one without.

use core::cell::{Cell, RefCell};
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::{self, NonNull};

use crate::nodes::Owned;
use crate::pools::{RawPool, look_through};

/// The slots of a chunk.
const CHUNK: usize = 64;

/// A slot: an object, or a link to the next free slot. Only its size and alignment matter here;
/// each access has the type of one or the other.
union ListSlot<T> {
    _object: ManuallyDrop<T>,
    _next: *mut ListSlot<T>,
}

/// The free list. Its drop frees the memory.
pub(crate) struct FreeList<T> {
    head: Cell<*mut ListSlot<T>>,
    chunks: RefCell<Vec<Chunk<T>>>,
}

type Chunk<T> = Box<[MaybeUninit<ListSlot<T>>; CHUNK]>;

// SAFETY: the list owns all its chunks, and `T` is `Send`.
unsafe impl<T: Send> Send for FreeList<T> {}

impl<T> FreeList<T> {
    pub(super) fn new() -> Self {
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
}

// SAFETY: a slot is not on the list while its value is live, and chunks do not move.
unsafe impl<T: 'static> RawPool<T> for FreeList<T> {
    type Handle = Owned<T>;

    #[inline(always)]
    unsafe fn raw_put(&self, value: T) -> Option<Owned<T>> {
        let mut slot = self.head.get();
        if slot.is_null() {
            slot = self.grow();
        }
        // SAFETY: a slot on the list is free, and has a link since it was pushed.
        self.head.set(unsafe { slot.cast::<*mut ListSlot<T>>().read() });
        // SAFETY: the slot is in a chunk, so it is not null.
        let value_at = unsafe { NonNull::new_unchecked(slot.cast::<T>()) };
        // SAFETY: the slot is exclusive to this value, large enough and aligned.
        unsafe { value_at.write(value) };
        // SAFETY: the slot holds the value, and is not on the list until `raw_take`.
        Some(unsafe { Owned::new(value_at) })
    }

    look_through! { T, Owned<T> }

    /// Drops a value and puts its slot onto the list.
    #[inline(always)]
    unsafe fn raw_take(&self, handle: Owned<T>) {
        let value = handle.into_raw();
        // SAFETY: the value is live.
        unsafe { value.drop_in_place() };
        let slot = value.as_ptr().cast::<ListSlot<T>>();
        // SAFETY: the slot is free from now on.
        unsafe { slot.cast::<*mut ListSlot<T>>().write(self.head.get()) };
        self.head.set(slot);
    }
}
