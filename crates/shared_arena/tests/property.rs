//! Runs random programs on all three arenas. An oracle keeps every handle with the number of its
//! value, and checks the values against these numbers.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/tally.rs"]
mod tally;

use alloc::collections::BTreeMap;

use proptest::prelude::*;
use shared_arena::{Arena, ArenaArc, ArenaBox, ArenaRc, Pool, PoolBox, SharedArena, Trim, Weak};
use tally::{Counted, Tally};

#[derive(Debug, Clone)]
enum Op {
    Alloc,
    AllocWith,
    Arc,
    Rc,
    Clone(usize),
    Downgrade(usize),
    Upgrade(usize),
    MakeMut(usize),
    Unwrap(usize),
    Drop(usize),
    DropMany(usize),
    DropOnThread(usize),
    Shrink,
    Stats,
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let pick = 0..1_000_usize;
    prop_oneof![
        30 => Just(Op::Alloc),
        8 => Just(Op::AllocWith),
        8 => Just(Op::Arc),
        8 => Just(Op::Rc),
        6 => pick.clone().prop_map(Op::Clone),
        3 => pick.clone().prop_map(Op::Downgrade),
        3 => pick.clone().prop_map(Op::Upgrade),
        3 => pick.clone().prop_map(Op::MakeMut),
        3 => pick.clone().prop_map(Op::Unwrap),
        25 => pick.clone().prop_map(Op::Drop),
        3 => pick.clone().prop_map(Op::DropMany),
        1 => pick.prop_map(Op::DropOnThread),
        3 => Just(Op::Shrink),
        2 => Just(Op::Stats),
        1 => Just(Op::Restart),
    ]
}

/// An arena of one of the three kinds. A program sometimes replaces its arena with a new one.
enum Pick {
    Shared(SharedArena<Counted>),
    Arena(Arena<Counted>),
    Pool(Pool<Counted>),
}

enum Handle {
    Boxed(ArenaBox<Counted>),
    Pooled(PoolBox<Counted>),
    Arc(ArenaArc<Counted>),
    Weak(Weak<Counted>),
    Rc(ArenaRc<Counted>),
}

impl Handle {
    /// Returns the value, or `None` for a weak handle, which does not keep its value live.
    fn value(&self) -> Option<&Counted> {
        match self {
            Self::Boxed(value) => Some(value),
            Self::Pooled(value) => Some(value),
            Self::Arc(value) => Some(value),
            Self::Rc(value) => Some(value),
            Self::Weak(_) => None,
        }
    }
}

impl Pick {
    fn new(which: usize) -> Self {
        match which % 3 {
            0 => Self::Shared(SharedArena::with_capacity(which % 7 * 30)),
            1 => Self::Arena(Arena::builder().trim(Trim::Manual).build()),
            _ => Self::Pool(Pool::with_capacity(which % 5 * 40)),
        }
    }

    fn boxed(&self, value: Counted, with: bool) -> Handle {
        match self {
            Self::Shared(arena) if with => Handle::Boxed(arena.alloc_with(|slot| slot.write(value))),
            Self::Shared(arena) => Handle::Boxed(arena.alloc(value)),
            Self::Arena(arena) if with => Handle::Boxed(arena.alloc_with(|slot| slot.write(value))),
            Self::Arena(arena) => Handle::Boxed(arena.try_alloc(value).expect("no limit")),
            Self::Pool(pool) if with => Handle::Pooled(pool.alloc_with(|slot| slot.write(value))),
            Self::Pool(pool) => Handle::Pooled(pool.alloc(value)),
        }
    }

    fn counted(&self, value: Counted, rc: bool) -> Handle {
        match self {
            Self::Shared(arena) if rc => Handle::Rc(arena.alloc_rc(value)),
            Self::Shared(arena) => Handle::Arc(arena.alloc_arc(value)),
            Self::Arena(arena) if rc => Handle::Rc(arena.alloc_rc(value)),
            Self::Arena(arena) => Handle::Arc(arena.alloc_arc(value)),
            Self::Pool(pool) => Handle::Rc(pool.alloc_rc(value)),
        }
    }

    fn stats(&self) -> (usize, usize) {
        match self {
            Self::Shared(arena) => arena.stats(),
            Self::Arena(arena) => arena.stats(),
            Self::Pool(pool) => pool.stats(),
        }
    }

    fn shrink(&self) {
        let (used, _) = self.stats();
        match self {
            Self::Shared(arena) => _ = arena.shrink_to_fit(),
            Self::Arena(arena) => _ = arena.shrink_to_fit(),
            Self::Pool(pool) => pool.shrink_to_fit(),
        }
        let (still, free) = self.stats();
        assert_eq!(still, used);
        assert!(used != 0 || free == 0, "an arena without values holds no pages");
    }
}

/// The handles in use, with the number of the value that each handle refers to.
struct Oracle {
    tally: Tally,
    next: usize,
    handles: Vec<(usize, Handle)>,
}

impl Oracle {
    fn add(&mut self, make: impl FnOnce(Counted) -> Handle) {
        let number = self.next;
        self.next += 1;
        let value = self.tally.value(number);
        self.handles.push((number, make(value)));
    }

