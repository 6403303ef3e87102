//! Tests that a pool that is dropped with live slots keeps its units and reports them. This file
//! has one test, because all pools of a process share the counts.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::string::String;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Mutex;

use ephemera_testkit::backing::{Counting, Hostile};
use typed_pool::{TypedBox, TypedPool, abandoned};

/// The leaked memory, which stays reachable so that leak checkers accept it.
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

struct Kept(
    #[expect(dead_code, reason = "reached by leak checkers")] core::ptr::NonNull<i32>,
    #[expect(dead_code, reason = "reached by leak checkers")] alloc::sync::Arc<()>,
);

// SAFETY: no thread uses the pointer.
unsafe impl Send for Kept {}

/// Drops a pool. Returns the message of the panic, or an empty string if the drop does not panic.
fn dropped<T, A: allocator_api2::alloc::Allocator>(pool: TypedPool<T, A>) -> String {
    match catch_unwind(AssertUnwindSafe(|| drop(pool))) {
        Ok(()) => String::new(),
        Err(panic) => panic.downcast_ref::<String>().cloned().expect("a message"),
    }
}

#[test]
fn a_pool_dropped_with_live_slots_keeps_and_reports_their_units() {
    std::panic::set_hook(alloc::boxed::Box::new(|_| {}));
    assert_eq!(abandoned().pools, 0);
    let backing: &Hostile = ephemera_testkit::backing::immortal(Hostile::new());

    // Three leaked values and a raw slot are in one unit. The drop frees the other unit.
    let pool = typed_pool::Builder::<[u64; 4]>::new().chunk_len(8).build_in(backing);
    let leaked: [_; 3] = core::array::from_fn(|number| TypedBox::leak(pool.alloc([number as u64; 4])));
    let raw = pool.allocate().expect("memory");
    drop((0..12).map(|_| pool.alloc([9; 4])).collect::<alloc::vec::Vec<_>>());
    let leaked = leaked.map(core::ptr::from_mut);
    let said = dropped(pool);
    if cfg!(debug_assertions) {
        assert!(said.contains("[u64; 4]") && said.contains("4 live slots"), "the message is: {said}");
    } else {
        assert_eq!(said, "");
    }
    let left = abandoned();
    assert_eq!((left.pools, left.slots, left.bytes), (1, 4, backing.held().bytes));
    assert_eq!(backing.outstanding().len(), 1);
    // The leaked values are unchanged.
    for (number, value) in leaked.into_iter().enumerate() {
        // SAFETY: the value is leaked and never freed.
        assert_eq!(unsafe { *value }, [number as u64; 4]);
    }
    // SAFETY: the slot was never freed.
    unsafe { raw.write([1; 4]) };

    // A pool that is dropped while a panic unwinds does not panic, because a second panic would end
    // the process.
    let pool = TypedPool::<u64, _>::new_in(backing);
    let panic = catch_unwind(AssertUnwindSafe(move || {
        let pool = pool;
        core::mem::forget(pool.alloc(1));
        std::panic::resume_unwind(alloc::boxed::Box::new("first"));
    }));
    assert_eq!(panic.expect_err("it panics").downcast_ref(), Some(&"first"));
    assert_eq!((abandoned().pools, abandoned().slots), (2, 5));

    // A pool with live slots keeps its backing allocator. A pool without live slots drops it.
    let shared = alloc::sync::Arc::new(());
    #[derive(Debug)]
    struct Owned(Counting, #[expect(dead_code, reason = "counted")] alloc::sync::Arc<()>);
    // SAFETY: all calls go to one allocator.
    unsafe impl allocator_api2::alloc::Allocator for Owned {
        fn allocate(
            &self,
            layout: core::alloc::Layout,
        ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
            self.0.allocate(layout)
        }
        unsafe fn deallocate(&self, block: core::ptr::NonNull<u8>, layout: core::alloc::Layout) {
            // SAFETY: the block came from `self.0`, and this method has the same contract.
            unsafe { self.0.deallocate(block, layout) };
        }
    }
    let pool = TypedPool::new_in(Owned(Counting::new(), shared.clone()));
    drop(pool.alloc(1));
    assert_eq!(dropped(pool), "");
    assert_eq!(alloc::sync::Arc::strong_count(&shared), 1);
    let pool = TypedPool::new_in(Owned(Counting::new(), shared.clone()));
    let kept = Kept(TypedBox::into_raw(pool.alloc(1)), shared.clone());
    dropped(pool);
    assert_eq!(alloc::sync::Arc::strong_count(&shared), 3);
    *KEPT.lock().expect("no thread panics") = Some(kept);
    // Values of size zero count as live slots too.
    let pool = TypedPool::<()>::new();
    core::mem::forget(pool.alloc(()));
    dropped(pool);
    assert_eq!((abandoned().pools, abandoned().slots), (4, 7));
}
