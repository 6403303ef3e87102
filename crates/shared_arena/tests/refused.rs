//! Tests arenas with a global allocator that refuses one call, or that call and all later ones.
//! Requests that get no memory fail, values stay intact, and all memory is freed.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/refusing.rs"]
mod refusing;

use alloc::rc::Rc;
use core::cell::Cell;

use refusing::{Refusing, refuse};
use shared_arena::{Arena, ArenaArc, ArenaBox, ArenaRc, Build, Builder, Pool, PoolBox, SharedArena};

#[global_allocator]
static HEAP: Refusing = Refusing;

/// A value of more than a hundred bytes that counts its live instances.
#[derive(Clone)]
struct TestValue {
    alive: Rc<Cell<usize>>,
    number: usize,
    _weight: [u64; 12],
}

impl TestValue {
    fn new(alive: &Rc<Cell<usize>>, number: usize) -> Self {
        alive.set(alive.get() + 1);
        Self { alive: Rc::clone(alive), number, _weight: [0; 12] }
    }
}

impl Drop for TestValue {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

const COUNT: usize = if cfg!(miri) { 80 } else { 1_200 };

/// The methods of an arena that the script calls. All three arenas implement this trait.
trait HostileScript: Build {
    type Boxed: core::ops::Deref<Target = TestValue>;
    type Counted: core::ops::Deref<Target = TestValue> + Clone;
    fn settings() -> Builder<Self>;
    fn boxed(&self, value: TestValue) -> Result<Self::Boxed, TestValue>;
    fn counted(&self, value: TestValue) -> Result<Self::Counted, TestValue>;
    fn shrink(&self);
    fn used(&self) -> usize;
}

macro_rules! script {
    ($arena:ident, $boxed:ident, $counted:ident, $try_counted:ident) => {
        impl HostileScript for $arena<TestValue> {
            type Boxed = $boxed<TestValue>;
            type Counted = $counted<TestValue>;

            fn settings() -> Builder<Self> {
                Self::builder()
            }

            fn boxed(&self, value: TestValue) -> Result<Self::Boxed, TestValue> {
                self.try_alloc(value).map_err(|error| error.into_value())
            }

            fn counted(&self, value: TestValue) -> Result<Self::Counted, TestValue> {
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

/// Runs the script while the allocator refuses the calls `from..to`. Returns the number of refused
/// requests (`None` if the arena could not be created) and the number of calls to the allocator.
fn run<A: HostileScript>(from: usize, to: usize) -> (Option<usize>, usize) {
    let alive = Rc::new(Cell::new(0));
    // Both vectors are allocated before the first refusal, so only the arena's requests are
    // refused.
    let mut boxes: Vec<A::Boxed> = Vec::with_capacity(2 * COUNT);
    let mut counted: Vec<A::Counted> = Vec::with_capacity(COUNT);
    refuse(from, to);
    let refused = script::<A>(&alive, &mut boxes, &mut counted);
    let calls = refuse(0, 0);
    assert!(boxes.iter().all(|value| value.number < COUNT) && alive.get() == boxes.len());
    drop((boxes, counted));
    assert_eq!(alive.get(), 0);
    (refused, calls)
}

fn script<A: HostileScript>(
    alive: &Rc<Cell<usize>>,
    boxes: &mut Vec<A::Boxed>,
    counted: &mut Vec<A::Counted>,
) -> Option<usize> {
    let arena = A::settings().capacity(70).try_build().ok()?;
    let mut refused = 0;
    for round in 0..2 {
        for number in 0..COUNT {
            match arena.boxed(TestValue::new(alive, number)) {
                Ok(value) => boxes.push(value),
                Err(value) => {
                    assert_eq!(value.number, number, "a refusal returns the value");
                    refused += 1;
                }
            }
            if number % 20 == 0 {
                match arena.counted(TestValue::new(alive, number)) {
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
        // Keep two values with two handles each after the first round, and none after the second.
        counted.truncate(4 * (1 - round));
        arena.shrink();
    }
    Some(refused)
}

fn at_every_call<A: HostileScript>() {
    let (refused, calls) = run::<A>(0, 0);
    assert_eq!(refused, Some(0));
    assert!(calls > 5, "{calls} calls");
    let step = if cfg!(miri) { 9 } else { 1 };
    for call in (0..calls).step_by(step) {
        // A single refusal may go unnoticed: the arena may allocate a smaller group, or free empty
        // groups and try again.
        let _once = run::<A>(call, call + 1);
        let (refused, _) = run::<A>(call, usize::MAX);
        assert_ne!(refused, Some(0), "no request failed, although calls from {call} on were refused");
    }
    // Each run frees its store. A store asserts that its account then holds only the store itself.
    assert_eq!(shared_arena::reclaim(), 0);
}

#[test]
fn a_shared_arena_survives_every_refusal() {
    at_every_call::<SharedArena<TestValue>>();
}

#[test]
fn an_arena_survives_every_refusal() {
    at_every_call::<Arena<TestValue>>();
}

#[test]
fn a_pool_survives_every_refusal() {
    at_every_call::<Pool<TestValue>>();
}

/// Cloning a handle cannot report a refusal, so it must not allocate.
#[test]
fn handles_allocate_nothing() {
    let alive = Rc::new(Cell::new(0));
    let arena = SharedArena::new();
    let arc = arena.alloc_arc(TestValue::new(&alive, 1));
    refuse(0, usize::MAX);
    let (clone, weak) = (arc.clone(), ArenaArc::downgrade(&arc));
    drop(arena);
    assert!(weak.upgrade().is_some_and(|up| ArenaArc::ptr_eq(&up, &clone)));
    drop((arc, clone, weak));
    assert_eq!((alive.get(), refuse(0, 0)), (0, 0), "handles allocate nothing");
}

/// A request that the global allocator refuses does not change the statistics.
#[test]
fn a_refusal_by_the_global_allocator_changes_no_statistics() {
    let pool = Pool::<[u8; 100]>::with_capacity(1);
    let full: Vec<_> = (0..pool.stats().1).map(|_| pool.alloc([0; 100])).collect();
    let before = pool.statistics();
    refuse(0, usize::MAX);
    let refused = pool.try_alloc([0; 100]).map(drop).map_err(|error| error.refused());
    assert_ne!(refuse(0, 0), 0, "the pool asked the global allocator");
    let refused = refused.unwrap_err();
    assert!(!refused.by_limit() && refused.held == before.bytes_held, "{refused}");
    assert_eq!((pool.statistics(), full.len()), (before, before.slots_live));
}

/// Asserts that the arena refuses an impossible capacity before it allocates a group.
fn beyond<A: HostileScript>(limit: usize, capacity: usize) {
    refuse(0, 0);
    drop(A::settings().try_build());
    let without = refuse(0, 0);
    let refused = A::settings().limit(limit).capacity(capacity).try_build().err();
    let calls = refuse(0, 0);
    let refused =
        refused.unwrap_or_else(|| panic!("there is no room for {capacity} values in {limit} bytes"));
    // For an enormous capacity, the arena requests one block to test the allocator.
    assert!(calls <= without + 1, "{refused}: the arena allocated groups");
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
        beyond::<SharedArena<TestValue>>(limit, capacity);
        beyond::<Arena<TestValue>>(limit, capacity);
        beyond::<Pool<TestValue>>(limit, capacity);
    }
}
