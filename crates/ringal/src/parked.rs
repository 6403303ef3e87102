//! Keeps the parked stores: the stores of dropped rings that have live buffers or wait for a sweep.
//!
//! The drop of the ring counts the taken regions, and each later release subtracts one share from
//! that count (see `end`). The last release frees the store without a list or a lock.
//!
//! An *early release* does not subtract its share. It read `closed` before the drop of the ring set
//! the flag, and stored its word after the drop had counted its region. The share stays until a
//! *sweep* finds the word. A thread runs one release at a time, so each drop of a ring leaves at
//! most one share of this kind for each thread.
//!
//! Every creation and drop of a ring on the heap runs a sweep, and so does every release that frees
//! a store. A sweep alternates between stores that no sweep has finished yet and the other stores,
//! up to the limits in [`BRIEF`], or a multiple of them if sweeps were skipped.
//!
//! The header of a parked store stays in one of the lists below until a sweep frees the store or
//! finds that it was freed. A gate admits one sweep at a time. A thread that finds the gate shut
//! skips its sweep. The thread that opens the gate then sweeps once more, to make up for skipped
//! sweeps. If a thread skips a sweep during this further sweep, a later call makes up for the
//! skipped one.
//!
//! In the child of a fork, a store may stay allocated if another thread of the parent was dropping
//! the store's ring, sweeping the store, or releasing one of its buffers. The share of that thread
//! stays in the store's count. A header that the other thread was sweeping is not in any list. The
//! last buffer of every other store frees the store.

use core::ptr::{self, NonNull};

#[cfg(not(ephemera_loom))]
use crossbeam_utils::CachePadded;
use ephemera_prim::gate::{Gate, Pass};
use ephemera_prim::sync::{AtomicPtr, AtomicUsize, Ordering, fence, push};
use ephemera_prim::word::OwnerPtr;

use crate::store::{RingStore, RingStorePtr};

// ORDERING: Release. Pairs with the Acquire in `ParkedStores::pop_fresh`. Publishes: the header,
// its link, and the fields that the drop of the ring wrote.
ordering!(park_order = Release, Relaxed if "park_relaxed");
// ORDERING: Acquire. Pairs with the Release in `ParkedStores::push`. Sees: the headers, their
// links, and the fields that the drops of their rings wrote.
ordering!(collect_order = Acquire, Relaxed if "collect_relaxed");

/// The bounds on the work of one sweep.
#[derive(Debug, Clone, Copy)]
struct Budget {
    /// The maximum number of stores to visit that still have shares.
    stores: usize,
    /// The maximum number of headers to take out of the lists because their stores have no shares.
    ended: usize,
    /// The maximum number of guards to load in all stores together.
    guards: usize,
}

/// The budget of an ordinary sweep.
const BRIEF: Budget = Budget { stores: 8, ended: 64, guards: 1024 };

/// The budget of a sweep of all stores.
const UNLIMITED: Budget = Budget { stores: usize::MAX, ended: usize::MAX, guards: usize::MAX };

/// The maximum number of skipped sweeps that one sweep makes up for.
const MOST_OWED: usize = 15;

impl Budget {
    const fn times(self, count: usize) -> Self {
        Self { stores: self.stores * count, ended: self.ended * count, guards: self.guards * count }
    }
}

/// The parked stores of a process, or of one test.
#[derive(Debug)]
pub(crate) struct ParkedStores {
    /// Stores that were parked since a sweep last took this list. Any thread pushes to the list,
    /// and the thread that holds the gate takes all stores from it.
    arrivals: AtomicPtr<RingStore>,
    gate: Gate,
    /// Stores taken from `arrivals`, and stores in which a sweep reached its limit of guards.
    fresh: Stack,
    /// The other stores that this round of sweeps has not visited yet.
    old: Stack,
    /// The stores in which a sweep of this round has reached a taken region or the end.
    seen: Stack,
    /// The number of headers in all four lists.
    queued: AtomicUsize,
    /// The number of skipped sweeps that no later sweep has made up for.
    owed: AtomicUsize,
    /// The number of parked stores that are not freed yet.
    count: AtomicUsize,
}

/// The parked stores of this process. The drop of a ring may write these fields, so the padding
/// keeps them off the cache line of the static header, which buffers in caller-provided memory
/// read.
#[cfg(not(ephemera_loom))]
pub(crate) static PARKED: CachePadded<ParkedStores> = CachePadded::new(ParkedStores::new());

