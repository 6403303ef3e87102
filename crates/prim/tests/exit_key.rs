//! Tests that exit hooks run from the destructor of a thread-specific key after the program has
//! called `end_threads_by_key`. The call affects the whole process, so this test is in its own
//! program.
#![cfg(all(feature = "std", target_os = "linux", target_env = "gnu", not(any(miri, ephemera_loom))))]

use core::cell::Cell;
use std::sync::Mutex;
use std::thread;

use ephemera_prim::local::{Gone, at_exit, end_threads_by_key};

/// The events of a thread exit, in order: destructors, hooks, and "gone" if a hook could not
/// register itself again.
static SAID: Mutex<Vec<&str>> = Mutex::new(Vec::new());

fn say(what: &'static str) {
    SAID.lock().expect("no panic").push(what);
}

struct Destructor;

impl Drop for Destructor {
    fn drop(&mut self) {
        say("destructor");
    }
}

thread_local! {
    static WITH_DESTRUCTOR: Destructor = const { Destructor };
    static RUNS: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn hooks_run_once_after_thread_local_destructors_and_further_hooks_are_refused() {
    fn hook() {
        RUNS.set(RUNS.get() + 1);
        say(if RUNS.get() == 1 { "hook" } else { "hook again" });
        if at_exit(hook) == Err(Gone) {
            say("gone");
        }
    }
    // SAFETY: the code of this program is never unloaded.
    assert!(unsafe { end_threads_by_key() });
    for _ in 0..2 {
        thread::spawn(|| {
            // The key's destructor runs last, regardless of the order of these two lines.
            assert_eq!(at_exit(hook), Ok(()));
            WITH_DESTRUCTOR.with(|_| ());
        })
        .join()
        .expect("no panic");
        assert_eq!(*SAID.lock().expect("no panic"), ["destructor", "hook", "gone"]);
        SAID.lock().expect("no panic").clear();
    }
    let taken = thread::spawn(|| (0..100).take_while(|_| at_exit(|| ()).is_ok()).count());
    assert_eq!(taken.join().expect("no panic"), 8);
}