    /// Checks all handles. A value must be live exactly while it has a handle that is not weak.
    fn check(&self) {
        let mut values = BTreeMap::<usize, *const Counted>::new();
        for (number, handle) in &self.handles {
            if let Some(value) = handle.value() {
                assert_eq!(value.number(), *number);
                let place: *const Counted = value;
                assert_eq!(*values.entry(*number).or_insert(place), place, "one value has two addresses");
            }
        }
        let places: alloc::collections::BTreeSet<_> = values.values().collect();
        assert_eq!(places.len(), values.len(), "two values have one address");
        assert_eq!(self.tally.alive(), values.len());
        for (number, handle) in &self.handles {
            if let Handle::Weak(weak) = handle {
                assert_eq!(weak.upgrade().is_some(), values.contains_key(number));
            }
        }
    }

    fn take(&mut self, pick: usize) -> Option<(usize, Handle)> {
        (!self.handles.is_empty()).then(|| self.handles.swap_remove(pick % self.handles.len()))
    }
}

fn run(which: usize, ops: Vec<Op>) {
    let mut arena = Pick::new(which);
    let mut oracle = Oracle { tally: Tally::default(), next: 0, handles: Vec::new() };
    for (turn, op) in ops.into_iter().enumerate() {
        match op {
            Op::Alloc => oracle.add(|value| arena.boxed(value, false)),
            Op::AllocWith => oracle.add(|value| arena.boxed(value, true)),
            Op::Arc => oracle.add(|value| arena.counted(value, false)),
            Op::Rc => oracle.add(|value| arena.counted(value, true)),
            Op::Clone(pick) | Op::Downgrade(pick) | Op::Upgrade(pick) if !oracle.handles.is_empty() => {
                let (number, handle) = &oracle.handles[pick % oracle.handles.len()];
                let new = match (&op, handle) {
                    (Op::Downgrade(_), Handle::Arc(arc)) => Some(Handle::Weak(ArenaArc::downgrade(arc))),
                    (Op::Upgrade(_), Handle::Weak(weak)) => weak.upgrade().map(Handle::Arc),
                    (_, Handle::Arc(arc)) => Some(Handle::Arc(arc.clone())),
                    (_, Handle::Weak(weak)) => Some(Handle::Weak(weak.clone())),
                    (_, Handle::Rc(rc)) => Some(Handle::Rc(rc.clone())),
                    _ => None,
                };
                let number = *number;
                oracle.handles.extend(new.map(|handle| (number, handle)));
            }
            Op::MakeMut(pick) => {
                let Some((_, mut handle)) = oracle.take(pick) else { continue };
                match (&mut handle, &arena) {
                    (Handle::Arc(arc), Pick::Shared(arena)) => {
                        assert!(ArenaArc::make_mut(arc, arena).number() < oracle.next);
                    }
                    (Handle::Rc(rc), Pick::Pool(pool)) => {
                        assert!(ArenaRc::make_mut(rc, pool).number() < oracle.next);
                    }
                    _ => {}
                }
                // A clone is another value with the number of its original, so the oracle drops the
                // handle.
                drop(handle);
            }
            Op::Unwrap(pick) => match oracle.take(pick) {
                Some((number, Handle::Boxed(value))) => {
                    assert_eq!(ArenaBox::into_inner(value).number(), number);
                }
                Some((number, Handle::Pooled(value))) => {
                    assert_eq!(PoolBox::into_inner(value).number(), number);
                }
                Some((number, Handle::Arc(arc))) => {
                    if let Err(arc) = ArenaArc::try_unwrap(arc) {
                        oracle.handles.push((number, Handle::Arc(arc)));
                    }
                }
                Some((number, Handle::Rc(rc))) => {
                    if let Err(rc) = ArenaRc::try_unwrap(rc) {
                        oracle.handles.push((number, Handle::Rc(rc)));
                    }
                }
                other => oracle.handles.extend(other),
            },
            Op::Drop(pick) => drop(oracle.take(pick)),
            Op::DropMany(pick) => {
                for step in 0..pick.min(oracle.handles.len()) {
                    drop(oracle.take(pick + step * 3));
                }
            }
            Op::DropOnThread(pick) => match oracle.take(pick) {
                Some((_, Handle::Boxed(value))) => std::thread::spawn(move || drop(value)).join().unwrap(),
                Some((_, Handle::Arc(value))) => std::thread::spawn(move || drop(value)).join().unwrap(),
                other => oracle.handles.extend(other),
            },
            Op::Shrink => arena.shrink(),
            Op::Stats => {
                let (used, free) = arena.stats();
                assert!(used <= oracle.handles.len() && (used + free) % 63 == 0);
            }
            // The handles of the dropped arena stay in use.
            Op::Restart => arena = Pick::new(which + turn),
            _ => {}
        }
        if turn % (if cfg!(miri) { 40 } else { 16 }) == 0 {
            oracle.check();
        }
    }
    oracle.check();
    drop(arena);
    oracle.check();
    oracle.handles.clear();
    assert_eq!(oracle.tally.alive(), 0);
}

const CASES: u32 = if cfg!(miri) { 2 } else { 96 };
const OPS: usize = if cfg!(miri) { 30 } else { 600 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_agree_with_the_oracle(which in 0..105_usize, ops in prop::collection::vec(op(), 1..OPS)) {
        run(which, ops);
    }
}
