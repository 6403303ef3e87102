//! Tests handle operations that the published crate does not have.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/tally.rs"]
mod tally;

use core::borrow::{Borrow, BorrowMut};
use core::cell::Cell;
use core::pin::Pin;
use std::collections::HashSet;

use shared_arena::{Arena, ArenaArc, ArenaBox, ArenaRc, Pool, PoolBox, SharedArena, Weak};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use tally::{Counted, Tally};

type NotSync = Cell<u8>;
type NotSend = std::sync::MutexGuard<'static, u8>;
type Neither = alloc::rc::Rc<u8>;

assert_impl_all!(ArenaBox<u8>: Send, Sync, Unpin, core::panic::UnwindSafe, core::panic::RefUnwindSafe);
assert_impl_all!(ArenaBox<NotSync>: Send);
assert_not_impl_any!(ArenaBox<NotSync>: Sync);
assert_impl_all!(ArenaBox<NotSend>: Sync);
assert_not_impl_any!(ArenaBox<NotSend>: Send);
assert_not_impl_any!(ArenaBox<Neither>: Send, Sync);
assert_impl_all!(ArenaArc<u8>: Send, Sync, Unpin, Clone);
assert_not_impl_any!(ArenaArc<NotSync>: Send, Sync);
assert_not_impl_any!(ArenaArc<NotSend>: Send, Sync);
assert_impl_all!(Weak<u8>: Send, Sync, Clone);
assert_not_impl_any!(Weak<NotSync>: Send, Sync);
assert_not_impl_any!(Weak<NotSend>: Send, Sync);
assert_not_impl_any!(ArenaRc<u8>: Send, Sync);
assert_not_impl_any!(PoolBox<u8>: Send, Sync, Clone);
assert_not_impl_any!(Pool<u8>: Send, Sync);
assert_impl_all!(SharedArena<Neither>: Send, Sync);
assert_impl_all!(Arena<Neither>: Send);
assert_not_impl_any!(Arena<u8>: Sync);
assert_impl_all!(SharedArena<u8>: core::panic::UnwindSafe, core::panic::RefUnwindSafe, Default, core::fmt::Debug);
assert_impl_all!(Pool<u8>: core::panic::UnwindSafe);
assert_not_impl_any!(ArenaBox<u8>: Clone, Copy);
assert_impl_all!(PoolBox<u8>: Unpin, core::panic::UnwindSafe, core::panic::RefUnwindSafe);
assert_impl_all!(ArenaArc<u8>: core::panic::UnwindSafe, core::panic::RefUnwindSafe);
assert_impl_all!(ArenaRc<u8>: Unpin, core::panic::UnwindSafe, core::panic::RefUnwindSafe);
assert_not_impl_any!(ArenaBox<NotSync>: core::panic::RefUnwindSafe);
assert_not_impl_any!(ArenaArc<NotSync>: core::panic::UnwindSafe, core::panic::RefUnwindSafe);
assert_not_impl_any!(ArenaRc<NotSync>: core::panic::UnwindSafe, core::panic::RefUnwindSafe);

#[test]
fn boxes_return_their_values() {
    let tally = Tally::default();
    let (arena, pool) = (SharedArena::new(), Pool::new());
    let (one, two) = (arena.alloc(tally.value(1)), pool.alloc(tally.value(2)));
    let (one, two): (Counted, Counted) = (ArenaBox::into_inner(one), PoolBox::into_inner(two));
    assert_eq!((one.number(), two.number(), tally.alive()), (1, 2, 2));
    assert_eq!((arena.stats().0, pool.stats().0), (0, 0));
}

#[test]
fn boxes_round_trip_through_raw_pointers() {
    let tally = Tally::default();
    let (arena, pool) = (SharedArena::new(), Pool::new());
    let raw = ArenaBox::into_raw(arena.alloc(tally.value(1)));
    assert_eq!((tally.alive(), arena.stats().0), (1, 1));
    // SAFETY: `into_raw` returned the pointer, and this is its only `from_raw`.
    let again = unsafe { ArenaBox::from_raw(raw) };
    assert_eq!(again.number(), 1);
    let raw = PoolBox::into_raw(pool.alloc(tally.value(2)));
    // SAFETY: `into_raw` returned the pointer, and this is its only `from_raw`.
    drop(unsafe { PoolBox::from_raw(raw) });
    drop(again);
    assert_eq!((tally.alive(), arena.stats().0, pool.stats().0), (0, 0, 0));
}

