//! Park and sweep: a pool that is dropped while slots are out is freed once, by some sweep, and not touched after that.

use core::ptr::{self, NonNull};

use loom::cell::UnsafeCell;
use loom::thread;

use super::memory::Kept;
use super::{explore, explore_within};
use crate::foreign::{Foreign, Inbox, Unit};
use crate::park::{Closed, Effort, Lot, Park};
use crate::sync::{AtomicPtr, Ordering};
use crate::witness::Witness;
use crate::word::OwnerU64;

/// The slots of a page, all home.
const ALL: u64 = 0b11;

/// The one page of a pool.
struct Page {
    foreign: Foreign<Page>,
    /// Slots that came home by their owner.
    local: OwnerU64,
    slots: [UnsafeCell<u32>; 2],
}

// SAFETY: the address of one field, for as long as the page is there.
unsafe impl Unit for Page {
    unsafe fn foreign(unit: NonNull<Self>) -> NonNull<Foreign<Self>> {
        // SAFETY: the caller's page is alive; no reference is made.
        let field = unsafe { &raw mut (*unit.as_ptr()).foreign };
        // SAFETY: a field of what a non-null pointer points at.
        unsafe { NonNull::new_unchecked(field) }
    }
}

struct Pool {
    page: Page,
    inbox: Inbox<Page>,
    closed: Closed,
    /// What the drop of the pool leaves for the frees to come.
    note: UnsafeCell<u32>,
    link: AtomicPtr<Pool>,
    /// What sweeps took, beside the words that owners write (P2). Behind the gate.
    gathered: UnsafeCell<u64>,
    witness: Witness,
}

// SAFETY: the address of one field; the sweep says whether it freed the pool, and a model's pool is fit for any thread.
unsafe impl Park for Pool {
    unsafe fn link(pool: NonNull<Self>) -> NonNull<AtomicPtr<Self>> {
        // SAFETY: the caller's pool is alive; no reference is made.
        let field = unsafe { &raw mut (*pool.as_ptr()).link };
        // SAFETY: a field of what a non-null pointer points at.
        unsafe { NonNull::new_unchecked(field) }
    }

    unsafe fn sweep(pool: NonNull<Self>) -> bool {
        // SAFETY: the memory of a model's pool outlasts it.
        let pool = unsafe { pool.as_ref() };
        pool.witness.touch();
        let mut given = 0;
        // SAFETY: behind the gate (P1).
        for (_, bits) in unsafe { pool.inbox.take() } {
            given |= bits;
        }
        if cfg!(ephemera_weaken = "sweep_without_dequeue") {
            given |= pool.page.foreign.steal();
        }
        let gathered = pool.gathered.with_mut(|gathered| {
            // SAFETY: loom reports the race before this access.
            let gathered = unsafe { &mut *gathered };
            *gathered |= given;
            *gathered
        });
        let home = pool.page.local.observe() | gathered;
        if home == ALL {
            pool.free();
        }
        home == ALL
    }
}

impl Pool {
    /// A pool with some of its slots at home.
    fn new(local: u64) -> Self {
        Self {
            page: Page {
                foreign: Foreign::new(),
                local: OwnerU64::new(local),
                slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
            },
            inbox: Inbox::new(),
            closed: Closed::new(),
            note: UnsafeCell::new(0),
            link: AtomicPtr::new(ptr::null_mut()),
            gathered: UnsafeCell::new(0),
            witness: Witness::new(),
        }
    }

    fn use_slot(&self, index: usize) {
        // SAFETY: loom reports the race before this write.
        self.page.slots[index].with_mut(|slot| unsafe { *slot += 1 });
    }

    fn free(&self) {
        self.page.foreign.end();
        self.use_slot(0);
        self.use_slot(1);
        self.witness.end();
    }

    /// The drop of the pool.
    fn close(this: &Kept<Self>, lot: &Lot<Self>) -> usize {
        let pool = this.get();
        pool.witness.touch();
        // SAFETY: loom reports the race before this write.
        pool.note.with_mut(|note| unsafe { *note = 1 });
        pool.closed.set();
        if cfg!(ephemera_weaken = "close_without_park") {
            // SAFETY: the memory of a model's pool outlasts it; that nobody stands before a gate is the point.
            return usize::from(unsafe { Self::sweep(this.pointer()) });
        }
        // SAFETY: alive, since slots of it are out or this is the first that closes it, and closed.
        unsafe { lot.park(this.pointer()) };
        lot.sweep(Effort::Full)
    }

    /// The first half of a free: reads `closed` before the last touch (P4).
    fn before_free(&self, index: usize) -> bool {
        self.witness.touch();
        self.use_slot(index);
        let closed = self.closed.get();
        if closed {
            // SAFETY: loom reports the race before this read.
            assert_eq!(self.note.with(|note| unsafe { *note }), 1);
        }
        closed
    }

