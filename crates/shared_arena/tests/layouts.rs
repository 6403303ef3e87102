//! Tests values that are zero-sized, over-aligned, large, or too large for the address space.
#![cfg(feature = "std")]

extern crate alloc;

#[path = "support/tally.rs"]
mod tally;

use core::fmt::Debug;
use std::collections::HashSet;

use shared_arena::{Arena, ArenaBox, Pool, SharedArena};
use tally::Tally;

/// Fills an arena of each kind with values. Asserts that the values are aligned, have different
/// addresses, and stay intact until they are dropped in a different order.
fn many<T: Clone + PartialEq + Debug + Send + 'static>(count: usize, make: impl Fn(usize) -> T) {
    let check = |place: *const T, seen: &mut HashSet<usize>| {
        assert!(place.is_aligned());
        assert!(seen.insert(place.addr()), "two values have one address");
    };
    let (shared, arena, pool) = (SharedArena::new(), Arena::with_capacity(3), Pool::new());
    let mut boxes = Vec::new();
    let mut pooled = Vec::new();
    let mut seen = HashSet::new();
    for number in 0..count {
        boxes.push((number, shared.alloc(make(number))));
        boxes.push((number, arena.alloc_with(|slot| slot.write(make(number)))));
        pooled.push((number, pool.alloc(make(number))));
        boxes[2 * number..].iter().for_each(|(_, value)| check(&raw const **value, &mut seen));
        check(&raw const *pooled[number].1, &mut seen);
    }
    let arcs: Vec<_> = (0..count).map(|number| shared.alloc_arc(make(number))).collect();
    for turn in 0..count {
        let (number, value) = boxes.swap_remove((turn * 7) % boxes.len());
        assert_eq!(*value, make(number));
        let (number, value) = pooled.swap_remove((turn * 5) % pooled.len());
        assert_eq!(*value, make(number));
    }
    assert!(boxes.iter().all(|(number, value)| **value == make(*number)));
    assert!(arcs.iter().enumerate().all(|(number, value)| **value == make(number)));
    assert_eq!(pool.stats().0, 0);
    drop((boxes, arcs));
    assert_eq!((shared.stats().0, arena.stats().0), (0, 0));
    pool.shrink_to_fit();
    assert!(shared.shrink_to_fit() && arena.shrink_to_fit());
    assert_eq!((shared.stats(), arena.stats(), pool.stats()), ((0, 0), (0, 0), (0, 0)));
}

const COUNT: usize = if cfg!(miri) { 10 } else { 700 };

#[test]
fn zero_sized_values_are_aligned_and_distinct() {
    many(COUNT, |_| ());
    many(COUNT, |_| [0_u64; 0]);
    #[derive(Debug, Clone, PartialEq)]
    #[repr(align(256))]
    struct Nothing;
    many(COUNT / 4, |_| Nothing);
}

#[test]
fn small_values_are_aligned_and_distinct() {
    // With at least 66 values, an arena needs more than one page.
    many(COUNT.max(66), |number| number as u8);
    many(COUNT, |number| (number as u16, 7_u8));
    many(COUNT, |number| [number; 5]);
}

#[test]
fn over_aligned_values_are_aligned_and_distinct() {
    macro_rules! aligned {
        ($($align:literal)*) => {$({
            #[derive(Debug, Clone, PartialEq)]
            #[repr(align($align))]
            struct Aligned(usize);
            many(if cfg!(miri) { 6 } else { 300_000 / $align }, Aligned);
        })*};
    }
    aligned!(256 4096);
    #[cfg(not(miri))]
    aligned!(64 128 512 65536);
}

#[test]
fn large_values_are_aligned_and_distinct() {
    #[derive(Clone, PartialEq)]
    struct Large<const N: usize>(Box<[usize; 1]>, [u8; N]);
    impl<const N: usize> Debug for Large<N> {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            write!(f, "{:?} {:?}", self.0, self.1.last())
        }
    }
    fn make<const N: usize>(number: usize) -> Large<N> {
        Large(Box::new([number]), [number as u8; N])
    }
    fn all() {
        let count = if cfg!(miri) { 3 } else { 80 };
        many(count, make::<1_000>);
        many(count, make::<5_000>);
        #[cfg(not(miri))]
        many(count, make::<70_000>);
        #[cfg(not(miri))]
        many(12, make::<300_000>);
    }
    // Unoptimised code copies each of these values several times on the stack.
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(all).unwrap();
    thread.join().unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "the values take too much memory")]
fn huge_alignments_are_served() {
    #[repr(align(1048576))]
    struct Huge(u8);
    let arena = SharedArena::<Huge>::new();
    let values: Vec<ArenaBox<Huge>> = (0..3)
        .map(|number| {
            arena.alloc_with(|slot| {
                let place = slot.as_mut_ptr();
                // SAFETY: the initialiser owns the slot.
                let field = unsafe { &raw mut (*place).0 };
                // SAFETY: the initialiser owns the slot.
                unsafe { field.write(number) };
                // SAFETY: the only field was written; the rest is padding.
                unsafe { slot.assume_init_ref() }
            })
        })
        .collect();
    for (number, value) in values.iter().enumerate() {
        assert!((&raw const **value).addr() % (1 << 20) == 0 && usize::from(value.0) == number);
    }
    drop(arena);
}

#[test]
#[cfg_attr(miri, ignore = "Miri does not support such alignments")]
fn types_beyond_the_address_space_are_refused() {
    let arena = SharedArena::<[u8; 1 << 60]>::new();
    let error = arena.try_alloc_with(|_| unreachable!("there is no slot")).unwrap_err();
    assert!(error.refused().asked >= 1 << 60);
    assert_eq!(arena.stats(), (0, 0));
    let pool = Pool::<[u8; 1 << 46]>::new();
    assert!(pool.try_alloc_with(|_| unreachable!("there is no slot")).is_err());
    assert!(pool.try_alloc_rc_with(|_| unreachable!("there is no slot")).is_err());
    assert!(Pool::<[u8; 1 << 40]>::builder().capacity(1 << 40).try_build().is_err());
}

#[test]
fn capacities_beyond_the_address_space_are_refused() {
    for slots in [usize::MAX, usize::MAX / 2, isize::MAX as usize / 8] {
        let refused = SharedArena::<u64>::builder().capacity(slots).limit(1 << 30).try_build().unwrap_err();
        assert!(refused.asked > 0);
        assert!(Pool::<[u8; 100]>::builder().capacity(slots).limit(1 << 30).try_build().is_err());
    }
    assert!(SharedArena::<u64>::builder().limit(0).try_build().is_err());
}

#[test]
fn values_with_destructors_are_dropped_once() {
    let tally = Tally::default();
    let arena = SharedArena::with_capacity(10);
    let mut values: Vec<_> = (0..200).map(|number| arena.alloc(tally.value(number))).collect();
    values.retain(|value| value.number() % 3 == 0);
    values.extend((200..300).map(|number| arena.alloc(tally.value(number))));
    assert_eq!((tally.alive(), arena.stats().0), (167, 167));
    drop(values);
    assert_eq!((tally.alive(), arena.stats().0), (0, 0));
}
