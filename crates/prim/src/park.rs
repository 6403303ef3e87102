//! Park and sweep: pools that were dropped while handles to their slots live.
//!
//! Somebody must free the last page, and neither the pool (gone) nor the last handle (it cannot know that
//! it is the last without a shared counter, which every free would pay for) is in a position to. So the
//! pool is marked closed and put into a lot. From then on the bits of its pages are only ever set, and a
//! *sweep*, by one thread at a time, adds up what came home and frees the pages that are whole.
//!
//! The crate's design has the invariants P1 to P4, and says what may stay until a later sweep.

use core::ptr::{self, NonNull};

use crate::gate::Gate;
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, guess};
use crate::word::OwnerPtr;

// ORDERING: Release. Pairs with the Acquire in `Closed::get`. Publishes: what the drop of the pool left in it for the
// frees to come. Sweeps do not rest on it: all that they touch is ordered by the lot.
const CLOSE: Ordering =
    if cfg!(ephemera_weaken = "close_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `Closed::set`.
const CLOSED: Ordering =
    if cfg!(ephemera_weaken = "closed_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
// ORDERING: Release. Pairs with the Acquire in `Lot::collect`. Publishes: the pool and its link.
const PARK: Ordering =
    if cfg!(ephemera_weaken = "park_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `Lot::park`.
const COLLECT: Ordering =
    if cfg!(ephemera_weaken = "collect_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

/// Whether a pool was dropped. Set once; read by each free before the last touch of what it frees (P4).
#[derive(Debug)]
pub struct Closed(AtomicBool);

impl Closed {
    crate::const_unless_loom! {
        /// Not yet.
        #[must_use]
        pub fn new() -> Self {
            Self(AtomicBool::new(false))
        }
    }

    /// The pool is dropped: what was written before this is seen by whoever finds it set.
    #[inline]
    pub fn set(&self) {
        // ORDERING: `CLOSE`. Pairs with `Closed::get`.
        self.0.store(true, CLOSE);
    }

    /// Whether the pool was dropped, as far as this thread has seen. If so, sweep after the free.
    #[inline]
    #[must_use]
    pub fn get(&self) -> bool {
        // ORDERING: `CLOSED`. Pairs with `Closed::set`.
        self.0.load(CLOSED)
    }
}

impl Default for Closed {
    fn default() -> Self {
        Self::new()
    }
}

/// A pool that can be parked.
///
/// # Safety
/// [`Park::link`] returns the address of one and the same pointer in the pool, for as long as the pool lives.
/// [`Park::sweep`] returns `true` if and only if it freed the pool, and does not unwind. Any thread may sweep and free
/// a pool, whatever thread made it: all that it holds is fit for that.
pub unsafe trait Park: Sized {
    /// The pool's link in the lot.
    ///
    /// # Safety
    /// `pool` is alive.
    unsafe fn link(pool: NonNull<Self>) -> NonNull<AtomicPtr<Self>>;

    /// Dequeues what was given back, gathers it beside the local bits, frees the pages that are wholly home and,
    /// with the last of them, the pool. Must not unwind.
    ///
    /// # Safety
    /// `pool` is alive, closed and parked, and the caller is behind the gate of its lot (P1).
    unsafe fn sweep(pool: NonNull<Self>) -> bool;
}

/// How much a sweep should try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Look unless the last looks were in vain: after each that freed nothing, twice as many calls are let pass.
    Passing,
    /// Look in any case.
    Full,
}

/// The parked pools of one kind.
#[derive(Debug)]
pub struct Lot<P> {
    /// Pools that nobody swept yet: pushed by any thread, taken whole behind the gate.
    arrivals: AtomicPtr<P>,
    /// Pools that were swept and are still there: only behind the gate.
    parked: OwnerPtr<P>,
    gate: Gate,
    count: AtomicUsize,
    /// Sweeps in a row that freed nothing, and calls that were let pass since the last one.
    barren: AtomicUsize,
    passed: AtomicUsize,
}

/// The longest back-off: one look in this many calls.
const RAREST: usize = 1 << 10;

impl<P> Lot<P> {
    crate::const_unless_loom! {
        /// An empty lot.
        #[must_use]
        pub fn new() -> Self {
            Self {
                arrivals: AtomicPtr::new(ptr::null_mut()),
                parked: OwnerPtr::null(),
                gate: Gate::new(),
                count: AtomicUsize::new(0),
                barren: AtomicUsize::new(0),
                passed: AtomicUsize::new(0),
            }
        }
    }

    /// How many pools are parked.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn due(&self) -> bool {
        let barren = self.barren.load(Ordering::Relaxed).min(RAREST.ilog2() as usize);
        let passed = self.passed.fetch_add(1, Ordering::Relaxed);
        passed + 1 >= 1 << barren
    }
}

impl<P> Default for Lot<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Park> Lot<P> {
    /// Parks a pool. Never waits.
    ///
    /// # Safety
    /// `pool` is alive, marked closed, not parked yet, and from now on the lot's: only sweeps free it.
    pub unsafe fn park(&self, pool: NonNull<P>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        // SAFETY: alive, by the caller.
        let link = unsafe { P::link(pool) };
        // SAFETY: as above; nobody sweeps it before it is pushed below.
        let link = unsafe { link.as_ref() };
        let mut head = guess(&self.arrivals);
        loop {
            link.store(head, Ordering::Relaxed);
            // ORDERING: `PARK`. Pairs with `Lot::collect`.
            match self.arrivals.compare_exchange_weak(head, pool.as_ptr(), PARK, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Sweeps the parked pools, unless another thread is at it, and returns how many it freed. A sweep within a sweep
    /// (a backing allocator that drops a pool of this kind) finds the gate shut and returns zero.
    pub fn sweep(&self, effort: Effort) -> usize {
        if self.count() == 0 || (effort == Effort::Passing && !self.due()) {
            return 0;
        }
        let Some(pass) = self.gate.try_enter() else { return 0 };
        self.passed.store(0, Ordering::Relaxed);
        let freed = self.sweep_behind_gate();
        self.count.fetch_sub(freed, Ordering::Relaxed);
        self.barren
            .store(if freed == 0 { self.barren.load(Ordering::Relaxed) + 1 } else { 0 }, Ordering::Relaxed);
        drop(pass);
        freed
    }

    fn sweep_behind_gate(&self) -> usize {
        let mut freed = 0;
        let mut rest = self.collect();
        let mut kept = ptr::null_mut();
        while let Some(pool) = NonNull::new(rest) {
            // SAFETY: pools in the lot are alive until their sweep frees them (P3).
            let link = unsafe { P::link(pool) };
            // SAFETY: as above.
            rest = unsafe { link.as_ref() }.load(Ordering::Relaxed);
            // SAFETY: alive, closed and parked, and this thread is behind the gate (P1).
            if unsafe { P::sweep(pool) } {
                freed += 1;
            } else {
                // SAFETY: its sweep did not free it.
                unsafe { link.as_ref() }.store(kept, Ordering::Relaxed);
                kept = pool.as_ptr();
            }
        }
        self.parked.set(kept);
        freed
    }

    /// Takes all pools of the lot into one list: the arrivals, then those that were parked before. They are in no
    /// other list then: a sweep that unwinds, against its promise, loses pools and frees none of them twice.
    fn collect(&self) -> *mut P {
        let parked = self.parked.get();
        self.parked.set(ptr::null_mut());
        // ORDERING: `COLLECT`. Pairs with `Lot::park`.
        let head = self.arrivals.swap(ptr::null_mut(), COLLECT);
        let mut last = head;
        while let Some(pool) = NonNull::new(last) {
            // SAFETY: pools in the lot are alive (P3).
            let link = unsafe { P::link(pool) };
            // SAFETY: as above.
            let link = unsafe { link.as_ref() };
            let next = link.load(Ordering::Relaxed);
            if next.is_null() {
                link.store(parked, Ordering::Relaxed);
                return head;
            }
            last = next;
        }
        parked
    }
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests {
    use alloc::boxed::Box;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::ptr::{self, NonNull};
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::{AtomicPtr, Closed, Effort, Lot, Park, RAREST};

    /// A pool that is free when its switch says so, and counts its sweeps.
    struct Pool {
        link: AtomicPtr<Pool>,
        home: Arc<AtomicBool>,
        sweeps: Arc<AtomicUsize>,
    }

    // SAFETY: the address of one field; `sweep` says whether it freed the pool, which is fit for any thread.
    unsafe impl Park for Pool {
        unsafe fn link(pool: NonNull<Self>) -> NonNull<AtomicPtr<Self>> {
            // SAFETY: the caller's pool is alive; no reference is made.
            let field = unsafe { &raw mut (*pool.as_ptr()).link };
            // SAFETY: a field of what a non-null pointer points at.
            unsafe { NonNull::new_unchecked(field) }
        }

        unsafe fn sweep(pool: NonNull<Self>) -> bool {
            // SAFETY: alive, by the caller; the reference ends before the pool is freed.
            let this = unsafe { pool.as_ref() };
            this.sweeps.fetch_add(1, Ordering::Relaxed);
            let home = this.home.load(Ordering::Relaxed);
            if home {
                // SAFETY: from a box, and nobody else frees it.
                drop(unsafe { Box::from_raw(pool.as_ptr()) });
            }
            home
        }
    }

    /// Parks a pool. Returns its switch and the count of its sweeps.
    fn park(lot: &Lot<Pool>) -> (Arc<AtomicBool>, Arc<AtomicUsize>) {
        let (home, sweeps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let link = AtomicPtr::new(ptr::null_mut());
        let pool = Pool { link, home: Arc::clone(&home), sweeps: Arc::clone(&sweeps) };
        let pool = NonNull::from(Box::leak(Box::new(pool)));
        // SAFETY: alive and new; from here the lot's.
        unsafe { lot.park(pool) };
        (home, sweeps)
    }

    #[test]
    fn closed_is_set_once_for_all() {
        let closed = Closed::new();
        assert!(!closed.get());
        closed.set();
        assert!(closed.get());
    }

    #[test]
    fn pools_stay_until_they_are_home_in_any_order() {
        let lot = Lot::new();
        assert_eq!(lot.sweep(Effort::Full), 0);
        let pools: Vec<_> = (0..4).map(|_| park(&lot)).collect();
        assert_eq!((lot.count(), lot.sweep(Effort::Full)), (4, 0));
        for (left, which) in [(3, 1), (2, 3), (1, 0), (0, 2)] {
            pools[which].0.store(true, Ordering::Relaxed);
            assert_eq!((lot.sweep(Effort::Full), lot.count()), (1, left));
        }
        assert_eq!(lot.sweep(Effort::Full), 0);
    }

    #[test]
    fn arrivals_join_those_that_stayed() {
        let lot = Lot::new();
        let early = park(&lot);
        assert_eq!(lot.sweep(Effort::Full), 0);
        let late = park(&lot);
        early.0.store(true, Ordering::Relaxed);
        late.0.store(true, Ordering::Relaxed);
        assert_eq!((lot.sweep(Effort::Full), lot.count()), (2, 0));
    }

    #[test]
    fn after_each_look_in_vain_twice_as_many_calls_are_let_pass() {
        let lot = Lot::new();
        let (home, sweeps) = park(&lot);
        let looks = || sweeps.load(Ordering::Relaxed);
        for look in 0..5 {
            for passed in 0..(1 << look) - 1 {
                assert_eq!(lot.sweep(Effort::Passing), 0);
                assert_eq!(looks(), look, "call {passed} was not let pass");
            }
            assert_eq!(lot.sweep(Effort::Passing), 0);
            assert_eq!(looks(), look + 1);
        }
        // However long in vain, no more than so many.
        for _ in 0..2 * RAREST.ilog2() {
            lot.sweep(Effort::Full);
        }
        let before = looks();
        for _ in 0..RAREST {
            lot.sweep(Effort::Passing);
        }
        assert_eq!(looks(), before + 1);
        // A full effort always looks, and one that frees something sets the back-off to nothing.
        let (other, _) = park(&lot);
        other.store(true, Ordering::Relaxed);
        assert_eq!(lot.sweep(Effort::Full), 1);
        home.store(true, Ordering::Relaxed);
        assert_eq!(lot.sweep(Effort::Passing), 1);
    }

    #[test]
    fn conc_each_pool_is_freed_once() {
        const THREADS: usize = 3;
        const EACH: usize = if cfg!(miri) { 4 } else { 300 };
        let lot = Arc::new(Lot::new());
        let works = |_| {
            let lot = Arc::clone(&lot);
            std::thread::spawn(move || {
                let mut freed = 0;
                for turn in 0..EACH {
                    let (home, _) = park(&lot);
                    freed += lot.sweep(if turn % 2 == 0 { Effort::Full } else { Effort::Passing });
                    home.store(true, Ordering::Relaxed);
                    freed += lot.sweep(Effort::Passing);
                }
                freed
            })
        };
        let threads: Vec<_> = (0..THREADS).map(works).collect();
        let mut freed: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        freed += lot.sweep(Effort::Full);
        assert_eq!((freed, lot.count()), (THREADS * EACH, 0));
    }
}
