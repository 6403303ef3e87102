//! Tests of the traits that the types implement, and of those that they must not implement.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::rc::Rc;
use core::alloc::Layout;
use core::cell::Cell;
use core::fmt::Debug;
use core::hash::Hash;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;
use std::sync::MutexGuard;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_testkit::backing::Counting;
use static_assertions::{assert_impl_all, assert_not_impl_any};
use typed_pool::{
    Abandoned, AnyPool, Builder, PooledAllocator, PooledBox, Stats, TryAllocError, TypedBox, TypedPool,
    pooled, pooled_allocator,
};

assert_impl_all!(PooledAllocator: Send, Sync, Copy, Unpin, UnwindSafe, RefUnwindSafe);
assert_impl_all!(PooledAllocator: Allocator, Default, Debug, Ord, Hash);
assert_impl_all!(Vec<u8, PooledAllocator>: Send, Sync);
assert_impl_all!(Box<u8, PooledAllocator>: Send, Sync, Unpin);
assert_not_impl_any!(Box<Rc<u8>, PooledAllocator>: Send, Sync);

pooled!(struct Bytes: u8);
pooled!(struct Counts: Rc<u8>);
pooled!(struct Cells: Cell<u8>);
pooled!(struct Guards: MutexGuard<'static, u8>);

assert_impl_all!(PooledBox<u8, Bytes>: Send, Sync, Unpin, UnwindSafe, Clone, Default, Debug, Ord, Hash);
assert_not_impl_any!(PooledBox<u8, Bytes>: Copy);
assert_not_impl_any!(PooledBox<Rc<u8>, Counts>: Send, Sync);
assert_impl_all!(PooledBox<Cell<u8>, Cells>: Send);
assert_not_impl_any!(PooledBox<Cell<u8>, Cells>: Sync);
assert_impl_all!(PooledBox<MutexGuard<'static, u8>, Guards>: Sync);
assert_not_impl_any!(PooledBox<MutexGuard<'static, u8>, Guards>: Send);
assert_not_impl_any!(PooledBox<dyn Debug, AnyPool>: Send, Sync);
assert_impl_all!(PooledBox<dyn Debug + Send, AnyPool>: Send);
assert_impl_all!(PooledBox<[u8], AnyPool>: Send, Sync);
assert_impl_all!(PooledBox<core::marker::PhantomPinned, AnyPool>: Unpin);
assert_impl_all!(Bytes: Copy, Default, Debug, Send, Sync);

assert_impl_all!(TypedPool<u8>: Send, Default, Debug);
assert_not_impl_any!(TypedPool<u8>: Sync, Clone);
assert_not_impl_any!(TypedPool<Rc<u8>>: Send, Sync);
assert_impl_all!(TypedPool<Cell<u8>>: Send);
assert_impl_all!(TypedPool<u8, &'static Counting>: Send);
assert_not_impl_any!(TypedPool<u8, Local>: Send, Sync);
assert_not_impl_any!(TypedBox<'static, u8>: Send, Sync, Clone);
assert_impl_all!(TypedBox<'static, u8>: Unpin, Debug, Ord, Hash);
assert_impl_all!(Builder<Rc<u8>>: Send, Sync, Copy, Debug, Default);
assert_impl_all!(Stats: Send, Sync, Copy, Debug, Default, Eq);
assert_impl_all!(Abandoned: Send, Sync, Copy, Debug, Default, Eq);
assert_impl_all!(TryAllocError<u8>: Send, Sync, core::error::Error);

/// A backing allocator that must not leave its thread.
struct Local(Rc<()>);

// SAFETY: all blocks come from the global heap.
unsafe impl Allocator for Local {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        assert_eq!(Rc::strong_count(&self.0), 1);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this method has the same contract.
        unsafe { Global.deallocate(block, layout) };
    }
}

/// Compiles because the box is covariant in its value.
fn shorter<'a>(boxed: PooledBox<&'static str, Words>) -> PooledBox<&'a str, Words> {
    boxed
}

pooled!(struct Words: &'static str);

/// Compiles because the pool is covariant in its value and its allocator.
fn shorter_pool<'a>(
    pool: TypedPool<&'static str, &'static Counting<Global>>,
) -> TypedPool<&'a str, &'a Counting<Global>> {
    pool
}

#[test]
fn boxes_and_pools_are_covariant() {
    assert_eq!(*shorter(PooledBox::new_in("word", Words)), "word");
    let pool = shorter_pool(TypedPool::new_in(ephemera_testkit::backing::immortal(Counting::new())));
    let text = String::from("short");
    let word = pool.alloc(text.as_str());
    assert_eq!(*word, "short");
}

#[test]
fn a_trait_object_is_an_allocator() {
    pooled_allocator! {
        struct Own;
    }
    let allocators: [&dyn Allocator; 2] = [&PooledAllocator, &Own];
    for allocator in allocators {
        let mut numbers = Vec::new_in(allocator);
        numbers.extend(0..100);
        assert_eq!(numbers.iter().sum::<i32>(), 4950);
    }
}

#[test]
fn a_pool_accepts_a_pooled_allocator_as_backing() {
    assert_eq!(*TypedPool::new_in(Local(Rc::new(()))).alloc(3), 3);
    let pool = TypedPool::new_in(PooledAllocator);
    assert_eq!(*pool.alloc([3_u8; 100]), [3; 100]);
}

#[cfg(feature = "allocator-api2-04")]
#[test]
fn the_newer_trait_is_implemented() {
    use allocator_api2_04::vec::Vec as Vec04;
    let mut numbers = Vec04::new_in(PooledAllocator);
    numbers.extend(0..100);
    assert_eq!(numbers.iter().sum::<i32>(), 4950);
}