    /// The other half: after it the pool may be gone.
    fn after_free(this: &Kept<Self>, lot: &Lot<Self>, closed: bool) -> usize {
        if !closed {
            return 0;
        }
        if cfg!(ephemera_weaken = "close_without_park") {
            // SAFETY: as in `close`.
            return usize::from(unsafe { Self::sweep(this.pointer()) });
        }
        lot.sweep(Effort::Passing)
    }

    /// Slot 0 is freed by a thread that does not own the page. Returns how many pools were freed behind it.
    fn foreign_free(this: &Kept<Self>, lot: &Lot<Self>) -> usize {
        let closed = this.get().before_free(0);
        // SAFETY: the page lies where the pool does.
        let page = NonNull::from(&this.get().page);
        // SAFETY: the slot was this thread's.
        unsafe { this.get().inbox.give_back_bits(page, 0b01) };
        Self::after_free(this, lot, closed)
    }

    /// Slot 1 is freed by the owner of the page, by load and store.
    fn home_free(this: &Kept<Self>, lot: &Lot<Self>) -> usize {
        let closed = this.get().before_free(1);
        let local = &this.get().page.local;
        local.publish(local.get() | 0b10);
        Self::after_free(this, lot, closed)
    }
}

/// The pool is dropped while one slot is freed by its owner and one by another thread.
#[test]
fn loom_park_frees_a_pool_once_its_slots_are_home() {
    explore_within(3, || {
        let (pool, lot) = (Kept::new(Pool::new(0)), Kept::new(Lot::new()));
        let (theirs, there) = (pool.clone(), lot.clone());
        let foreign = thread::spawn(move || Pool::foreign_free(&theirs, there.get()));
        let (theirs, there) = (pool.clone(), lot.clone());
        let closer = thread::spawn(move || Pool::close(&theirs, there.get()));
        let mut freed = Pool::home_free(&pool, lot.get());
        freed += foreign.join().unwrap();
        freed += closer.join().unwrap();
        freed += lot.get().sweep(Effort::Full);
        assert_eq!(freed, 1, "the pool was freed {freed} times");
        assert_eq!(lot.get().count(), 0);
        assert_eq!(lot.get().sweep(Effort::Full), 0);
    });
}

/// The page's owner gives back by a plain store while another thread drops the pool and sweeps.
#[test]
fn loom_park_against_a_plain_store() {
    explore(|| {
        let (pool, lot) = (Kept::new(Pool::new(0b01)), Kept::new(Lot::new()));
        let (theirs, there) = (pool.clone(), lot.clone());
        let closer = thread::spawn(move || Pool::close(&theirs, there.get()));
        let mut freed = Pool::home_free(&pool, lot.get());
        freed += closer.join().unwrap();
        freed += lot.get().sweep(Effort::Full);
        assert_eq!(freed, 1, "the pool was freed {freed} times");
    });
}

/// Two pools are parked at once, while a slot of the first comes home: none is lost from the lists, or swept twice.
#[test]
fn loom_park_keeps_each_pool_in_one_list() {
    explore_within(3, || {
        let pools = [Kept::new(Pool::new(0b10)), Kept::new(Pool::new(ALL))];
        let lot = Kept::new(Lot::new());
        let closers = pools.clone().map(|pool| {
            let lot = lot.clone();
            thread::spawn(move || Pool::close(&pool, lot.get()))
        });
        let mut freed = Pool::foreign_free(&pools[0], lot.get());
        for closer in closers {
            freed += closer.join().unwrap();
        }
        freed += lot.get().sweep(Effort::Full);
        assert_eq!(freed, 2, "{freed} pools of two were freed");
        assert_eq!(lot.get().count(), 0);
    });
}

/// A pool that stays for one sweep is found by the next, whoever does it.
#[test]
fn loom_park_passes_what_stays_to_the_next_sweep() {
    explore_within(4, || {
        let (pool, lot) = (Kept::new(Pool::new(0b10)), Kept::new(Lot::new()));
        assert_eq!(Pool::close(&pool, lot.get()), 0);
        assert!(pool.get().link.load(Ordering::Relaxed).is_null());
        let sweepers = [0, 1].map(|_| {
            let lot = lot.clone();
            thread::spawn(move || lot.get().sweep(Effort::Full))
        });
        let mut freed = Pool::foreign_free(&pool, lot.get());
        for sweeper in sweepers {
            freed += sweeper.join().unwrap();
        }
        freed += lot.get().sweep(Effort::Full);
        assert_eq!(freed, 1, "the pool was freed {freed} times");
    });
}
