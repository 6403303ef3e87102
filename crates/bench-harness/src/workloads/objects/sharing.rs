//! S10, false sharing: objects of eight bytes, in which two threads count at once.
//!
//! By atomic additions: a processor may keep plain writes in its store buffer until the line comes, and then a shared line costs next
//! to nothing in a loop as short as this one.
//!
//! Passive: one thread makes both threads' objects, so that they may lie on one line; each thread then replaces its own and
//! goes on with that, as the test known as cache-scratch does. An allocator is good at it when the replacement lies on a line
//! of the thread's own. Active: each thread makes its own from the start.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::objects::{Counter, Maker, Object, RawPool};
use crate::workloads::crew::{AcrossThreads, Mate, Meeting, Travelling};
use crate::workloads::{Cell, Context};

/// Objects of a thread in a unit.
const OBJECTS: u64 = 64;
/// How far each object counts.
const WRITES: u64 = 100;

/// Counts to a hundred in every object, after replacing it where that is asked.
fn scratch<P: RawPool<Counter>>(pool: &P, first: Option<P::Handle>, objects: u64) -> u64 {
    let mut current = first;
    let mut sum = 0;
    for _ in 0..objects {
        if let Some(old) = current.take() {
            // SAFETY: the handle is this pool's.
            unsafe { pool.take(old) };
        }
        let handle = pool.put(Counter::new(0));
        // SAFETY: the object is alive.
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
        // SAFETY: the handle is this pool's.
        unsafe { pool.take(old) };
    }
    sum
}

struct Sharing<P: RawPool<Counter>> {
    mate: Option<Mate>,
    gifts: Option<SyncSender<Travelling<P::Handle>>>,
    meeting: Arc<Meeting>,
    rounds: usize,
    passive: bool,
    pool: AcrossThreads<P>,
    objects: PhantomData<Counter>,
}

impl<P: RawPool<Counter>> Sharing<P> {
    fn new(pool: P, passive: bool, context: &Context) -> Self {
        let pool = AcrossThreads(Arc::new(pool));
        let meeting = Arc::new(Meeting::new(2));
        let (gifts, given) = sync_channel::<Travelling<P::Handle>>(1);
        let (theirs, met) = (AcrossThreads(Arc::clone(&pool.0)), Arc::clone(&meeting));
        let mate = Mate::new(context.second_cpu, move || {
            let theirs = theirs;
            let mut round = 0;
            move |units| {
                let first = given.recv().ok().and_then(|gift| { gift }.0.pop());
                met.wait(round);
                round += 1;
                scratch(&*theirs.0, first, units * OBJECTS)
            }
        });
        let gifts = Some(gifts);
        Self { mate: Some(mate), gifts, meeting, rounds: 0, passive, pool, objects: PhantomData }
    }
}

impl<P: RawPool<Counter>> Cell for Sharing<P> {
    fn run(&mut self, units: u64) -> u64 {
        let gone = "the second thread ended early";
        let (mate, gifts) = (self.mate.as_ref().expect(gone), self.gifts.as_ref().expect(gone));
        let make = || self.passive.then(|| self.pool.0.put(Counter::new(0)));
        let (mine, theirs) = (make(), make());
        gifts.send(Travelling(theirs.into_iter().collect())).expect(gone);
        mate.order(units);
        self.meeting.wait(self.rounds);
        self.rounds += 1;
        let sum = scratch(&*self.pool.0, mine, units * OBJECTS);
        sum + mate.answer()
    }

    fn ops_per_unit(&self) -> u64 {
        OBJECTS
    }
}

impl<P: RawPool<Counter>> Drop for Sharing<P> {
    fn drop(&mut self) {
        self.gifts = None;
        self.mate = None;
    }
}

/// Objects that a unit makes: of both threads.
pub const MADE: u64 = 2 * OBJECTS;

/// A cell; passive or active.
pub fn cell<M: Maker>(passive: bool, context: &Context) -> Box<dyn Cell> {
    Box::new(Sharing::new(M::make_for::<Counter>(4), passive, context))
}
