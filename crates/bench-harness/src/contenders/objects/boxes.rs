//! Boxes over an allocator of blocks, as in a program without a pool.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::blocks::{Contender, RawAlloc};
use crate::card::Info;
use crate::nodes::Owned;
use crate::objects::{Maker, Object};
use crate::pools::{RawPool, look_through};

/// A pool that makes one allocation from the contender `C` for each value.
pub(crate) struct Boxes<C>(pub(crate) C);

impl<C: Contender> Maker for Boxes<C> {
    const INFO: Info = C::INFO;
    type Pool<T: Object> = Self;

    fn make<T: Object>(_objects: usize) -> Self {
        Self(C::create())
    }
}

// SAFETY: by the contract of `RawAlloc`, each block is exclusive to one value until the block is
// freed or the allocator is reset. The card says which threads may allocate and free.
unsafe impl<C: Contender, T: 'static> RawPool<T> for Boxes<C> {
    type Handle = Owned<T>;

    #[inline(always)]
    unsafe fn raw_put(&self, value: T) -> Option<Owned<T>> {
        const { assert!(size_of::<T>() > 0, "a pool over an allocator holds no values of size zero") };
        // SAFETY: the size is above zero.
        let block = unsafe { self.0.by_ref().raw_alloc(Layout::new::<T>()) };
        let value_at = NonNull::new(block)?.cast::<T>();
        // SAFETY: the block fits the layout and is exclusive to this value.
        unsafe { value_at.write(value) };
        // SAFETY: the block now holds a value.
        Some(unsafe { Owned::new(value_at) })
    }

    look_through! { T, Owned<T> }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: Owned<T>) {
        let value = handle.into_raw();
        // SAFETY: the value is live, and nothing uses it after this drop.
        unsafe { value.drop_in_place() };
        // SAFETY: `raw_put` took the block from this allocator, with this layout.
        unsafe { self.0.by_ref().raw_dealloc(value.as_ptr().cast(), Layout::new::<T>()) };
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn expect_live(&mut self, objects: usize) {
        self.0.expect_live(objects * size_of::<T>().next_multiple_of(16));
    }
}
