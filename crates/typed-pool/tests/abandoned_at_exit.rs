//! Tests of pools in thread-locals that are dropped with live slots. A panic would end the process,
//! so these pools print a message instead.
#![cfg(feature = "std")]

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::thread;

use ephemera_testkit::child;
use typed_pool::{TypedPool, abandoned};

std::thread_local! {
    static WORDS: TypedPool<u64> = TypedPool::new();
    static BYTES: TypedPool<[u8; 3]> = TypedPool::new();
}

/// Leaves live slots in pools of this thread. Another pool is dropped without a live slot.
fn leave_live_slots() {
    let usual = TypedPool::<i8>::new();
    drop(usual.alloc(1));
    WORDS.with(|pool| core::mem::forget(pool.alloc(1)));
    drop(usual.alloc(2));
    BYTES.with(|pool| core::mem::forget([pool.alloc([2; 3]), pool.alloc([3; 3])]));
}

fn play(part: &str) {
    match part {
        "thread" => {
            thread::spawn(leave_live_slots).join().expect("the thread ended well");
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
        // The destructors of this thread's thread-locals drop the pools, in the reverse order of
        // first use. The message of `WORDS` comes last, and the test expects only that message.
        _ => leave_live_slots(),
    }
}

#[test]
#[cfg_attr(miri, ignore = "needs a child process, which Miri cannot start: `ephemera_testkit::child`")]
fn pools_in_thread_locals_with_live_slots_do_not_abort() {
    if let Some(part) = child::part() {
        return play(&part);
    }
    let run = |name| {
        let mut command = child::command("pools_in_thread_locals_with_live_slots_do_not_abort", name);
        // The slots are leaked on purpose, and leak checkers would report them.
        command.env("ASAN_OPTIONS", "detect_leaks=0").env("LSAN_OPTIONS", "detect_leaks=0");
        let ended = child::ended(&mut command);
        assert!(ended.succeeded(), "{name}: {ended:?}");
        ended.stderr
    };
    for (name, words) in [
        (
            "thread",
            &[
                "TypedPool<u64> was dropped with 1 live slots",
                "TypedPool<[u8; 3]> was dropped with 2 live slots",
            ][..],
        ),
        ("main", &["TypedPool<u64> was dropped with 1 live slots"]),
        ("unwinding", &["TypedPool<u16> was dropped with 1 live slots"]),
        ("ordinary", &["TypedPool<u16> was dropped with 1 live slots"]),
    ] {
        let said = run(name);
        for word in words {
            assert_eq!(said.contains(word), cfg!(debug_assertions), "{name} said: {said}");
        }
    }
}
