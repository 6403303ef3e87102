//! Tests of backing allocators that use the pool above them while the pool calls them.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use typed_pool::{Builder, TypedPool};

type Value = [u64; 5];

/// The state of a backing allocator. Each call to the allocator uses the pool above it, unless the
/// call is nested in another one.
#[derive(Default)]
struct Below {
    pool: RefCell<Option<Rc<TypedPool<Value, Reenters>>>>,
    slots: RefCell<Vec<NonNull<Value>>>,
    busy: Cell<bool>,
    calls: Cell<usize>,
    /// The number of the call that unwinds.
    panics_at: Cell<usize>,
}

#[derive(Clone, Default)]
struct Reenters(Rc<Below>);

impl Below {
    fn reenter(&self) {
        let Some(pool) = self.pool.borrow().clone() else { return };
        if self.busy.replace(true) {
            return;
        }
        self.calls.set(self.calls.get() + 1);
        for _ in 0..5 {
            if let Ok(slot) = pool.allocate() {
                // SAFETY: the slot is fresh.
                unsafe { slot.write([self.calls.get() as u64; 5]) };
                self.slots.borrow_mut().push(slot);
            }
        }
        // Some slots stay live until later calls.
        while self.slots.borrow().len() > 7 {
            let slot = self.slots.borrow_mut().swap_remove(1);
            // SAFETY: the slot is a live slot of this pool.
            unsafe { pool.deallocate(slot) };
        }
        if self.calls.get() % 3 == 0 {
            pool.trim();
        }
        self.busy.set(false);
    }
}

// SAFETY: all blocks come from the global heap.
unsafe impl Allocator for Reenters {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.reenter();
        if !self.0.busy.get() && self.0.calls.get() == self.0.panics_at.get() {
            self.0.panics_at.set(usize::MAX);
            std::panic::resume_unwind(alloc::boxed::Box::new("a panic of allocate"));
        }
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.0.reenter();
        // SAFETY: this method has the same contract.
        unsafe { Global.deallocate(block, layout) };
    }
}

fn run(chunk_len: usize, panics_at: usize) {
    let backing = Reenters::default();
    backing.0.panics_at.set(panics_at);
    let pool = Rc::new(Builder::<Value>::new().chunk_len(chunk_len).build_in(backing.clone()));
    *backing.0.pool.borrow_mut() = Some(pool.clone());
    let mut live: Vec<(u64, NonNull<Value>)> = Vec::new();
    for number in 0..if cfg!(miri) { 80 } else { 3_000 } {
        let slot = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| pool.allocate()));
        let Ok(slot) = slot else { continue };
        let slot = slot.expect("memory");
        // SAFETY: the slot is fresh.
        unsafe { slot.write([number; 5]) };
        live.push((number, slot));
        if number % 40 > 20 {
            for _ in 0..2 {
                let (number, slot) = live.swap_remove(number as usize % live.len());
                // SAFETY: the slot is live and has this value.
                assert_eq!(unsafe { slot.read() }, [number; 5]);
                // SAFETY: the slot is live and is freed once.
                unsafe { pool.deallocate(slot) };
                if live.is_empty() {
                    break;
                }
            }
        }
    }
    assert!(backing.0.calls.get() > 3, "the backing allocator rarely used the pool");
    assert_eq!(backing.0.panics_at.get(), usize::MAX);
    let own = backing.0.slots.take();
    assert_eq!(pool.len(), live.len() + own.len());
    backing.0.pool.take();
    for slot in live.into_iter().map(|(_, slot)| slot).chain(own) {
        // SAFETY: the slot is a live slot of this pool and is freed once.
        unsafe { pool.deallocate(slot) };
    }
    pool.trim();
    assert_eq!((pool.len(), pool.stats().bytes_held), (0, 0));
}

#[test]
fn a_backing_allocator_may_use_the_pool_above_it() {
    for chunk_len in [1, 3, 8].into_iter().take(if cfg!(miri) { 1 } else { 3 }) {
        run(chunk_len, usize::MAX);
    }
}

/// A call to `allocate` unwinds here. A test below covers `deallocate`, which must not unwind.
#[test]
fn a_backing_allocator_that_unwinds_loses_nothing() {
    for call in [2, 1, 3].into_iter().take(if cfg!(miri) { 1 } else { 3 }) {
        run(2, call);
    }
}

