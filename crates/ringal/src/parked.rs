//! Parked stores: those whose ring was dropped while buffers were in use.
//!
//! The last buffer frees its store. The drop of the ring counts the taken regions, and from then on
//! each release takes one share off that count (`end.rs`). So neither a list nor a lock stands
//! between the last release and the free.
//!
//! One kind of release is not counted: it read `closed` before the drop of the ring set it, and
//! stored its word after the drop counted. Its share stays until a *look* finds the word. Each ring
//! that is made or dropped looks, and each release that freed a store: at the stores parked last
//! and at the others in turn, at no more than [`BRIEF`] says. Each thread is inside one release at
//! a time, so each drop of a ring leaves at most one such share a thread.
//!
//! A header is in one of the lists below from the drop of its ring until a look finds its store
//! freed. Looks work behind a gate. A thread that finds the gate shut does without, and a later
//! look makes up for it. In the child of a fork, the header that another thread was looking at is
//! in no list; its store goes with its last buffer, unless the look held a share.

use core::ptr::{self, NonNull};

use ephemera_prim::gate::Gate;
use ephemera_prim::sync::{AtomicPtr, AtomicUsize, Ordering, guess};
use ephemera_prim::word::OwnerPtr;

use crate::store::{Store, StorePtr};

// ORDERING: Release. Pairs with the Acquire in `Parked::collect`. Publishes: the header, its link,
// and what the drop of the ring found.
const PARK: Ordering =
    if cfg!(ephemera_weaken = "park_relaxed") { Ordering::Relaxed } else { Ordering::Release };
