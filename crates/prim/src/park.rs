//! Park and sweep: pools that were dropped while handles to their slots live.
//!
//! Somebody must free the last page, and neither the pool (gone) nor the last handle (it cannot know that
//! it is the last without a shared counter, which every free would pay for) is in a position to. So the
//! pool is marked closed and put into a lot. From then on the bits of its pages are only ever set, and a
//! *sweep*, by one thread at a time, adds up what came home and frees the pages that are whole.
//!
//! ```text
//!  drop of the pool:   closed <- true (Release);  park;  sweep
//!  every free:         c = closed (Acquire);  give the slot back;  if c { sweep }
//! ```
//!
//! # Invariants
//! * **P1** Only the thread behind the gate takes from the inboxes of parked pools, gathers, and frees.
//! * **P2** A sweep never writes the words that owners write: an owner may be giving back a slot by load and
//!   store at that moment. It keeps what it took in a word of its own, beside them.
//! * **P3** A pool is in the lot exactly once, from `park` until its sweep says that it is free.
//!
//! # What may stay
//! A free that sees `closed` not yet set, and a sweep that looks before that free's bit arrives, just miss
//! each other; so do two sweeps of which the second finds the gate shut. The pages concerned stay until the
//! next sweep: at the next creation or drop of any pool of that kind, at its `reclaim`, or before a refusal.

use core::ptr::{self, NonNull};

use crate::gate::Gate;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::word::OwnerPtr;

/// A pool that can be parked.
///
/// # Safety
/// [`Park::link`] returns the address of one and the same pointer in the pool, for as long as the pool lives.
/// [`Park::sweep`] returns `true` if and only if it freed the pool.
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
        let mut head = self.arrivals.load(Ordering::Relaxed);
        loop {
            link.store(head, Ordering::Relaxed);
            // ORDERING: Release. Pairs with the Acquire in `Lot::collect`. Publishes: the pool and its link.
            match self.arrivals.compare_exchange_weak(
                head,
                pool.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Sweeps the parked pools, unless another thread is at it, and returns how many it freed.
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

    /// Takes all pools of the lot into one list: the arrivals, then those that were parked before.
    fn collect(&self) -> *mut P {
        let parked = self.parked.get();
        // ORDERING: Acquire. Pairs with the Release in `Lot::park`.
        let head = self.arrivals.swap(ptr::null_mut(), Ordering::Acquire);
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
