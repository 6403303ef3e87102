//! S6, straggler: a FIFO window in which a few objects live a hundred times longer. What a page costs that one object keeps
//! alive shows in the bytes held per byte alive.

use core::marker::PhantomData;
use std::collections::VecDeque;

use super::verify;
use crate::objects::{Maker, Object, Pool, Words};
use crate::workloads::blocks::straggler::{LONGER, WINDOW, steady};
use crate::workloads::{Cell, Context};

/// The window, and the objects that outlive it.
#[derive(Debug)]
pub struct Stragglers<H> {
    window: VecDeque<H>,
    /// When they are due, and which they are.
    late: VecDeque<(u64, u64, H)>,
    /// One object in so many stays; zero for none.
    one_in: u64,
    next: u64,
}

impl<H: 'static> Stragglers<H> {
    /// Fills the window.
    pub fn fill<T: Object, P: Pool<T, Handle = H>>(pool: &P, one_in: usize) -> Self {
        let mut window = VecDeque::with_capacity(WINDOW + 1);
        window.extend((0..WINDOW as u64).map(|tag| pool.put(T::new(tag))));
        // Room for all that are late at a time, so that the loop never grows it.
        let room = (WINDOW * LONGER).checked_div(one_in).map_or(0, |late| late + 2);
        Self { window, late: VecDeque::with_capacity(room), one_in: one_in as u64, next: WINDOW as u64 }
    }

    /// Drops all objects.
    ///
    /// # Safety
    ///
    /// `pool` is the one that filled the window.
    pub unsafe fn clear<T: Object, P: Pool<T, Handle = H>>(self, pool: &P) {
        for handle in self.window.into_iter().chain(self.late.into_iter().map(|(_, _, handle)| handle)) {
            // SAFETY: the handle is this pool's.
            unsafe { pool.take(handle) };
        }
    }
}

/// Moves the window on by `ops` objects.
///
/// # Safety
///
/// `pool` is the one that filled it.
#[inline(never)]
pub unsafe fn churn<T: Object, P: Pool<T>>(pool: &P, state: &mut Stragglers<P::Handle>, ops: u64) -> u64 {
    let mut sum = 0;
    let mut end = |tag: u64, handle: P::Handle| {
        // SAFETY: made with this tag by this pool.
        unsafe { verify::<T, P>(pool, &handle, tag, &mut sum) };
        // SAFETY: the handle is this pool's.
        unsafe { pool.take(handle) };
    };
    for _ in 0..ops {
        let now = state.next;
        let oldest = now - WINDOW as u64;
        if let Some(handle) = state.window.pop_front() {
            if state.one_in != 0 && oldest % state.one_in == state.one_in - 1 {
                state.late.push_back((now + (WINDOW * (LONGER - 1)) as u64, oldest, handle));
            } else {
                end(oldest, handle);
            }
        }
        if state.late.front().is_some_and(|late| late.0 <= now)
            && let Some((_, tag, handle)) = state.late.pop_front()
        {
            end(tag, handle);
        }
        state.window.push_back(pool.put(T::new(now)));
        state.next = now + 1;
    }
    sum
}

struct Straggle<T: Object, P: Pool<T>> {
    state: Option<Stragglers<P::Handle>>,
    pool: P,
    objects: PhantomData<T>,
}

impl<T: Object, P: Pool<T>> Cell for Straggle<T, P> {
    fn run(&mut self, units: u64) -> u64 {
        let Some(state) = &mut self.state else { return 0 };
        // SAFETY: the cell's own pool filled the window.
        unsafe { churn::<T, P>(&self.pool, state, units) }
    }
}

impl<T: Object, P: Pool<T>> Drop for Straggle<T, P> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            // SAFETY: the cell's own pool filled the window.
            unsafe { state.clear::<T, P>(&self.pool) };
        }
    }
}

/// A cell of objects of 64 bytes in which one in `one_in` is late (none for zero), brought to its steady state.
pub fn cell<M: Maker>(one_in: usize, _context: &Context) -> Box<dyn Cell> {
    type T = Words<8>;
    let pool = M::make_for::<T>(WINDOW + (WINDOW * LONGER).checked_div(one_in).unwrap_or(0));
    let mut state = Stragglers::fill::<T, _>(&pool, one_in);
    // SAFETY: the window was filled the line before by the same pool.
    unsafe { churn::<T, _>(&pool, &mut state, steady(one_in)) };
    Box::new(Straggle { state: Some(state), pool, objects: PhantomData::<T> })
}
