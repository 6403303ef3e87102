//! Tests user code that unwinds, uses its arena, or breaks its contract, at every point where an
//! arena calls user code.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/tally.rs"]
mod tally;

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use shared_arena::{Arena, ArenaArc, ArenaBox, ArenaRc, Pool, PoolBox, SharedArena};
use tally::{Counted, Tally};

/// A value whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("a destructor panicked"));
    }
}

fn unwinds(operation: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(operation)).is_err());
}

#[test]
fn a_panicking_destructor_frees_its_slot() {
    let (shared, arena, pool) = (SharedArena::new(), Arena::new(), Pool::new());
    unwinds(|| drop(shared.alloc(Bomb)));
    unwinds(|| drop(shared.alloc_arc(Bomb)));
    unwinds(|| drop(shared.alloc_rc(Bomb)));
    unwinds(|| drop(arena.alloc(Bomb)));
    unwinds(|| drop(pool.alloc(Bomb)));
    unwinds(|| drop(pool.alloc_rc(Bomb)));
    assert_eq!([shared.stats().0, arena.stats().0, pool.stats().0], [0; 3]);
    let weak = {
        let arc = shared.alloc_arc(Bomb);
        let weak = ArenaArc::downgrade(&arc);
        unwinds(|| drop(arc));
        weak
    };
    assert!(weak.upgrade().is_none());
    assert_eq!(shared.stats().0, 1);
    drop(weak);
    assert_eq!(shared.stats().0, 0);
    // These handles outlive their arenas.
    let (one, two) = (shared.alloc(Bomb), pool.alloc(Bomb));
    drop((shared, pool));
    unwinds(|| drop(one));
    unwinds(|| drop(two));
}

#[test]
fn a_panicking_initialiser_frees_its_slot_and_drops_nothing() {
    fn panics(_: &mut MaybeUninit<Counted>) -> &Counted {
        std::panic::resume_unwind(Box::new("an initialiser panicked"));
    }
    let (shared, arena, pool) = (SharedArena::new(), Arena::new(), Pool::new());
    unwinds(|| drop(shared.alloc_with(panics)));
    unwinds(|| drop(shared.alloc_arc_with(panics)));
    unwinds(|| drop(shared.alloc_rc_with(panics)));
    unwinds(|| drop(shared.try_alloc_with(panics)));
    unwinds(|| drop(arena.alloc_with(panics)));
    unwinds(|| drop(pool.alloc_with(panics)));
    unwinds(|| drop(pool.try_alloc_rc_with(panics)));
    assert_eq!([shared.stats().0, arena.stats().0, pool.stats().0], [0; 3]);
}

#[test]
fn an_initialiser_that_writes_and_panics_drops_nothing() {
    struct Flag<'f>(&'f Cell<bool>);
    impl Drop for Flag<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let dropped = Cell::new(false);
    let arena = SharedArena::new();
    unwinds(|| {
        drop(arena.alloc_with(|slot| {
            slot.write(Flag(&dropped));
            std::panic::resume_unwind(Box::new("too late"));
        }));
    });
    assert!(!dropped.get() && arena.stats().0 == 0);
}

#[test]
fn an_initialiser_that_returns_another_reference_panics() {
    let tally = Tally::default();
    let other = tally.value(7);
    let raw = Box::into_raw(Box::new(tally.value(8)));
    // SAFETY: the value is live until `Box::from_raw` below.
    let leaked: &'static Counted = unsafe { &*raw };
    let (shared, pool) = (SharedArena::new(), Pool::new());
    for message in [
        catch_unwind(AssertUnwindSafe(|| drop(shared.alloc_with(|_| leaked)))),
        catch_unwind(AssertUnwindSafe(|| drop(shared.alloc_arc_with(|_| leaked)))),
        catch_unwind(AssertUnwindSafe(|| drop(shared.alloc_rc_with(|_| leaked)))),
        catch_unwind(AssertUnwindSafe(|| drop(pool.alloc_with(|_| leaked)))),
    ] {
        let message = message.unwrap_err();
        assert!(message.downcast_ref::<&str>().unwrap().contains("something other"));
    }
    assert_eq!((shared.stats().0, pool.stats().0), (0, 0));
    assert_eq!((other.number(), leaked.number(), tally.alive()), (7, 8, 2), "nothing was dropped");
    // SAFETY: `into_raw` returned the pointer above, and neither it nor `leaked` is used again.
    drop(unsafe { Box::from_raw(raw) });
}