impl ParkedStores {
    ephemera_prim::const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self {
                arrivals: AtomicPtr::new(ptr::null_mut()),
                gate: Gate::new(),
                fresh: Stack(OwnerPtr::null()),
                old: Stack(OwnerPtr::null()),
                seen: Stack(OwnerPtr::null()),
                queued: AtomicUsize::new(0),
                owed: AtomicUsize::new(0),
                count: AtomicUsize::new(0),
            }
        }
    }

    /// Returns the untyped address of these lists, which stores keep in their headers.
    pub(crate) fn as_ptr(&self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// Returns the lists in which a store on the heap is parked after its ring is dropped.
    pub(crate) fn of(store: &RingStorePtr) -> &Self {
        // SAFETY: the caller of `RingStorePtr::create` guarantees that these lists outlive the
        // store. The address is null only for caller-provided memory. A store there is never closed
        // or retired, so no code calls this function for it.
        unsafe { &*store.parked().cast() }
    }

    /// Returns how many parked stores are not freed yet.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Parks a store in which the drop of its ring counted `held` regions. Never blocks.
    ///
    /// # Safety
    /// [`RingStorePtr::close`] returned `held`, which is not zero, and this is called once for the
    /// store.
    pub(crate) unsafe fn park(&self, store: RingStorePtr, held: usize) {
        self.count.fetch_add(1, Ordering::Relaxed);
        // The additional share keeps the store until this function returns. Late releases may have
        // subtracted their shares already. The count has then wrapped below zero, and this addition
        // wraps it back.
        store.shares().fetch_add(held + 1, Ordering::Relaxed);
        // Sweep before the push, so that a later call is the first to sweep this store. By then,
        // the releases in progress have likely finished.
        self.sweep();
        self.push(store);
        // SAFETY: this function added the share above. It uses the regions below only if
        // `drop_shares` returns `true`.
        if unsafe { store.drop_shares(1) } {
            // SAFETY: `drop_shares` subtracted the last share.
            unsafe { self.end(store) };
        }
    }

    /// Frees the regions of a store that has no shares left. Also frees the header, unless the
    /// header is still in a list.
    ///
    /// # Safety
    /// [`RingStorePtr::drop_shares`] returned `true` to the caller.
    pub(crate) unsafe fn end(&self, store: RingStorePtr) {
        // SAFETY: no share is left, so no other code uses the regions (E1).
        unsafe { store.free_regions() };
        // SAFETY: the caller subtracted the last share, so it owns the shares' half of the header
        // (E2). No code below uses the header.
        unsafe { store.leave_header() };
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of headers in the lists, including headers of stores without shares.
    #[cfg(all(test, feature = "std", not(any(ephemera_loom, miri))))]
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Calls `during` while the gate is shut, as if another thread were sweeping.
    #[cfg(all(test, feature = "std", not(any(ephemera_loom, miri))))]
    pub(crate) fn shut<T>(&self, during: impl FnOnce() -> T) -> T {
        let pass = self.gate.try_enter().expect("one thread uses the lists of a test");
        let result = during();
        self.open(pass);
        result
    }

    fn push(&self, store: RingStorePtr) {
        store.listed().write();
        self.queued.fetch_add(1, Ordering::Relaxed);
        let link = |below| store.link().store(below, Ordering::Relaxed);
        // ORDERING: `park_order`. Pairs with `ParkedStores::pop_fresh`.
        push(&self.arrivals, store.as_ptr(), None, park_order(), link);
    }

    /// Sweeps up to 8 parked stores, or more if sweeps were skipped, unless another thread is
    /// sweeping. Returns the number of stores that this call freed.
    #[inline]
    pub(crate) fn sweep(&self) -> usize {
        if self.queued.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.enter_and_sweep(false)
    }

    /// Sweeps all parked stores, unless another thread is sweeping. Returns the number of stores
    /// that this call freed.
    pub(crate) fn sweep_all(&self) -> usize {
        self.enter_and_sweep(true)
    }

    #[cold]
    fn enter_and_sweep(&self, all: bool) -> usize {
        let Some(pass) = self.gate.try_enter().or_else(|| self.owe()) else { return 0 };
        let freed = self.sweep_inside(all);
        freed + self.open(pass)
    }

    /// Counts a sweep that this thread skips because the gate is shut. Returns a pass if the gate
    /// has opened since.
    fn owe(&self) -> Option<Pass<'_>> {
        // ORDERING: Release. Pairs with the Acquire in `ParkedStores::take_owed`. Publishes: the
        // words of releases that ended before this call.
        self.owed.fetch_add(1, Ordering::Release);
        // ORDERING: SeqCst fence. Pairs with the one in `ParkedStores::open`: either this thread
        // finds the gate open, or the thread that opens it sees the count.
        fence(Ordering::SeqCst);
        self.gate.try_enter()
    }

    /// Opens the gate. If skipped sweeps remain to be made up for, sweeps once more, unless another
    /// thread has entered the gate. Returns the number of stores that the further sweep freed.
    fn open(&self, pass: Pass<'_>) -> usize {
        drop(pass);
        // ORDERING: SeqCst fence. Pairs with the one in `ParkedStores::owe`: either this thread
        // sees the count, or the thread that skips its sweep finds the gate open.
        fence(Ordering::SeqCst);
        if self.owed.load(Ordering::Relaxed) == 0 || weakened!("skipped_sweep_waits") {
            return 0;
        }
        // If another thread has entered since, that thread makes up for the skipped sweeps.
        let Some(_pass) = self.gate.try_enter() else { return 0 };
        self.sweep_inside(false)
    }

    /// Sweeps all parked stores if `all` is true. Otherwise sweeps within [`BRIEF`], or a multiple
    /// of it to make up for skipped sweeps. Returns the number of stores that this call freed. The
    /// caller must hold the gate.
    fn sweep_inside(&self, all: bool) -> usize {
        let mut budget = if all { UNLIMITED } else { BRIEF.times(1 + self.take_owed()) };
        if all {
            while let Some(store) = self.seen.pop() {
                self.old.push(store);
            }
        } else if self.old.is_empty() {
            self.old.take(&self.seen);
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
            freed += usize::from(self.sweep_store(store, &mut budget));
        }
        freed
    }

    /// Subtracts from `owed` the skipped sweeps that this sweep makes up for, and returns their
    /// number.
    fn take_owed(&self) -> usize {
        // ORDERING: Acquire. Pairs with the Release in `ParkedStores::owe`. Sees: the words of
        // releases that ended before the skipped sweeps.
        let owed = self.owed.load(Ordering::Acquire).min(MOST_OWED);
        if owed != 0 {
            // Only the thread that holds the gate subtracts, so the subtraction cannot wrap.
            self.owed.fetch_sub(owed, Ordering::Relaxed);
        }
        owed
    }

    /// Sweeps one store after its header was popped. Pushes the header again if the store still has
    /// shares. Returns whether this call freed the store. The caller must hold the gate.
    fn sweep_store(&self, store: RingStorePtr, budget: &mut Budget) -> bool {
        store.listed().touch();
        let held = store.hold();
        if held {
            budget.stores -= 1;
            // SAFETY: the caller holds the gate, and `hold` added a share.
            let found = unsafe { store.find_released(&mut budget.guards) };
            // SAFETY: `hold` added one share, and the `found` early releases left their shares to
            // the sweep (E1). After `drop_shares`, this call uses the regions only if the result is
            // `true`.
            if !unsafe { store.drop_shares(1 + found) } {
                let list = if budget.guards != 0 { &self.seen } else { &self.fresh };
                list.push(store);
                return false;
            }
        } else {
            budget.ended -= 1;
        }
        self.queued.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the header was popped from its list, so the lists' half of the header belongs to
        // this call (E2). If `held`, this call owns the other half too, so the header stays.
        unsafe { store.leave_header() };
        if held {
            // SAFETY: `drop_shares` subtracted the last share.
            unsafe { self.end(store) };
        }
        held
    }

    /// Pops a header from `fresh`. If `fresh` is empty, first moves all arrivals there.
    fn pop_fresh(&self) -> Option<RingStorePtr> {
        if self.fresh.is_empty() {
            // ORDERING: `collect_order`. Pairs with `ParkedStores::push`.
            self.fresh.0.publish(self.arrivals.swap(ptr::null_mut(), collect_order()));
        }
        self.fresh.pop()
    }
}

/// A list of headers that only the thread that holds the gate uses. The list is valid after each
/// single write, so in the child of a fork the lists may lack headers, but never contain a header
/// twice.
#[derive(Debug)]
struct Stack(OwnerPtr<RingStore>);

impl Stack {
    fn is_empty(&self) -> bool {
        self.0.get().is_null()
    }

    fn push(&self, store: RingStorePtr) {
        store.link().store(self.0.get(), Ordering::Relaxed);
        self.0.publish(store.as_ptr());
    }

    fn pop(&self) -> Option<RingStorePtr> {
        let first = NonNull::new(self.0.get())?;
        // SAFETY: the lists own one half of each header that they contain, so the header is not
        // freed (E2).
        let store = unsafe { RingStorePtr::from_raw(first) };
        self.0.publish(store.link().load(Ordering::Relaxed));
        Some(store)
    }

    /// Moves all headers from `other` to this list, which must be empty.
    fn take(&self, other: &Self) {
        let first = other.0.get();
        other.0.publish(ptr::null_mut());
        self.0.publish(first);
    }
}