#[test]
fn counted_handles_round_trip_through_raw_pointers() {
    let tally = Tally::default();
    let arena = SharedArena::new();
    let (arc, rc) = (arena.alloc_arc(tally.value(1)), arena.alloc_rc(tally.value(2)));
    let weak = ArenaArc::downgrade(&arc);
    let (arc, rc, weak) = (ArenaArc::into_raw(arc), ArenaRc::into_raw(rc), weak.into_raw());
    assert_eq!(tally.alive(), 2);
    // SAFETY: `into_raw` returned the pointer, and this is its only `from_raw`.
    let arc = unsafe { ArenaArc::from_raw(arc) };
    // SAFETY: `into_raw` returned the pointer, and this is its only `from_raw`.
    let rc = unsafe { ArenaRc::from_raw(rc) };
    // SAFETY: `into_raw` returned the pointer, and this is its only `from_raw`.
    let weak = unsafe { Weak::from_raw(weak) };
    assert_eq!((arc.number(), rc.number(), weak.strong_count()), (1, 2, 1));
    drop((arc, rc));
    assert!(weak.upgrade().is_none());
    assert_eq!((tally.alive(), arena.stats().0), (0, 1), "a weak handle keeps its slot");
    drop(weak);
    assert_eq!(arena.stats().0, 0);
}

#[test]
fn only_an_unshared_arc_is_mutable_or_unwraps() {
    let tally = Tally::default();
    let arena = Arena::new();
    let mut arc = arena.alloc_arc(tally.value(5));
    assert!(ArenaArc::get_mut(&mut arc).is_some());
    let other = arc.clone();
    assert!(ArenaArc::ptr_eq(&arc, &other) && ArenaArc::strong_count(&arc) == 2);
    assert!(ArenaArc::get_mut(&mut arc).is_none());
    let arc = ArenaArc::try_unwrap(arc).unwrap_err();
    drop(other);
    let weak = ArenaArc::downgrade(&arc);
    assert_eq!((ArenaArc::weak_count(&arc), weak.strong_count()), (1, 1));
    let up = weak.upgrade().unwrap();
    assert!(ArenaArc::ptr_eq(&up, &arc) && weak.ptr_eq(&ArenaArc::downgrade(&arc)));
    drop(arc);
    let value = ArenaArc::try_unwrap(up).unwrap();
    assert_eq!((value.number(), tally.alive()), (5, 1));
    assert!(weak.upgrade().is_none() && weak.clone().strong_count() == 0);
    assert_eq!(format!("{weak:?}"), "(Weak)");
    drop(weak);
    assert_eq!(arena.stats().0, 0);
}

#[test]
fn make_mut_clones_a_shared_value() {
    let tally = Tally::default();
    let (arena, pool) = (SharedArena::new(), Pool::new());
    let mut arc = arena.alloc_arc(tally.value(1));
    let place: *const Counted = &raw const *arc;
    assert!(core::ptr::eq(ArenaArc::make_mut(&mut arc, &arena), place));
    let shared = arc.clone();
    assert!(!core::ptr::eq(ArenaArc::make_mut(&mut arc, &arena), place));
    assert_eq!((shared.number(), arc.number(), tally.alive()), (1, 1, 2));
    let weak = ArenaArc::downgrade(&arc);
    ArenaArc::make_mut(&mut arc, &arena);
    assert!(weak.upgrade().is_none(), "the value was dropped with its last strong handle");
    let mut rc = pool.alloc_rc(tally.value(3));
    let other = rc.clone();
    assert!(ArenaRc::get_mut(&mut rc).is_none() && ArenaRc::strong_count(&rc) == 2);
    ArenaRc::make_mut(&mut rc, &pool);
    assert!(!ArenaRc::ptr_eq(&rc, &other) && ArenaRc::get_mut(&mut rc).is_some());
    // `make_mut` can put the clone into any arena.
    let mut third = rc.clone();
    ArenaRc::make_mut(&mut third, &arena);
    let rc = ArenaRc::try_unwrap(rc).unwrap();
    assert_eq!(rc.number(), 3);
    drop((arc, shared, rc, other, third, weak));
    assert_eq!((tally.alive(), arena.stats().0, pool.stats().0), (0, 0, 0));
}

