//! Tests [`take_turn`], which lets only one test of global state run at a time.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::thread;

use ephemera_testkit::suite::take_turn;

/// The number of threads that had the turn and have dropped `AT_EXIT`.
static EXITED: AtomicUsize = AtomicUsize::new(0);

/// A value whose drop takes longer than another thread needs to take a free turn.
struct AtExit;

impl Drop for AtExit {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(2));
        EXITED.fetch_add(1, Ordering::Relaxed);
    }
}

thread_local! {
    static AT_EXIT: AtExit = const { AtExit };
}

#[test]
fn threads_keep_the_turn_until_their_exit_is_complete() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let threads = [(); 8].map(|()| {
        thread::spawn(|| {
            take_turn();
            let started = STARTED.fetch_add(1, Ordering::Relaxed);
            assert_eq!(EXITED.load(Ordering::Relaxed), started, "an earlier thread has not exited");
            AT_EXIT.with(|_| ());
            // A thread that has the turn may call `take_turn` again.
            take_turn();
        })
    });
    for thread in threads {
        thread.join().expect("no panic");
    }
}
