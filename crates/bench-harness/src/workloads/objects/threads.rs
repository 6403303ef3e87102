//! S9, threads, in two variants. In the first, two threads run at the same time, and each fills and
//! drops its own batch. In the second, threads run one after another, and each drops the objects of
//! the previous one.

use std::sync::Arc;

use super::batch::{batch, room};
use crate::objects::{Maker, Object, WordObject};
use crate::pools::RawPool;
use crate::workloads::crew::{Mate, Meeting, Travelling, run_on};
use crate::workloads::{Cell, Context, StateCell, each, mix};

/// The object of both variants, which takes 40 bytes.
type ThreadObject = WordObject<5>;

/// Builds a cell of two threads with `n` objects of 40 bytes each. The time per operation is the
/// time of one object on one thread while the other thread does the same.
pub(crate) fn at_once<M: Maker>(n: usize, context: &Context) -> Box<dyn Cell> {
    let pool = Travelling(Arc::new(M::make::<ThreadObject>(2 * n)));
    let meeting = Arc::new(Meeting::new(2));
    let theirs = Arc::clone(&meeting);
    let their_pool = pool.clone();
    let mate = Mate::new(context.second_cpu, move || {
        let (pool, mut handles) = (their_pool, room(n));
        move |units| {
            theirs.wait();
            each(units, || batch::<ThreadObject, _>(&*pool.0, &mut handles))
        }
    });
    // The drop of `mate` joins the thread before the pool is dropped.
    StateCell::boxed(n, (mate, meeting, room(n), pool), |(mate, meeting, handles, pool), units| {
        mate.order(units);
        meeting.wait();
        let mine = each(units, || batch::<ThreadObject, _>(&*pool.0, handles));
        mix(mine, mate.answer())
    })
}

/// The objects that a thread leaves to the next one.
struct ObjectGenerations<P: RawPool<ThreadObject>> {
    left: Vec<P::Handle>,
    n: usize,
    pool: Travelling<Arc<P>>,
    cpu: Option<usize>,
}

impl<P: RawPool<ThreadObject>> ObjectGenerations<P> {
    /// Starts a thread that replaces every object, and waits for that thread.
    fn next(&mut self) -> u64 {
        let theirs = Travelling(Arc::clone(&self.pool.0));
        let mut left = Travelling(core::mem::take(&mut self.left));
        let (n, mut sum, travelling) = (self.n, 0, &mut left);
        let work = || {
            let (theirs, left) = (theirs, travelling);
            left.0.reserve_exact(n - left.0.len());
            for i in 0..n {
                // SAFETY: `drop` or the next thread drops the object before the pool ends.
                let made = unsafe { theirs.0.put(ThreadObject::new(i as u64)) };
                let Some(slot) = left.0.get_mut(i) else {
                    left.0.push(made);
                    continue;
                };
                let old = core::mem::replace(slot, made);
                // SAFETY: the previous thread made the object in this pool, with this tag, and the
                // object is live.
                unsafe { super::verify::<ThreadObject, P>(&theirs.0, &old, i as u64, &mut sum) };
                // SAFETY: this pool returned the handle.
                unsafe { theirs.0.take(old) };
            }
        };
        run_on(self.cpu, Box::new(work));
        self.left = left.0;
        sum
    }
}

impl<P: RawPool<ThreadObject>> Drop for ObjectGenerations<P> {
    fn drop(&mut self) {
        for handle in self.left.drain(..) {
            // SAFETY: this pool returned the handle.
            unsafe { self.pool.0.take(handle) };
        }
    }
}

/// Builds a cell in which threads run one after another. Each replaces the `n` objects of 40 bytes
/// that the previous one made.
pub(crate) fn generations<M: Maker>(n: usize, context: &Context) -> Box<dyn Cell> {
    let pool = Travelling(Arc::new(M::make::<ThreadObject>(n + 1)));
    let mut objects = ObjectGenerations { left: Vec::new(), n, pool, cpu: context.second_cpu };
    objects.next();
    StateCell::boxed(n, objects, |objects, units| each(units, || objects.next()))
}
