//! Pools in thread-locals that are dropped with slots out: a panic there would end the process, so they say it otherwise.
#![cfg(feature = "std")]

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::process::Command;
use std::thread;

use typed_pool::{TypedPool, abandoned};

/// Tells the child what to do.
const CHILD: &str = "TYPED_POOL_AT_EXIT";

std::thread_local! {
    static WORDS: TypedPool<u64> = TypedPool::new();
    static BYTES: TypedPool<[u8; 3]> = TypedPool::new();
}

/// Leaves slots out in pools of this thread, another pool among them that ends in the usual way.
fn leave_slots_out() {
    let usual = TypedPool::<i8>::new();
    drop(usual.alloc(1));
    WORDS.with(|pool| core::mem::forget(pool.alloc(1)));
    drop(usual.alloc(2));
    BYTES.with(|pool| core::mem::forget([pool.alloc([2; 3]), pool.alloc([3; 3])]));
}

fn child(name: &str) {
    match name {
        "thread" => {
            thread::spawn(leave_slots_out).join().expect("the thread ended well");
            assert_eq!((abandoned().pools, abandoned().slots), (2, 3));
        }
        "unwinding" => {
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                let pool = TypedPool::<u16>::new();
                core::mem::forget(pool.alloc(1));
                std::panic::resume_unwind(Box::new("first"));
            }));
            assert_eq!(unwound.expect_err("it panics").downcast_ref(), Some(&"first"));
        }
        "ordinary" => {
            let pool = TypedPool::<u16>::new();
            core::mem::forget(pool.alloc(1));
            assert_eq!(catch_unwind(AssertUnwindSafe(|| drop(pool))).is_err(), cfg!(debug_assertions));
        }
        // This thread's own go when it ends, which `exit` does not wait for.
        _ => leave_slots_out(),
    }
}

#[test]
#[cfg_attr(miri, ignore = "starts processes")]
fn pools_in_thread_locals_end_no_process() {
    if let Ok(name) = std::env::var(CHILD) {
        return child(&name);
    }
    let run = |name| {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        child.args(["--exact", "pools_in_thread_locals_end_no_process", "--nocapture", "--test-threads=1"]);
        // What is left is left for ever, as leak checkers would say.
        child.env("ASAN_OPTIONS", "detect_leaks=0").env("LSAN_OPTIONS", "detect_leaks=0");
        let output = child.env(CHILD, name).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {}, and said: {said}", output.status);
        said
    };
    for (name, words) in [
        (
            "thread",
            &[
                "TypedPool<u64> was dropped with 1 slots out",
                "TypedPool<[u8; 3]> was dropped with 2 slots out",
            ][..],
        ),
        ("main", &["TypedPool<u64> was dropped with 1 slots out"]),
        ("unwinding", &["TypedPool<u16> was dropped with 1 slots out"]),
        ("ordinary", &["TypedPool<u16> was dropped with 1 slots out"]),
    ] {
        let said = run(name);
        for word in words {
            assert_eq!(said.contains(word), cfg!(debug_assertions), "{name} said: {said}");
        }
    }
}