#[test]
fn a_panicking_clone_leaves_the_handle_unchanged() {
    #[derive(Debug)]
    struct NoClone(u8);
    impl Clone for NoClone {
        fn clone(&self) -> Self {
            std::panic::resume_unwind(Box::new("a clone panicked"));
        }
    }
    let arena = SharedArena::new();
    let mut arc = arena.alloc_arc(NoClone(4));
    let other = arc.clone();
    unwinds(|| {
        ArenaArc::make_mut(&mut arc, &arena);
    });
    assert!(ArenaArc::ptr_eq(&arc, &other) && arc.0 == 4 && ArenaArc::strong_count(&arc) == 2);
}

#[test]
fn initialisers_may_use_their_arena() {
    let tally = Tally::default();
    let arena = SharedArena::new();
    let inner = RefCell::new(Vec::new());
    let outer = arena.alloc_with(|slot| {
        for number in 0..200 {
            inner.borrow_mut().push(arena.alloc(tally.value(number)));
        }
        inner.borrow_mut().truncate(100);
        arena.shrink_to_fit();
        let nested = arena.alloc_with(|slot| slot.write(tally.value(1_000)));
        slot.write(tally.value(nested.number() + 1))
    });
    assert_eq!(outer.number(), 1_001);
    assert!(inner.borrow().iter().enumerate().all(|(number, value)| value.number() == number));
    assert_eq!((tally.alive(), arena.stats().0), (101, 101));
}

/// A value whose destructor uses the pool that it lies in.
struct Errand {
    pool: Rc<Pool<Errand>>,
    kept: Rc<RefCell<Vec<PoolBox<Errand>>>>,
    left: Cell<usize>,
}

impl Drop for Errand {
    fn drop(&mut self) {
        if self.left.get() != 0 {
            let again = Errand {
                pool: Rc::clone(&self.pool),
                kept: Rc::clone(&self.kept),
                left: Cell::new(self.left.get() - 1),
            };
            let again = self.pool.alloc(again);
            self.pool.shrink_to_fit();
            assert!(self.pool.stats().0 >= 2, "the slot of a value being dropped is not free");
            if self.left.get() % 2 == 0 {
                self.kept.borrow_mut().push(again);
            }
        }
    }
}

#[test]
fn destructors_may_use_their_pool() {
    let pool = Rc::new(Pool::new());
    let kept = Rc::new(RefCell::new(Vec::new()));
    let value = Errand { pool: Rc::clone(&pool), kept: Rc::clone(&kept), left: Cell::new(5) };
    drop(pool.alloc(value));
    loop {
        let Some(value) = kept.borrow_mut().pop() else { break };
        drop(value);
    }
    assert_eq!((pool.stats().0, Rc::strong_count(&pool)), (0, 1));
}

#[test]
fn a_destructor_may_drop_its_arena() {
    struct Last {
        tally: Counted,
        _shared: Option<alloc::sync::Arc<SharedArena<Last>>>,
        _pool: Option<Rc<Pool<Last>>>,
    }
    let tally = Tally::default();
    let arena = alloc::sync::Arc::new(SharedArena::new());
    let value = arena.alloc(Last {
        tally: tally.value(1),
        _shared: Some(alloc::sync::Arc::clone(&arena)),
        _pool: None,
    });
    drop(arena);
    assert_eq!(value.tally.number(), 1);
    drop(value);
    let pool = Rc::new(Pool::new());
    let value = pool.alloc(Last { tally: tally.value(2), _shared: None, _pool: Some(Rc::clone(&pool)) });
    drop(pool);
    drop(value);
    let pool = Rc::new(Pool::new());
    let value = pool.alloc_rc(Last { tally: tally.value(3), _shared: None, _pool: Some(Rc::clone(&pool)) });
    let value: (ArenaRc<Last>, ArenaRc<Last>) = (value.clone(), value);
    drop(pool);
    drop(value);
    assert_eq!((tally.alive(), shared_arena::reclaim()), (0, 0));
}

#[test]
fn a_list_in_an_arena_is_dropped_recursively() {
    struct Node {
        next: Option<ArenaBox<Node>>,
        _tally: Counted,
    }
    let tally = Tally::default();
    let arena = Arena::new();
    let count = if cfg!(miri) { 150 } else { 2_000 };
    let mut head = None;
    for number in 0..count {
        head = Some(arena.alloc(Node { next: head, _tally: tally.value(number) }));
    }
    assert_eq!((tally.alive(), arena.stats().0), (count, count));
    let second = head.as_mut().and_then(|node| node.next.take());
    drop(arena);
    drop(head);
    assert_eq!(tally.alive(), count - 1);
    drop(second);
    assert_eq!(tally.alive(), 0);
}