type Above<T> = Rc<TypedPool<T, Counts<T>>>;

/// The state of a [`Counts`]: the pool above it, the slots that it allocated from that pool, and
/// the bytes of its live blocks.
struct Out<T> {
    pool: RefCell<Option<Above<T>>>,
    slots: RefCell<Vec<NonNull<T>>>,
    held: Cell<usize>,
    peak: Cell<usize>,
}

/// A backing allocator that allocates from the pool above it during each deallocation, and counts
/// the bytes of its live blocks.
struct Counts<T>(Rc<Out<T>>);

// SAFETY: all blocks come from the global heap.
unsafe impl<T> Allocator for Counts<T> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.held.set(self.0.held.get() + layout.size());
        self.0.peak.set(self.0.peak.get().max(self.0.held.get()));
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        let pool = self.0.pool.borrow().clone();
        self.0.slots.borrow_mut().extend(pool.and_then(|pool| pool.allocate().ok()));
        // SAFETY: this method has the same contract.
        unsafe { Global.deallocate(block, layout) };
        self.0.held.set(self.0.held.get() - layout.size());
    }
}

/// Frees the memory of a pool that is at its limit, and checks that the pool never exceeds the
/// limit.
fn check_limit_while_memory_is_freed<T>(limit: usize) {
    let (pool, slots) = (RefCell::new(None), RefCell::new(Vec::new()));
    let out = Rc::new(Out { pool, slots, held: Cell::new(0), peak: Cell::new(0) });
    let backing = Counts(Rc::clone(&out));
    let pool = Rc::new(Builder::<T>::new().chunk_len(1).limit(limit).build_in(backing));
    *out.pool.borrow_mut() = Some(Rc::clone(&pool));
    let slot = pool.allocate().expect("room for one slot");
    assert!(pool.allocate().is_err());
    // SAFETY: the slot is a live slot of this pool.
    unsafe { pool.deallocate(slot) };
    pool.trim();
    out.pool.take();
    for slot in out.slots.take() {
        // SAFETY: the slot is a live slot of this pool.
        unsafe { pool.deallocate(slot) };
    }
    assert!(out.peak.get() <= limit, "{} bytes of {limit}", out.peak.get());
    assert_eq!((pool.stats().bytes_held, out.held.get()), (0, 0));
}

#[test]
fn the_limit_holds_while_memory_is_freed() {
    // The limits leave room for one unit of one slot, and for one value without a unit.
    check_limit_while_memory_is_freed::<Value>(128 + size_of::<Value>());
    check_limit_while_memory_is_freed::<[u8; 40_000]>(40_000);
}

/// A backing allocator whose `deallocate` frees the block and then unwinds, against its contract.
#[derive(Default)]
struct Unwinds(Cell<bool>);

// SAFETY: all blocks come from the global heap.
unsafe impl Allocator for &Unwinds {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this method has the same contract.
        unsafe { Global.deallocate(block, layout) };
        if self.0.get() {
            std::panic::resume_unwind(alloc::boxed::Box::new("a panic of deallocate"));
        }
    }
}

#[test]
fn a_panic_of_deallocate_leaves_values_and_accounts_correct() {
    let backing = Unwinds::default();
    let pool = Builder::<Value>::new().chunk_len(1).build_in(&backing);
    let mut values: Vec<_> = (0..20).map(|number| Some(pool.alloc([number; 5]))).collect();
    let each = pool.stats().bytes_held / 20;
    backing.0.set(true);
    let mut panics = 0;
    for value in &mut values[..10] {
        let caught = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| *value = None));
        panics += usize::from(caught.is_err());
    }
    assert!(panics >= 5, "{panics}");
    backing.0.set(false);
    assert_eq!((pool.len(), pool.stats().bytes_held), (10, (20 - panics) * each));
    for (number, value) in values.iter().enumerate().skip(10) {
        assert_eq!(value.as_deref(), Some(&[number as u64; 5]));
    }
    drop(values);
    pool.trim();
    assert_eq!(pool.stats().bytes_held, 0);
    // The account of blocks without units is correct too.
    let large = TypedPool::<[u8; 40_000], _>::new_in(&backing);
    let value = large.alloc([7; 40_000]);
    backing.0.set(true);
    assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| drop(value))).is_err());
    backing.0.set(false);
    assert_eq!((large.len(), large.stats().bytes_held, large.stats().large_blocks), (0, 0, 0));
}
