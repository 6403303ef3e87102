//! Scopes as their threads enter and leave them.

use core::mem;
use core::ptr;
use std_alloc::collections::BTreeSet;

use ephemera_prim::sync::Ordering;
use ephemera_testkit::{child, suite::turn};

use super::cell::{CellState, FamilyCell};
use super::scope_ref::{Entered, ScopeRef};
use super::scopes::{ScopeHeaps, UNLIMITED};
use crate::alloc::pooled_family;

fn start() -> ScopeRef {
    ScopeHeaps::start(UNLIMITED, false).expect("memory")
}

fn enter(scope: &ScopeRef) -> Entered {
    scope.enter().expect("the cell is alive")
}

/// Runs `act` in a child process, which must end without unwinding, and say `said`.
fn ends_the_process(test: &str, said: &str, act: impl FnOnce() + core::panic::UnwindSafe) {
    if child::part().is_some() {
        child::end_unless_it_ends(act);
    }
    let ended = child::run(test, "act");
    assert!(!ended.well() && !ended.unwound(), "{ended:?}");
    assert!(ended.said.contains(said), "{ended:?}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri cannot start processes")]
fn leaving_a_scope_before_an_inner_one_ends_the_process() {
    const NAME: &str = "threads::scope_tests::leaving_a_scope_before_an_inner_one_ends_the_process";
    ends_the_process(NAME, "before one that it entered later", || {
        let (first, second) = (start(), start());
        let outer = enter(&first);
        let inner = enter(&second);
        drop(outer);
        mem::forget(inner);
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri cannot start processes")]
fn too_many_references_to_a_scope_end_the_process() {
    const NAME: &str = "threads::scope_tests::too_many_references_to_a_scope_end_the_process";
    ends_the_process(NAME, "too many references", || {
        let scope = start();
        scope.users.store(isize::MAX as usize, Ordering::Relaxed);
        // This one is within the bound, and the next one exceeds it.
        mem::forget(scope.clone());
        mem::forget(scope.clone());
    });
}

#[test]
fn leaving_a_scope_after_the_thread_exit_hook_restores_nothing() {
    let _turn = turn();
    let key = (pooled_family().cell)();
    let (first, second) = (start(), start());
    let outer = enter(&first);
    let inner = enter(&second);
    // The hook of the thread's exit resets the cell.
    FamilyCell::enter(key, CellState::NOTHING).expect("the cell is alive");
    drop(inner);
    assert!(FamilyCell::table(key).is_none());
    drop(outer);
    assert!(FamilyCell::table(key).is_none());
}

/// The records of a scope that several threads were in at the same time.
#[test]
fn the_first_record_of_a_scope_serves_its_next_visits() {
    let scope = ScopeHeaps::make(false).expect("memory");
    let leases = [(); 3].map(|()| scope.lease().expect("memory"));
    let [first, second, third] = leases.each_ref().map(|lease| ptr::from_ref(lease.record()));
    assert!(first != second && second != third && first != third);
    drop(leases);
    for _ in 0..3 {
        let lease = scope.lease().expect("all are free");
        assert!(ptr::eq(lease.record(), first));
    }
    assert_eq!(scope.records().count(), 3);
}

#[test]
fn a_record_that_another_thread_holds_for_a_moment_is_waited_for() {
    let scope = ScopeHeaps::make(false).expect("memory");
    let mut moment = scope.lease();
    let lease = scope.lease_or_wait(|| drop(moment.take())).expect("memory");
    assert_eq!(scope.records().count(), 1);
    let further = scope.lease_or_wait(|| ()).expect("memory");
    assert!(!ptr::eq(further.record(), lease.record()));
    assert_eq!(scope.records().count(), 2);
}

#[test]
fn scopes_after_a_burst_take_the_heaps_that_were_used_last() {
    let _turn = turn();
    let burst = [(); if cfg!(miri) { 8 } else { 50 }].map(|()| start());
    drop(burst);
    let mut used = BTreeSet::new();
    for _ in 0..if cfg!(miri) { 4 } else { 20 } {
        let scopes = [(); 3].map(|()| start());
        used.extend(scopes.iter().map(|scope| ptr::from_ref::<ScopeHeaps>(scope)));
    }
    assert_eq!(used.len(), 3);
}
