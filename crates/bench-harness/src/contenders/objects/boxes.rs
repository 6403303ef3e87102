//! A box over any allocator of blocks: what a program has before it thinks of a pool.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::blocks::{Contender, RawAlloc};
use crate::card::Info;
use crate::objects::{Maker, Object, RawPool};

/// Boxes over the contender `C`.
#[derive(Debug)]
pub struct Boxes<C>(C);

impl<C: Contender> Maker for Boxes<C> {
    const INFO: Info = C::INFO;
    type Pool<T: Object> = Self;

    fn make<T: Object>() -> Self {
        Self(C::create())
    }
}

// SAFETY: each block is one object's own until it is freed; where blocks may be freed and made, the card says.
unsafe impl<C: Contender, T: Object> RawPool<T> for Boxes<C> {
    type Handle = NonNull<T>;

    #[inline(always)]
    fn raw_put(&self, value: T) -> Option<NonNull<T>> {
        // SAFETY: no object of the workloads is empty.
        let block = unsafe { self.0.by_ref().raw_alloc(Layout::new::<T>()) };
        let slot = NonNull::new(block)?.cast::<T>();
        // SAFETY: the block fits the layout and is this object's own.
        unsafe { slot.write(value) };
        Some(slot)
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &NonNull<T>, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the object is alive.
        look(unsafe { handle.as_ref() })
    }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: NonNull<T>) {
        // SAFETY: the object is alive, and this is its end.
        unsafe { handle.drop_in_place() };
        // SAFETY: the block came from this allocator for this layout.
        unsafe { self.0.by_ref().raw_dealloc(handle.as_ptr().cast(), Layout::new::<T>()) };
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn expect_live(&mut self, objects: usize) {
        self.0.expect_live(objects * size_of::<T>().next_multiple_of(16));
    }
}