#[test]
fn rcs_of_all_arenas_have_one_type() {
    let (pool, arena, shared) = (Pool::new(), Arena::new(), SharedArena::new());
    let all: Vec<ArenaRc<u32>> = vec![pool.alloc_rc(1), arena.alloc_rc(2), shared.alloc_rc(3)];
    let twice: Vec<ArenaRc<u32>> = all.iter().chain(&all).cloned().collect();
    drop((pool, arena, shared));
    drop(all);
    assert_eq!(twice.iter().map(|rc| **rc).sum::<u32>(), 12);
}

#[test]
fn pinned_values_do_not_move() {
    let (arena, pool) = (SharedArena::new(), Pool::new());
    let mut pinned: Pin<ArenaBox<u64>> = arena.alloc_pin(3);
    *pinned = 4;
    let pooled: Pin<PoolBox<u64>> = pool.alloc_pin(5);
    let counted: (Pin<ArenaRc<u64>>, Pin<ArenaArc<u64>>) = (pool.alloc_rc_pin(6), arena.alloc_arc_pin(7));
    let from: Pin<ArenaBox<u64>> = arena.alloc(8).into();
    assert_eq!([*pinned, *pooled, *counted.0, *counted.1, *from], [4, 5, 6, 7, 8]);
    let futures = SharedArena::new();
    let mut future = futures.alloc_pin(async { 9 });
    let mut context = core::task::Context::from_waker(core::task::Waker::noop());
    assert_eq!(future.as_mut().poll(&mut context), core::task::Poll::Ready(9));
}

#[test]
fn handles_compare_and_hash_like_their_values() {
    let arena = SharedArena::new();
    let (one, two) = (arena.alloc(1), arena.alloc(2));
    assert!(one != two && two == arena.alloc(2));
    let set: HashSet<ArenaArc<u32>> = [5, 6, 5].map(|number| arena.alloc_arc(number)).into();
    assert!(set.len() == 2 && set.contains(&6));
    let set: HashSet<ArenaRc<u32>> = [5, 6, 5].map(|number| arena.alloc_rc(number)).into();
    assert!(set.len() == 2 && set.contains(&5));
    let mut boxed = Arena::new().alloc(String::from("borrowed"));
    let borrowed: &mut String = boxed.borrow_mut();
    borrowed.push('!');
    let borrowed: &String = boxed.borrow();
    assert_eq!((&*boxed, borrowed), (&"borrowed!".to_owned(), &"borrowed!".to_owned()));
}

#[test]
fn a_forgotten_handle_keeps_its_slot() {
    let arena = SharedArena::new();
    core::mem::forget(ArenaBox::into_pin(arena.alloc(1)));
    assert_eq!(arena.stats().0, 1);
    assert!(!arena.shrink_to_fit(), "the page of the forgotten handle stays");
    // Take the slot back, so that the test does not leak.
    let place = ArenaBox::into_raw(arena.alloc(2));
    // SAFETY: the pointer names the previous slot of the same page, whose handle was forgotten
    // above.
    let forgotten = unsafe { place.sub(1) };
    // SAFETY: the slot still has the value of the forgotten handle, and `into_raw` of that handle
    // would have returned this pointer.
    drop(unsafe { ArenaBox::from_raw(forgotten) });
    // SAFETY: `into_raw` returned the pointer, and this is its only `from_raw`.
    drop(unsafe { ArenaBox::from_raw(place) });
    assert_eq!(arena.stats().0, 0);
}
