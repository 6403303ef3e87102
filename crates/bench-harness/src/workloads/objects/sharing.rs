//! S10, false sharing: two threads count at the same time, each in an object of eight bytes.
//!
//! The threads use atomic additions, because a processor may keep plain writes in its store buffer
//! until the cache line arrives. In a short loop, plain writes to a shared line would cost almost
//! nothing.
//!
//! In the passive variant, one thread makes the first objects of both threads, so these may be on
//! one cache line. Then each thread replaces its object, as in the benchmark cache-scratch. An
//! allocator does well if it places the new objects on different lines. In the active variant, each
//! thread makes its own objects from the start.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use crate::objects::{Counter, Maker, Object};
use crate::pools::RawPool;
use crate::workloads::crew::{GONE, Mate, Meeting, Parcel, Travelling};
use crate::workloads::{Cell, Context, StateCell};

/// The number of objects that each thread makes in a unit.
const OBJECTS: u64 = 64;
/// The number of additions to each object.
const WRITES: u64 = 100;

/// Makes `objects` objects, counts to a hundred in each, and drops each before it makes the next.
/// If there is a `first` object, drops that one before it makes any.
fn scratch<P: RawPool<Counter>>(pool: &P, first: Option<P::Handle>, objects: u64) -> u64 {
    let mut current = first;
    let mut sum = 0;
    for _ in 0..objects {
        if let Some(old) = current.take() {
            // SAFETY: this pool returned the handle.
            unsafe { pool.take(old) };
        }
        // SAFETY: the object is dropped in the next round or at the end.
        let handle = unsafe { pool.put(Counter::new(0)) };
        // SAFETY: this pool returned the handle, and the object is live.
        unsafe {
            pool.look(&handle, |counter| {
                for _ in 0..WRITES {
                    counter.0.fetch_add(1, Relaxed);
                }
                sum += counter.0.load(Relaxed);
            });
        };
        current = Some(handle);
    }
    if let Some(old) = current {
        // SAFETY: this pool returned the handle.
        unsafe { pool.take(old) };
    }
    sum
}

/// Builds a cell of the passive variant if `passive` is `true`, and of the active variant
/// otherwise.
pub(crate) fn cell<M: Maker>(passive: bool, context: &Context) -> Box<dyn Cell> {
    let pool = Travelling(Arc::new(M::make::<Counter>(4)));
    let meeting = Arc::new(Meeting::new(2));
    let theirs = Arc::clone(&meeting);
    let (gifts, given) = sync_channel::<Option<Parcel>>(1);
    let their_pool = pool.clone();
    let mate = Mate::new(context.second_cpu, move || {
        let pool = their_pool;
        move |units| {
            let gift = given.recv().ok().flatten();
            let first = gift.map(|gift| *gift.open());
            theirs.wait();
            scratch(&*pool.0, first, units * OBJECTS)
        }
    });
    // These fields are dropped in order. The drop of `gifts` ends the other thread's wait for an
    // object, so the drop of `mate` can join that thread. The pool is dropped last.
    let state = (gifts, mate, meeting, passive, pool);
    StateCell::boxed(OBJECTS as usize, state, |(gifts, mate, meeting, passive, pool), units| {
        // SAFETY: `scratch` drops the object before the pool ends.
        let make = || passive.then(|| unsafe { pool.0.put(Counter::new(0)) });
        let (mine, theirs) = (make(), make());
        // Without a gift, nothing is allocated that the other thread would free.
        gifts.send(theirs.map(|object| -> Parcel { Travelling(Box::new(object)) })).expect(GONE);
        mate.order(units);
        meeting.wait();
        scratch(&*pool.0, mine, units * OBJECTS) + mate.answer()
    })
}
