//! S9, threads. Either two threads run at the same time, and each fills and drops its own batch; or
//! threads come and go, and each drops the objects of the previous one.

use core::marker::PhantomData;
use std::sync::Arc;

use super::batch::batch;
use crate::objects::{Maker, Object, RawPool, WordObject};
use crate::os;
use crate::workloads::crew::{AcrossThreads, Mate, Meeting, Travelling};
use crate::workloads::{Cell, Context, mix};

fn room<H>(n: usize) -> Vec<H> {
    let mut handles = Vec::new();
    handles.reserve_exact(n);
    handles
}

/// Two threads over one pool.
struct AtOnce<T: Object, P: RawPool<T>> {
    mate: Mate,
    meeting: Arc<Meeting>,
    rounds: usize,
    handles: Vec<P::Handle>,
    pool: AcrossThreads<P>,
    objects: PhantomData<T>,
}

/// Runs this number of batches.
fn batches<T: Object, P: RawPool<T>>(pool: &P, handles: &mut Vec<P::Handle>, units: u64) -> u64 {
    (0..units).fold(0, |sum, _| mix(sum, batch::<T, P>(pool, handles)))
}

impl<T: Object, P: RawPool<T>> AtOnce<T, P> {
    fn new(pool: P, n: usize, context: &Context) -> Self {
        let pool = AcrossThreads(Arc::new(pool));
        let meeting = Arc::new(Meeting::new(2));
        let theirs = AcrossThreads(Arc::clone(&pool.0));
        let met = Arc::clone(&meeting);
        let mate = Mate::new(context.second_cpu, move || {
            let theirs = theirs;
            let mut handles = room(n);
            let mut round = 0;
            move |units| {
                met.wait(round);
                round += 1;
                batches::<T, P>(&theirs.0, &mut handles, units)
            }
        });
        Self { mate, meeting, rounds: 0, handles: room(n), pool, objects: PhantomData }
    }
}

impl<T: Object, P: RawPool<T>> Cell for AtOnce<T, P> {
    fn run(&mut self, units: u64) -> u64 {
        self.mate.order(units);
        self.meeting.wait(self.rounds);
        self.rounds += 1;
        let mine = batches::<T, P>(&self.pool.0, &mut self.handles, units);
        mix(mine, self.mate.answer())
    }

    /// Returns the operations of one thread: a time is the cost of one while the other thread does
    /// the same.
    fn ops_per_unit(&self) -> u64 {
        self.handles.capacity() as u64
    }
}

/// Builds a cell of two threads with `n` objects of 40 bytes each.
pub fn at_once<M: Maker>(n: usize, context: &Context) -> Box<dyn Cell> {
    type T = WordObject<5>;
    Box::new(AtOnce::<T, _>::new(M::make_for::<T>(2 * n), n, context))
}

/// The objects that a thread leaves to the next one.
struct ObjectGenerations<T: Object, P: RawPool<T>> {
    left: Vec<P::Handle>,
    n: usize,
    pool: AcrossThreads<P>,
    cpu: Option<usize>,
    objects: PhantomData<T>,
}

impl<T: Object, P: RawPool<T>> ObjectGenerations<T, P> {
    /// Replaces every object on a new thread.
    fn next(&mut self) -> u64 {
        let theirs = AcrossThreads(Arc::clone(&self.pool.0));
        let left = Travelling(core::mem::take(&mut self.left));
        let (n, cpu) = (self.n, self.cpu);
        let thread = std::thread::spawn(move || {
            if let Some(cpu) = cpu {
                os::pin(cpu);
            }
            let (theirs, mut left) = (theirs, left);
            let mut sum = 0;
            left.0.reserve_exact(n - left.0.len());
            for i in 0..n {
                let made = theirs.0.put(T::new(i as u64));
                let Some(slot) = left.0.get_mut(i) else {
                    left.0.push(made);
                    continue;
                };
                let old = core::mem::replace(slot, made);
                // SAFETY: the previous thread made the object with this tag.
                unsafe { super::verify::<T, P>(&theirs.0, &old, i as u64, &mut sum) };
                // SAFETY: the handle is this pool's.
                unsafe { theirs.0.take(old) };
            }
            (left, sum)
        });
        let (left, sum) = thread.join().expect("the thread ended well");
        self.left = left.0;
        sum
    }
}

impl<T: Object, P: RawPool<T>> Cell for ObjectGenerations<T, P> {
    fn run(&mut self, units: u64) -> u64 {
        (0..units).fold(0, |sum, _| mix(sum, self.next()))
    }

    fn ops_per_unit(&self) -> u64 {
        self.n as u64
    }
}

impl<T: Object, P: RawPool<T>> Drop for ObjectGenerations<T, P> {
    fn drop(&mut self) {
        for handle in self.left.drain(..) {
            // SAFETY: the handle is this pool's.
            unsafe { self.pool.0.take(handle) };
        }
    }
}

/// Builds a cell in which thread after thread replaces the `n` objects of 40 bytes that the
/// previous one made.
pub fn generations<M: Maker>(n: usize, context: &Context) -> Box<dyn Cell> {
    type T = WordObject<5>;
    let pool = AcrossThreads(Arc::new(M::make_for::<T>(n + 1)));
    let mut cell =
        ObjectGenerations { left: Vec::new(), n, pool, cpu: context.second_cpu, objects: PhantomData::<T> };
    cell.next();
    Box::new(cell)
}
