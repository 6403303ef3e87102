//! Tests with an allocator that refuses each of its calls in turn. A request without memory fails,
//! values stay intact, and all memory is freed.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;

use crate::account::hostile::refuse;
use crate::{Arena, ArenaArc, Build, Builder, Pool, Refused, SharedArena};

/// A value of a hundred bytes that counts its live instances.
#[derive(Clone)]
struct Value {
    alive: Rc<Cell<usize>>,
    number: usize,
    _weight: [u64; 12],
}

impl Value {
    fn new(alive: &Rc<Cell<usize>>, number: usize) -> Self {
        alive.set(alive.get() + 1);
        Self { alive: Rc::clone(alive), number, _weight: [0; 12] }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

const COUNT: usize = if cfg!(miri) { 80 } else { 1_200 };

/// The methods of all arenas that the script needs.
trait Script: Build {
    type Boxed: core::ops::Deref<Target = Value>;
    type Counted: core::ops::Deref<Target = Value> + Clone;
    fn boxed(&self, value: Value) -> Result<Self::Boxed, Value>;
    fn counted(&self, value: Value) -> Result<Self::Counted, Value>;
    fn shrink(&self);
    fn used(&self) -> usize;
}

macro_rules! script {
    ($arena:ident, $boxed:ident, $counted:ident, $try_counted:ident) => {
        impl Script for $arena<Value> {
            type Boxed = crate::$boxed<Value>;
            type Counted = crate::$counted<Value>;

            fn boxed(&self, value: Value) -> Result<Self::Boxed, Value> {
                self.try_alloc(value).map_err(|error| error.into_value())
            }

            fn counted(&self, value: Value) -> Result<Self::Counted, Value> {
                self.$try_counted(value).map_err(|error| error.into_value())
            }

            fn shrink(&self) {
                self.shrink_to_fit();
            }

            fn used(&self) -> usize {
                self.stats().0
            }
        }
    };
}

script!(SharedArena, ArenaBox, ArenaArc, try_alloc_arc);
script!(Arena, ArenaBox, ArenaRc, try_alloc_rc);
script!(Pool, PoolBox, ArenaRc, try_alloc_rc);

/// Runs the script, and returns the number of refused requests.
fn run<A: Script>() -> Result<usize, Refused> {
    let alive = Rc::new(Cell::new(0));
    let arena: A = Builder::new().capacity(70).try_build()?;
    let (mut boxes, mut counted, mut refused) = (Vec::new(), Vec::new(), 0);
    for round in 0..2 {
        for number in 0..COUNT {
            match arena.boxed(Value::new(&alive, number)) {
                Ok(value) => boxes.push(value),
                Err(value) => {
                    assert_eq!(value.number, number, "a refusal returns the value");
                    refused += 1;
                }
            }
            if number % 20 == 0 {
                match arena.counted(Value::new(&alive, number)) {
                    Ok(value) => counted.extend([value.clone(), value]),
                    Err(value) => {
                        assert_eq!(value.number, number, "a refusal returns the value");
                        refused += 1;
                    }
                }
            }
        }
        assert_eq!(
            (alive.get(), arena.used()),
            (boxes.len() + counted.len() / 2, boxes.len() + counted.len() / 2)
        );
        let kept = boxes.len() / 10;
        boxes.truncate(kept);
        // Keeps two values with two handles each after the first round, and none after the second.
        counted.truncate(4 * (1 - round));
        arena.shrink();
    }
    drop(arena);
    assert!(boxes.iter().all(|value| value.number < COUNT) && alive.get() == boxes.len());
    drop((boxes, counted));
    assert_eq!(alive.get(), 0);
    Ok(refused)
}

fn at_every_call<A: Script>() {
    refuse(0, 0);
    assert_eq!(run::<A>(), Ok(0));
    let calls = refuse(0, 0);
    assert!(calls > 5, "{calls} calls");
    let step = if cfg!(miri) { 9 } else { 1 };
    for call in (0..calls).step_by(step) {
        // A single refusal may not show: the arena can take a smaller group, or free empty ones and
        // try again.
        refuse(call, call + 1);
        let _once = run::<A>();
        refuse(call, usize::MAX);
        assert_ne!(run::<A>(), Ok(0), "calls from {call} on refused");
    }
    refuse(0, 0);
    // Each run frees its store itself. A store asserts that its account is then empty.
    assert_eq!(crate::reclaim(), 0);
}

#[test]
fn a_shared_arena_survives_every_refusal() {
    at_every_call::<SharedArena<Value>>();
}

#[test]
fn an_arena_survives_every_refusal() {
    at_every_call::<Arena<Value>>();
}

#[test]
fn a_pool_survives_every_refusal() {
    at_every_call::<Pool<Value>>();
}

/// The clone of a handle cannot report a refusal, so it must not allocate.
#[test]
fn handles_allocate_nothing() {
    let alive = Rc::new(Cell::new(0));
    let arena = SharedArena::new();
    let arc = arena.alloc_arc(Value::new(&alive, 1));
    refuse(0, usize::MAX);
    let (clone, weak) = (arc.clone(), ArenaArc::downgrade(&arc));
    drop(arena);
    assert!(weak.upgrade().is_some_and(|up| ArenaArc::ptr_eq(&up, &clone)));
    drop((arc, clone, weak));
    assert_eq!((alive.get(), refuse(0, 0)), (0, 0), "handles allocate nothing");
}

/// Asserts that a capacity which cannot be met is refused before the allocator is asked for groups.
fn beyond<A: Build>(limit: usize, capacity: usize) {
    refuse(0, 0);
    drop(Builder::<A>::new().try_build());
    let without = refuse(0, 0);
    let refused = Builder::<A>::new().limit(limit).capacity(capacity).try_build().err();
    let refused =
        refused.unwrap_or_else(|| panic!("there is no room for {capacity} values in {limit} bytes"));
    // An enormous capacity is requested once, as one block.
    assert!(refuse(0, 0) <= without + 1, "{refused}: no groups are taken");
    assert!(refused.asked / 100 >= capacity.min(usize::MAX / 100) && refused.limit == limit, "{refused}");
}

#[test]
fn impossible_capacities_allocate_no_groups() {
    let most = isize::MAX as usize;
    for (limit, capacity) in [
        (1 << 20, 1 << 20),
        (1 << 20, usize::MAX),
        (usize::MAX, most / 100),
        (usize::MAX, most),
        (usize::MAX, usize::MAX),
        #[cfg(all(target_pointer_width = "64", not(miri)))]
        (usize::MAX, 1 << 48),
    ] {
        beyond::<SharedArena<Value>>(limit, capacity);
        beyond::<Arena<Value>>(limit, capacity);
        beyond::<Pool<Value>>(limit, capacity);
    }
}
