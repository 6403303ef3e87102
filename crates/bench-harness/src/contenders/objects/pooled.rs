//! Our typed pools: `TypedPool` with raw slots, and `PooledBox`.

use core::ptr::NonNull;

use typed_pool::{PooledBox, TypedPool, pooled};

use crate::card::{Caps, Info, MemoryBy};
use crate::objects::{Counter, Maker, Object, RawPool, WordObject};

const fn card(name: &'static str, caps: Caps, notes: &'static str) -> Info {
    let version = env!("EPHEMERA_VERSION_TYPED_POOL");
    Info { name, version, caps, memory: MemoryBy::HighWater, notes }
}

/// Our `TypedPool`.
#[derive(Clone, Copy, Debug)]
pub struct Typed;

impl Maker for Typed {
    const INFO: Info = card("TypedPool", Caps::LOCAL, "one thread");
    type Pool<T: Object> = TypedPool<T>;

    fn make<T: Object>() -> TypedPool<T> {
        TypedPool::new()
    }
}

// SAFETY: a slot is exclusive to its object until it is freed.
unsafe impl<T: Object> RawPool<T> for TypedPool<T> {
    type Handle = NonNull<T>;

    #[inline(always)]
    fn raw_put(&self, value: T) -> Option<NonNull<T>> {
        let slot = self.allocate().ok()?;
        // SAFETY: the slot is exclusive to this object.
        unsafe { slot.write(value) };
        Some(slot)
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &NonNull<T>, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the object is live.
        look(unsafe { handle.as_ref() })
    }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: NonNull<T>) {
        // SAFETY: the object is live and ends here.
        unsafe { handle.drop_in_place() };
        // SAFETY: the slot is from this pool and is empty.
        unsafe { self.deallocate(handle) };
    }
}

pooled!(WordObject<1>);
pooled!(WordObject<4>);
pooled!(WordObject<5>);
pooled!(WordObject<8>);
pooled!(WordObject<32>);
pooled!(Counter);

/// Our `PooledBox`.
#[derive(Clone, Copy, Debug)]
pub struct Boxed;

/// The pools of all types. Each thread has its own.
#[derive(Clone, Copy, Debug)]
pub struct EveryPool;

impl Maker for Boxed {
    const INFO: Info = card("PooledBox", Caps::GENERAL, "");
    type Pool<T: Object> = EveryPool;

    fn make<T: Object>() -> EveryPool {
        EveryPool
    }
}

// SAFETY: a box owns its object, on all threads.
unsafe impl<T: Object> RawPool<T> for EveryPool {
    type Handle = PooledBox<T>;

    #[inline(always)]
    fn raw_put(&self, value: T) -> Option<PooledBox<T>> {
        Some(PooledBox::new(value))
    }

    #[inline(always)]
    unsafe fn look<R>(&self, handle: &PooledBox<T>, look: impl FnOnce(&T) -> R) -> R {
        look(handle)
    }

    #[inline(always)]
    unsafe fn raw_take(&self, handle: PooledBox<T>) {
        drop(handle);
    }
}
