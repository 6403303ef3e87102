//! Models of the pool of heaps: scopes end, and other scopes take their heaps. Each item has two
//! witnesses, which its users write. Loom reports a second user of an item, and a user that does
//! not see the work of the previous user.

use loom::cell::UnsafeCell;
use loom::thread;
use std_alloc::boxed::Box;

use super::super::unused::{ListedItem, Listing, UnusedList, UnusedPlace, Users};
use super::check;

struct ModelHeaps {
    listing: Listing<ModelHeaps>,
    users: Users,
    work: [UnsafeCell<u32>; 2],
}

// SAFETY: loom runs all threads of a model on one OS thread, and reports unordered accesses to its
// cells.
unsafe impl Sync for ModelHeaps {}

impl ListedItem for ModelHeaps {
    fn listing(&self) -> &Listing<Self> {
        &self.listing
    }
}

/// The pool of one run of a model: a list and a place.
struct ModelPool {
    list: UnusedList<ModelHeaps>,
    place: UnusedPlace<ModelHeaps>,
}

impl ModelHeaps {
    /// Writes a witness, as one thread in the scope writes to the heaps.
    fn work(&self, which: usize) {
        // SAFETY: loom reports a race before this write.
        self.work[which].with_mut(|count| unsafe { *count += 1 });
    }

    /// Writes all witnesses, as the only user.
    fn work_alone(&self) {
        self.work(0);
        self.work(1);
    }
}

/// Runs a model with a pool and two items, and frees the pool and the items at the end.
fn with_pool(model: impl Fn(&'static ModelPool, [&'static ModelHeaps; 2]) + Sync + Send + 'static) {
    check(move || {
        let pool = Box::into_raw(Box::new(ModelPool { list: UnusedList::new(), place: UnusedPlace::new() }));
        let items = [(); 2].map(|()| {
            let work = [UnsafeCell::new(0), UnsafeCell::new(0)];
            Box::into_raw(Box::new(ModelHeaps { listing: Listing::new(), users: Users::new(), work }))
        });
        // SAFETY: the pool is freed below, after all threads of the model were joined.
        let there = unsafe { &*pool };
        // SAFETY: the items are freed below, after all threads of the model were joined.
        model(there, items.map(|item| unsafe { &*item }));
        // SAFETY: the box was leaked above, and nothing uses the model's references any more.
        drop(unsafe { Box::from_raw(pool) });
        for item in items {
            // SAFETY: the box was leaked above, and nothing uses the model's references any more.
            drop(unsafe { Box::from_raw(item) });
        }
    });
}

/// Each of two threads ends a scope and starts another one.
#[test]
fn loom_heaps_of_ended_scopes_have_one_user_each() {
    with_pool(|pool, [first, second]| {
        first.work_alone();
        pool.list.put(first);
        let other = thread::spawn(move || {
            second.work_alone();
            pool.list.put(second);
            if let Some(item) = pool.list.take() {
                item.work_alone();
                pool.list.put(item);
            }
        });
        if let Some(item) = pool.list.take() {
            item.work_alone();
            pool.list.put(item);
        }
        other.join().unwrap();
        let rest = [pool.list.take(), pool.list.take()].map(|item| item.expect("both are unused"));
        assert!(!core::ptr::eq(rest[0], rest[1]));
        rest.into_iter().for_each(ModelHeaps::work_alone);
        assert!(pool.list.take().is_none());
    });
}

/// A thread takes an item without the gate and puts it back, while the thread at the gate takes
/// items.
#[test]
fn loom_heaps_that_are_taken_beside_the_gate_have_one_user_each() {
    with_pool(|pool, [first, second]| {
        pool.list.put(first);
        pool.list.put(second);
        let pass = pool.list.gate.enter().expect("the gate is open");
        let other = thread::spawn(move || {
            if let Some(item) = pool.list.take_beside_gate() {
                item.work_alone();
                pool.list.put(item);
            }
        });
        let item = pool.list.take_at_gate(&pass).expect("one of two items is unused");
        item.work_alone();
        other.join().unwrap();
        let rest = pool.list.take_at_gate(&pass).expect("the other one is unused");
        assert!(!core::ptr::eq(item, rest));
        rest.work_alone();
        assert!(pool.list.take_at_gate(&pass).is_none());
    });
}

/// Two threads try to take the only item without the gate.
#[test]
fn loom_heaps_are_taken_by_one_thread_after_the_other() {
    with_pool(|pool, [item, _]| {
        pool.list.put(item);
        let visit = move || {
            if let Some(item) = pool.list.take_beside_gate() {
                item.work_alone();
                pool.list.put(item);
            }
        };
        let other = thread::spawn(visit);
        visit();
        other.join().unwrap();
        assert!(pool.list.take_beside_gate().is_some());
    });
}

/// A scope ends on one thread and puts its heaps into a place. The next scope takes the heaps from
/// the place.
#[test]
fn loom_heaps_in_a_place_are_seen_complete() {
    with_pool(|pool, [first, second]| {
        let other = thread::spawn(move || {
            first.work_alone();
            if !pool.place.put(first) {
                pool.list.put(first);
            }
        });
        if let Some(item) = pool.place.take() {
            item.work_alone();
            assert!(pool.place.put(item), "the other thread puts one item");
        }
        second.work_alone();
        if !pool.place.put(second) {
            pool.list.put(second);
        }
        other.join().unwrap();
        let (item, rest) = (pool.place.take().expect("one"), pool.list.take().expect("the other"));
        assert!(!core::ptr::eq(item, rest));
        item.work_alone();
        rest.work_alone();
    });
}

/// Two threads leave a scope. The last thread ends the scope, and the next scope sees the work of
/// both threads.
#[test]
fn loom_the_last_user_of_a_scope_sees_the_work_of_the_others() {
    with_pool(|pool, [item, _]| {
        item.users.set(1);
        item.users.add();
        let leave = move |which| {
            item.work(which);
            if item.users.remove() {
                item.work_alone();
                pool.list.put(item);
            }
        };
        let other = thread::spawn(move || leave(0));
        leave(1);
        if let Some(next) = pool.list.take() {
            next.work_alone();
        }
        other.join().unwrap();
    });
}
