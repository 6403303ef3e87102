//! The list of all units: an owner that frees units beside a walker.

use core::ptr::NonNull;

use loom::thread;

use super::explore_within;
use super::memory::Kept;
use crate::unit_list::{Listed, UnitList};
use crate::witness::Witness;
use crate::word::OwnerPtr;

struct Unit {
    next: OwnerPtr<Unit>,
    prev: OwnerPtr<Unit>,
    witness: Witness,
}

// SAFETY: each method returns the address of the same field every time.
unsafe impl Listed for Unit {
    unsafe fn next(unit: NonNull<Self>) -> NonNull<OwnerPtr<Self>> {
        // SAFETY: the caller's unit is live; no reference is created.
        let field = unsafe { &raw mut (*unit.as_ptr()).next };
        // SAFETY: a field of a non-null pointer's target is not at address null.
        unsafe { NonNull::new_unchecked(field) }
    }

    unsafe fn prev(unit: NonNull<Self>) -> NonNull<OwnerPtr<Self>> {
        // SAFETY: the caller's unit is live; no reference is created.
        let field = unsafe { &raw mut (*unit.as_ptr()).prev };
        // SAFETY: a field of a non-null pointer's target is not at address null.
        unsafe { NonNull::new_unchecked(field) }
    }
}

fn unit() -> Kept<Unit> {
    Kept::new(Unit { next: OwnerPtr::null(), prev: OwnerPtr::null(), witness: Witness::new() })
}

/// Removes a unit as its owner and, if no walker stood on it, frees it.
fn free(list: &UnitList<Unit>, unit: &Kept<Unit>) {
    // SAFETY: the unit is on the list, which this thread owns.
    if unsafe { list.remove(unit.pointer()) } {
        unit.get().witness.end();
    }
}

/// The owner frees two units and adds one, while another thread reads every unit that it finds.
#[test]
fn loom_unit_list_walks_beside_an_owner_that_frees() {
    explore_within(3, || {
        let list = Kept::new(UnitList::new());
        let units = [unit(), unit(), unit()];
        for unit in &units[..2] {
            // SAFETY: the unit is new, and this thread owns the list.
            unsafe { list.get().add(unit.pointer()) };
        }
        let (theirs, kept) = (list.clone(), units.clone());
        let walker = thread::spawn(move || {
            // SAFETY: the walk visits live units.
            theirs.get().walk(|unit| unsafe { unit.as_ref() }.witness.touch());
            drop(kept);
        });
        free(list.get(), &units[1]);
        // SAFETY: the unit is new, and this thread owns the list.
        unsafe { list.get().add(units[2].pointer()) };
        free(list.get(), &units[0]);
        walker.join().unwrap();
    });
}
