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

// SAFETY: the addresses of two fields.
unsafe impl Listed for Unit {
    unsafe fn next(unit: NonNull<Self>) -> NonNull<OwnerPtr<Self>> {
        // SAFETY: the caller's unit is alive; no reference is made.
        let field = unsafe { &raw mut (*unit.as_ptr()).next };
        // SAFETY: a field of what a non-null pointer points at.
        unsafe { NonNull::new_unchecked(field) }
    }

    unsafe fn prev(unit: NonNull<Self>) -> NonNull<OwnerPtr<Self>> {
        // SAFETY: the caller's unit is alive; no reference is made.
        let field = unsafe { &raw mut (*unit.as_ptr()).prev };
        // SAFETY: a field of what a non-null pointer points at.
        unsafe { NonNull::new_unchecked(field) }
    }
}

fn unit() -> Kept<Unit> {
    Kept::new(Unit { next: OwnerPtr::null(), prev: OwnerPtr::null(), witness: Witness::new() })
}

/// The owner removes a unit and, if no walker stood on it, frees it.
fn free(list: &UnitList<Unit>, unit: &Kept<Unit>) {
    // SAFETY: on the list, whose owner is this thread.
    if unsafe { list.remove(unit.pointer()) } {
        unit.get().witness.end();
    }
}

/// The owner frees both units in turn and adds one, while another thread reads all that it finds.
#[test]
fn loom_unit_list_walks_beside_an_owner_that_frees() {
    explore_within(3, || {
        let list = Kept::new(UnitList::new());
        let units = [unit(), unit(), unit()];
        for unit in &units[..2] {
            // SAFETY: new; its owner is this thread.
            unsafe { list.get().add(unit.pointer()) };
        }
        let (theirs, kept) = (list.clone(), units.clone());
        let walker = thread::spawn(move || {
            // SAFETY: the walk visits units that are alive.
            theirs.get().walk(|unit| unsafe { unit.as_ref() }.witness.touch());
            drop(kept);
        });
        free(list.get(), &units[1]);
        // SAFETY: new; its owner is this thread.
        unsafe { list.get().add(units[2].pointer()) };
        free(list.get(), &units[0]);
        walker.join().unwrap();
    });
}
