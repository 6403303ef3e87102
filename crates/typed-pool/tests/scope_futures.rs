//! Tests of futures in scopes. The blocks come from `PooledAllocator` by name, not through the
//! global allocator, so Miri can run these tests too.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

extern crate alloc;

#[path = "support/scopes.rs"]
mod support;

use core::future::{Future, pending, poll_fn};
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::panic::{catch_unwind, resume_unwind};
use std::thread;

use allocator_api2::vec::Vec;
use typed_pool::PooledAllocator;

use support::{alone, block, builder, held};

/// Polls a future once.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    core::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Allocates a block, and keeps it until the future is dropped.
async fn keep_a_block() {
    let kept = block(3);
    pending::<()>().await;
    drop(kept);
}

#[test]
fn a_future_is_polled_in_its_scope_on_each_thread() {
    alone(|| {
        let scope = builder().build();
        let mut kept = alloc::vec::Vec::new();
        let mut polls = 0;
        let future = scope.run_async(poll_fn(move |_| {
            polls += 1;
            kept.push(block(polls));
            if polls < 3 { Poll::Pending } else { Poll::Ready(core::mem::take(&mut kept)) }
        }));
        let mut future = alloc::boxed::Box::pin(future);
        assert!(poll(&mut future).is_pending());
        let bytes = scope.usage().bytes_held;
        assert!(bytes > 0);
        let outside = block(9);
        assert_eq!(scope.usage().bytes_held, bytes, "between polls this thread is outside");
        let mut future = thread::spawn(move || {
            assert!(poll(&mut future).is_pending());
            future
        })
        .join()
        .expect("no panic");
        let Poll::Ready(Ok(kept)) = poll(&mut future) else { panic!("three polls") };
        assert!(kept.iter().zip(1..).all(|(block, number)| **block == [number; 4]));
        drop((kept, future, outside));
        assert_eq!(scope.finish().bytes_held, 0);
    });
}

/// A value whose destructor allocates. The allocation shows in which scope the destructor runs.
struct AllocatesWhenDropped;

impl Drop for AllocatesWhenDropped {
    fn drop(&mut self) {
        drop(Vec::<u8, _>::with_capacity_in(100_000, PooledAllocator));
    }
}

#[test]
fn a_future_over_the_limit_is_dropped_in_the_scope() {
    alone(|| {
        let scope = builder().name("small").limit(50_000).counting().build();
        let mut kept = alloc::vec::Vec::new();
        let late = AllocatesWhenDropped;
        let mut future = pin!(scope.run_async(poll_fn(move |_| {
            let _late = &late;
            kept.push(Vec::<u8, _>::with_capacity_in(40_000, PooledAllocator));
            Poll::<()>::Pending
        })));
        assert!(poll(&mut future).is_pending());
        let Poll::Ready(Err(error)) = poll(&mut future) else { panic!("80,000 bytes") };
        assert_eq!(error.to_string(), "small held 80000 bytes, more than its limit of 50000");
        assert_eq!(scope.usage().bytes_held, 0, "the future is dropped although its wrapper is not");
        let counts = scope.usage().counts.expect("it counts");
        assert_eq!((counts.allocations, counts.frees), (3, 3), "the destructor ran in the scope");
        let mut never = pin!(scope.run_async(poll_fn(|_| -> Poll<()> { panic!("polled beyond the limit") })));
        assert!(matches!(poll(&mut never), Poll::Ready(Err(_))));
    });
}

#[test]
fn a_cancelled_future_is_dropped_in_the_scope() {
    alone(|| {
        let scope = builder().counting().build();
        let mut future = alloc::boxed::Box::pin(scope.run_async(async {
            let kept = (Vec::<u8, _>::with_capacity_in(100_000, PooledAllocator), AllocatesWhenDropped);
            pending::<()>().await;
            drop(kept);
        }));
        assert!(poll(&mut future).is_pending());
        assert_eq!(scope.usage().bytes_held, 100_000);
        drop(future);
        let counts = scope.usage().counts.expect("it counts");
        assert_eq!((counts.allocations, counts.frees, scope.usage().bytes_held), (2, 2, 0));
    });
}

#[test]
fn a_scope_dropped_while_its_future_is_suspended_ends_with_the_future() {
    alone(|| {
        let scope = builder().build();
        let mut future = alloc::boxed::Box::pin(scope.run_async(keep_a_block()));
        assert!(poll(&mut future).is_pending());
        drop(scope);
        assert!(held() > 0);
        assert!(poll(&mut future).is_pending());
        drop(future);
        assert_eq!(held(), 0);
    });
}

#[test]
fn a_panic_in_a_poll_leaves_the_scope() {
    alone(|| {
        let scope = builder().build();
        let mut future = alloc::boxed::Box::pin(scope.run_async(async {
            let _kept = block(3);
            resume_unwind(alloc::boxed::Box::new(1_u8))
        }));
        assert!(
            catch_unwind(AssertUnwindSafe(|| poll::<core::pin::Pin<_>>(&mut future).is_pending())).is_err()
        );
        drop(future);
        let bytes = scope.usage().bytes_held;
        drop(block(1));
        assert_eq!(scope.usage().bytes_held, bytes);
        assert_eq!(scope.finish().bytes_held, 0);
    });
}

#[test]
#[cfg(not(miri))]
fn a_cancelled_future_is_dropped_although_there_is_no_memory_for_heaps() {
    use ephemera_prim::pages;
    use std::sync::mpsc::channel;

    alone(|| {
        let scope = builder().build();
        let mut future = alloc::boxed::Box::pin(scope.run_async(keep_a_block()));
        assert!(poll(&mut future).is_pending());
        let handle = scope.handle();
        let ((entered, inside), (go, leave)) = (channel(), channel::<()>());
        // Another thread holds the scope's only record.
        let other = thread::spawn(move || {
            handle.run(|| {
                entered.send(()).expect("the test waits");
                leave.recv().expect("the test asks");
            });
        });
        inside.recv().expect("the other thread");
        pages::refuse_call(usize::MAX);
        // Use up the permanent memory that is left, because a table would fit in it.
        while pages::permanent(core::alloc::Layout::new::<[u64; 8]>()).is_ok() {}
        drop(future);
        pages::refuse_call(0);
        go.send(()).expect("the other thread waits");
        other.join().expect("no panic");
        assert_eq!(scope.finish().bytes_held, 0);
    });
}
