//! Tests the list of all units: its order, removals, and walks by other threads while the owner
//! changes the list.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{Listed, UnitList};
use crate::word::OwnerPtr;

struct ListedUnit {
    next: OwnerPtr<ListedUnit>,
    prev: OwnerPtr<ListedUnit>,
    number: usize,
}

// SAFETY: a unit has a link at each of the two offsets, and only the list uses the links.
unsafe impl Listed for ListedUnit {
    const NEXT: usize = offset_of!(ListedUnit, next);
    const PREV: usize = offset_of!(ListedUnit, prev);
}

fn add(list: &UnitList<ListedUnit>, number: usize) -> NonNull<ListedUnit> {
    let unit = ListedUnit { next: OwnerPtr::null(), prev: OwnerPtr::null(), number };
    let unit = NonNull::from(Box::leak(Box::new(unit)));
    // SAFETY: the unit is new, this thread owns the list, and `free` removes a unit before it frees
    // it.
    unsafe { list.add(unit) };
    unit
}

/// Frees a unit unless a walker protects it. Returns whether the unit was freed.
fn free(list: &UnitList<ListedUnit>, unit: NonNull<ListedUnit>) -> bool {
    // SAFETY: the unit is on the list, which this thread owns.
    let removed = unsafe { list.remove(unit) };
    if removed {
        // SAFETY: the unit is a leaked box and no longer on the list.
        drop(unsafe { Box::from_raw(unit.as_ptr()) });
    }
    removed
}

fn numbers(list: &UnitList<ListedUnit>) -> Vec<usize> {
    let mut seen = Vec::new();
    // SAFETY: the walk visits live units.
    assert!(list.walk(|unit| seen.push(unsafe { unit.as_ref() }.number)));
    seen
}

#[test]
fn walk_visits_newest_first_after_any_removal() {
    let list = UnitList::new();
    let units: Vec<_> = (0..4).map(|number| add(&list, number)).collect();
    assert_eq!(numbers(&list), [3, 2, 1, 0]);
    for (which, left) in [(1, &[3, 2, 0][..]), (3, &[2, 0]), (0, &[2]), (2, &[])] {
        assert!(free(&list, units[which]));
        assert_eq!(numbers(&list), left);
    }
}

#[test]
fn owner_steps_from_the_newest_unit_to_the_oldest() {
    let list = UnitList::new();
    let units: Vec<_> = (0..3).map(|number| add(&list, number)).collect();
    assert_eq!(list.newest(), Some(units[2]));
    // SAFETY: this thread owns the list, and all units are on it.
    let after = units.iter().map(|unit| unsafe { list.after(*unit) }).collect::<Vec<_>>();
    assert_eq!(after, [None, Some(units[0]), Some(units[1])]);
    assert!(units.into_iter().all(|unit| free(&list, unit)));
}

#[test]
fn every_unit_but_the_newest_can_be_evicted() {
    let list = UnitList::new();
    let units: Vec<_> = (0..4).map(|number| add(&list, number)).collect();
    // SAFETY: only this thread uses the list, and it calls no method for the owner before the drop.
    let evictor = unsafe { list.evict() }.expect("no thread walks the list");
    for (which, evicted) in [(1, true), (3, false), (0, true)] {
        // SAFETY: the unit is on the list, to which this thread added it.
        assert_eq!(unsafe { evictor.remove(units[which]) }, evicted);
    }
    assert!(!list.walk(|_| ()), "no thread walks the list during an eviction");
    drop(evictor);
    assert_eq!(numbers(&list), [3, 2]);
    assert!(free(&list, units[3]) && free(&list, units[2]));
    for unit in &units[..2] {
        // SAFETY: the unit is a leaked box, which was removed from the list above.
        drop(unsafe { Box::from_raw(unit.as_ptr()) });
    }
}

#[test]
fn back_links_can_be_restored() {
    let list = UnitList::new();
    let units: Vec<_> = (0..4).map(|number| add(&list, number)).collect();
    // The state after the first of the two stores that remove unit 1.
    // SAFETY: units on the list are live.
    unsafe { units[2].as_ref() }.next.set(units[0].as_ptr());
    // SAFETY: this thread owns the list, and no thread evicts units.
    assert_eq!(unsafe { list.restore() }, 3);
    assert!(free(&list, units[0]));
    assert_eq!(numbers(&list), [3, 2]);
    assert!(free(&list, units[3]) && free(&list, units[2]));
    assert_eq!(numbers(&list), []);
    // SAFETY: the unit is a leaked box, which was removed from the list above.
    drop(unsafe { Box::from_raw(units[1].as_ptr()) });
}

#[test]
fn unit_protected_by_a_walker_stays_on_the_list() {
    let list = UnitList::new();
    let units: Vec<_> = (0..3).map(|number| add(&list, number)).collect();
    let mut refused = Vec::new();
    assert!(list.walk(|unit| {
        if unit == units[1] {
            // The walker visits unit 1 and came from unit 2. Neither hazard pointer names unit 0.
            refused.extend(units.iter().map(|&unit| !free(&list, unit)));
        }
    }));
    assert_eq!(refused, [false, true, true]);
    assert_eq!(numbers(&list), [2, 1], "a refused removal changes nothing");
    assert!(free(&list, units[1]) && free(&list, units[2]));
}

#[test]
fn walk_that_unwinds_clears_its_hazard_pointers() {
    let list = UnitList::new();
    let unit = add(&list, 0);
    let caught = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        list.walk(|_| std::panic::resume_unwind(Box::new(())))
    }));
    assert!(caught.is_err());
    assert!(free(&list, unit));
}

#[test]
fn conc_walkers_read_beside_an_owner_that_adds_and_frees() {
    const ROUNDS: usize = if cfg!(miri) { 12 } else { 20_000 };
    let (list, done) = (UnitList::new(), AtomicBool::new(false));
    let mut units: Vec<_> = (0..4).map(|number| add(&list, number)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the walk visits live units.
                list.walk(|unit| assert!(unsafe { unit.as_ref() }.number < ROUNDS + 4));
            }
        });
        let mut kept = Vec::new();
        for round in 0..ROUNDS {
            let unit = units.swap_remove(round % units.len());
            kept.push(unit);
            // A walker that moves on between two of these removals may protect both units, one
            // after another.
            kept.retain(|&unit| !free(&list, unit));
            units.push(add(&list, round + 4));
        }
        done.store(true, Ordering::Relaxed);
        units.extend(kept);
    });
    for unit in units {
        assert!(free(&list, unit));
    }
    assert_eq!(numbers(&list), []);
}
