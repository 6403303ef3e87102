//! A hand-over for tests: one thread makes values, and another thread frees them.

use alloc::vec::Vec;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Makes `batches` batches of `len` values with `make`. Another thread frees each batch before this
/// thread makes the next one.
///
/// # Panics
/// Panics if the other thread panics, for example in the drop of a value.
pub fn hand_over<V: Send>(batches: usize, len: usize, mut make: impl FnMut() -> V) {
    let (out, from) = sync_channel::<Vec<V>>(0);
    let (done, freed) = sync_channel(0);
    thread::scope(|scope| {
        scope.spawn(move || {
            for batch in from {
                drop(batch);
                done.send(()).expect("the first thread waits for the message");
            }
        });
        for _ in 0..batches {
            out.send((0..len).map(|_| make()).collect()).expect("the other thread runs");
            freed.recv().expect("the other thread runs");
        }
        drop(out);
    });
}
