//! Tests `Pool`. These tests also run without default features.

extern crate alloc;

use alloc::rc::Rc;
use alloc::vec::Vec;

use shared_arena::{ArenaRc, Pool, PoolBox, Trim};

#[test]
fn slots_of_dropped_values_are_claimed_again() {
    let pool = Pool::new();
    let alive = Rc::new(());
    let mut boxes: Vec<PoolBox<(usize, Rc<()>)>> = Vec::new();
    let mut counted: Vec<ArenaRc<(usize, Rc<()>)>> = Vec::new();
    for number in 0..300 {
        boxes.push(pool.alloc((number, Rc::clone(&alive))));
        let value = pool.alloc_rc((number, Rc::clone(&alive)));
        counted.extend([value.clone(), value]);
        if number % 3 == 0 {
            drop(boxes.swap_remove(number / 3));
            drop(counted.swap_remove(number / 2));
        }
    }
    assert_eq!(Rc::strong_count(&alive) - 1, pool.stats().0);
    assert!(counted.iter().all(|value| ArenaRc::strong_count(value) <= 2 && value.0 < 300));
    drop(counted);
    assert_eq!((Rc::strong_count(&alive), pool.stats().0), (1 + boxes.len(), boxes.len()));
    let ((live, free), pages) = (pool.stats(), pool.statistics().pages);
    let again: Vec<_> = (0..free).map(|number| pool.alloc((number, Rc::clone(&alive)))).collect();
    assert_eq!((pool.stats(), pool.statistics().pages), ((live + free, 0), pages));
    drop(again);
    // These handles outlive the pool.
    drop(pool);
    assert!(boxes.iter().all(|value| value.0 < 300));
    drop(boxes);
    assert_eq!(Rc::strong_count(&alive), 1);
}

#[test]
fn builder_settings_are_kept() {
    let pool = Pool::<u32>::builder().capacity(100).limit(1 << 20).trim(Trim::Manual).build();
    assert_eq!((pool.stats(), pool.statistics().limit), ((0, 126), 1 << 20));
    assert!(pool.trim() && !pool.trim(), "the first trim frees the reserved pages");
    assert_eq!(pool.stats(), (0, 0));
    let value = pool.try_alloc_with(|slot| slot.write(5)).expect("there is room");
    assert_eq!(PoolBox::into_inner(value), 5);
}