// ORDERING: Acquire. Pairs with the Release in `Parked::push`.
const COLLECT: Ordering =
    if cfg!(ephemera_weaken = "collect_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };

/// How much one look may do.
#[derive(Debug, Clone, Copy)]
struct Budget {
    /// Stores that are still there.
    stores: usize,
    /// Headers of stores that are not.
    ended: usize,
    /// Guards.
    guards: usize,
}

/// What each call that looks may do.
const BRIEF: Budget = Budget { stores: 8, ended: 64, guards: 1024 };

/// The most looks that one call makes up for, of threads that found the gate shut.
const MOST_OWED: usize = 15;

impl Budget {
    const fn times(self, count: usize) -> Self {
        Self { stores: self.stores * count, ended: self.ended * count, guards: self.guards * count }
    }
}

/// The parked stores of a process, or of one test.
#[derive(Debug)]
pub(crate) struct Parked {
    /// Stores that nobody has looked at yet: pushed by any thread, taken whole behind the gate.
    arrivals: AtomicPtr<Store>,
    gate: Gate,
    /// Arrivals that were taken, and stores of which a look has seen only a part.
    fresh: Stack,
    /// The others: those that this turn has still to look at, and those that it has looked at.
    old: Stack,
    seen: Stack,
    /// Headers in any of these lists.
    queued: AtomicUsize,
    /// Calls that found the gate shut, and whose looks nobody has made up for.
    owed: AtomicUsize,
    /// Stores that are not freed yet.
    count: AtomicUsize,
}

impl Parked {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self {
                arrivals: AtomicPtr::new(ptr::null_mut()),
                gate: Gate::new(),
                fresh: Stack::new(),
                old: Stack::new(),
                seen: Stack::new(),
                queued: AtomicUsize::new(0),
                owed: AtomicUsize::new(0),
                count: AtomicUsize::new(0),
            }
        }
    }

    /// How many stores are parked.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Parks a store of which the drop of its ring found `held` regions in use. Waits for nothing.
    ///
    /// # Safety
    /// The store is closed and settled, `held` is not zero, and nobody has called this for it.
    pub(crate) unsafe fn park(&self, store: StorePtr, held: usize) {
        self.count.fetch_add(1, Ordering::Relaxed);
        // One share more, for this function.
        store.add_shares(held + 1);
        // Before the store is pushed: so the next call looks at it, when the releases that were
        // under way are over.
        self.look();
        self.push(store);
        // SAFETY: the share that was added above.
        if unsafe { store.drop_shares(1) } {
            // SAFETY: that was the last one.
            unsafe { self.end(store) };
        }
    }

    /// Frees the regions of a store whose last share the caller has dropped, and its header unless
    /// that is in a list.
    ///
    /// # Safety
    /// [`StorePtr::drop_shares`] returned `true` to the caller.
    pub(crate) unsafe fn end(&self, store: StorePtr) {
        // SAFETY: no share is left, so nobody else uses the regions (E1).
        unsafe { store.free_regions() };
        // SAFETY: the caller's half of the header, and the last use of it.
        unsafe { store.leave_header() };
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Headers in the lists, of stores that are there and of stores that ended.
    #[cfg(all(test, feature = "std", not(any(ephemera_loom, miri))))]
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Calls `during` while another thread, so to speak, is behind the gate.
    #[cfg(all(test, feature = "std", not(any(ephemera_loom, miri))))]
    pub(crate) fn shut<T>(&self, during: impl FnOnce() -> T) -> T {
        let _pass = self.gate.try_enter().expect("one thread uses the lists of a test");
        during()
    }

    fn push(&self, store: StorePtr) {
        store.listed().write();
        self.queued.fetch_add(1, Ordering::Relaxed);
        let mut head = guess(&self.arrivals);
        loop {
            store.link().store(head, Ordering::Relaxed);
            // ORDERING: `PARK`. Pairs with `Parked::collect`.
            match self.arrivals.compare_exchange_weak(head, store.as_ptr(), PARK, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Looks at a few parked stores, unless another thread is looking, and returns how many it
    /// freed.
    #[inline]
    pub(crate) fn look(&self) -> usize {
        if self.queued.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.look_within(BRIEF, false)
    }

    /// Looks at all of them.
    pub(crate) fn look_at_all(&self) -> usize {
        let all = Budget { stores: usize::MAX, ended: usize::MAX, guards: usize::MAX };
        self.look_within(all, true)
    }

    #[cold]
    fn look_within(&self, mut budget: Budget, all: bool) -> usize {
        let Some(pass) = self.gate.try_enter() else {
            self.owed.fetch_add(1, Ordering::Relaxed);
            return 0;
        };
        if all {
            while let Some(store) = self.seen.pop() {
                self.old.push(store);
            }
        } else {
            budget = budget.times(1 + self.take_owed());
            if self.old.is_empty() {
                self.old.take(&self.seen);
            }
        }
        let mut freed = 0;
        let mut fresh_first = true;
        while budget.stores != 0 && budget.ended != 0 && budget.guards != 0 {
            let next = if fresh_first {
                self.pop_fresh().or_else(|| self.old.pop())
            } else {
                self.old.pop().or_else(|| self.pop_fresh())
            };
            let Some(store) = next else { break };
            fresh_first = !fresh_first;
            freed += usize::from(self.look_at(store, &mut budget));
        }
        drop(pass);
        freed
    }

    /// How many looks this call has to make up for.
    fn take_owed(&self) -> usize {
        let owed = self.owed.load(Ordering::Relaxed).min(MOST_OWED);
        if owed != 0 {
            // Only threads behind the gate take some off.
            self.owed.fetch_sub(owed, Ordering::Relaxed);
        }
        owed
    }

    /// Looks at a header that was taken out of the lists, and puts it back if its store is still
    /// there. Returns whether it freed the store. Behind the gate.
    fn look_at(&self, store: StorePtr, budget: &mut Budget) -> bool {
        store.listed().touch();
        if !store.hold() {
            budget.ended -= 1;
            self.queued.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: the lists' half of the header, which is in none of them any more.
            unsafe { store.leave_header() };
            return false;
        }
        budget.stores -= 1;
        // SAFETY: behind the gate, and the share is held.
        let found = unsafe { store.find_released(&mut budget.guards) };
        let whole = budget.guards != 0;
        // SAFETY: the share that is held, and those of the releases that were found.
        if unsafe { store.drop_shares(1 + found) } {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: the lists' half of the header; the other half is still there, so this is not
            // the last use.
            unsafe { store.leave_header() };
            // SAFETY: that was the last share.
            unsafe { self.end(store) };
            return true;
        }
        let list = if whole { &self.seen } else { &self.fresh };
        list.push(store);
        false
    }

    fn pop_fresh(&self) -> Option<StorePtr> {
        if self.fresh.is_empty() {
            self.collect();
        }
        self.fresh.pop()
    }

    /// Makes the arrivals the fresh ones, of which there are none.
    fn collect(&self) {
        // ORDERING: `COLLECT`. Pairs with `Parked::push`.
        self.fresh.0.publish(self.arrivals.swap(ptr::null_mut(), COLLECT));
    }
}

/// A list of headers, behind the gate. Each of its steps is one store, after which the list is in
/// order: in the child of a fork, where another thread was inside, headers may be missing from it
/// and none is in it twice.
#[derive(Debug)]
struct Stack(OwnerPtr<Store>);

impl Stack {
    ephemera_prim::const_unless_loom! {
        fn new() -> Self {
            Self(OwnerPtr::null())
        }
    }

    fn is_empty(&self) -> bool {
        self.0.get().is_null()
    }

    fn push(&self, store: StorePtr) {
        store.link().store(self.0.get(), Ordering::Relaxed);
        self.0.publish(store.as_ptr());
    }

    fn pop(&self) -> Option<StorePtr> {
        let first = NonNull::new(self.0.get())?;
        // SAFETY: the lists have a half of each header that is in them, so it is not freed (E2).
        let store = unsafe { StorePtr::from_raw(first) };
        self.0.publish(store.link().load(Ordering::Relaxed));
        Some(store)
    }

    /// Takes all that is in the other list. This one is empty.
    fn take(&self, other: &Self) {
        let first = other.0.get();
        other.0.publish(ptr::null_mut());
        self.0.publish(first);
    }
}
