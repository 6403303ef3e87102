//! Tests of scopes: threads enter and leave them, in order and out of order, and reuse their heaps.

use core::alloc::Layout;
use core::mem;
use core::ptr;
use std::sync::mpsc::channel;
use std::thread;
use std_alloc::collections::BTreeSet;

use allocator_api2::boxed::Box;
use ephemera_prim::account::UNLIMITED;
use ephemera_prim::raw::header_of;
use ephemera_testkit::{child, suite::take_turn};

use super::ledger::Ledger;
use super::pooled::{pooled_cell, pooled_family};
use super::scope_ref::{Entered, ScopeRef};
use super::scopes::{ScopeHeaps, UNUSED};
use crate::alloc::give_to_own_unit;
use crate::unit::Unit;
use crate::{PooledAllocator, class};

fn start() -> ScopeRef {
    ScopeRef::start(UNLIMITED, false).expect("memory")
}

fn enter(scope: &ScopeRef) -> Entered {
    scope.enter().expect("the cell is alive")
}

/// Runs `act` in a child process, and checks that the child fails without unwinding and prints
/// `said`.
fn ends_the_process(test: &str, said: &str, act: impl FnOnce() + core::panic::UnwindSafe) {
    if child::part().is_some() {
        child::end_unless_it_ends(act);
    }
    let ended = child::run(test, "act");
    assert!(!ended.succeeded() && !ended.panicked(), "{ended:?}");
    assert!(ended.stderr.contains(said), "{ended:?}");
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
        scope.0.users.set(isize::MAX as usize);
        // This reference is within the bound. The next one exceeds the bound.
        mem::forget(scope.clone());
        mem::forget(scope.clone());
    });
}

#[test]
fn leaving_a_scope_after_the_thread_exit_hook_restores_nothing() {
    take_turn();
    let cell = (pooled_family().cell)();
    let (first, second) = (start(), start());
    let outer = enter(&first);
    let inner = enter(&second);
    // Resets the cell, like the thread's exit hook.
    cell.set(None);
    drop(inner);
    assert!(cell.table().is_none());
    drop(outer);
    assert!(cell.table().is_none());
}

#[test]
fn a_thread_in_a_counting_scope_owns_no_unit() {
    take_turn();
    let scope = ScopeRef::start(UNLIMITED, true).expect("memory");
    let inside = enter(&scope);
    let block = PooledAllocator.allocate(Layout::new::<u64>()).expect("memory").cast::<u8>();
    // SAFETY: the block is a live slot of class 0, and units are aligned to the `unit_size` of
    // their class.
    let unit = unsafe { header_of::<Unit>(block, class::unit_size(0)) };
    // SAFETY: the block is a live slot of this unit.
    assert!(!unsafe { give_to_own_unit(pooled_cell(), unit.cast(), block) });
    // SAFETY: the block is live and has this layout.
    unsafe { PooledAllocator.deallocate(block, Layout::new::<u64>()) };
    drop(inside);
}

/// The test holds three leases at the same time, so the scope has three records.
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
fn a_thread_waits_for_a_record_that_another_thread_holds_for_a_moment() {
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
    take_turn();
    let burst = [(); if cfg!(miri) { 8 } else { 50 }].map(|()| start());
    drop(burst);
    let mut used = BTreeSet::new();
    for _ in 0..if cfg!(miri) { 4 } else { 20 } {
        let scopes = [(); 3].map(|()| start());
        used.extend(scopes.iter().map(|scope| ptr::from_ref(scope.0)));
    }
    assert_eq!(used.len(), 3);
}

#[test]
fn scopes_that_start_while_a_thread_is_stopped_in_the_pool_reuse_heaps() {
    take_turn();
    let burst = || [(); 5].map(|()| start());
    let heaps = |scopes: [ScopeRef; 5]| scopes.map(|scope| ptr::from_ref(scope.0));
    let mut known: BTreeSet<_> = heaps(burst()).into();
    // This thread stays at the gate, like a thread that is preempted there.
    let stopped = UNUSED[0].gate.enter();
    assert!(stopped.is_some());
    for _ in 0..if cfg!(miri) { 2 } else { 20 } {
        let scopes = burst();
        let used: BTreeSet<_> = scopes.iter().map(|scope| ptr::from_ref(scope.0)).collect();
        assert_eq!(used.len(), 5, "two scopes share their heaps");
        drop(scopes);
        known.extend(used);
    }
    drop(stopped);
    known.extend(heaps(burst()));
    assert_eq!(known.len(), 5);
}

#[test]
fn a_thread_returns_to_its_own_record_of_a_scope_that_others_are_in() {
    let scope = ScopeHeaps::make(false).expect("memory");
    let around = scope.lease().expect("memory");
    let record = || ptr::from_ref(scope.lease().expect("memory").record()).addr();
    let first = scope.lease().expect("memory");
    let (go, turns) = channel::<()>();
    let (tell, told) = channel();
    let other = thread::spawn(move || {
        for () in turns {
            tell.send(record()).expect("the test waits");
        }
    });
    let ask = || {
        go.send(()).expect("the other thread waits");
        told.recv().expect("the other thread answers")
    };
    let theirs = ask();
    // From here on, this thread's own record is free. Each thread still tries its own record before
    // that of the other thread.
    let own = ptr::from_ref(first.record()).addr();
    drop(first);
    assert_ne!(own, theirs);
    assert_eq!([ask(), ask()], [theirs; 2]);
    assert_eq!(record(), own);
    drop(go);
    other.join().expect("no panic");
    drop(around);
}

#[test]
fn a_fruitless_search_is_remembered_by_the_thread_and_not_by_each_scope() {
    take_turn();
    let family = pooled_family();
    // This allocation gives the thread its own table.
    drop(Box::new_in(1_u8, PooledAllocator));
    PooledAllocator.trim_all();
    let looks = || family.looks.load(core::sync::atomic::Ordering::Relaxed);
    PooledAllocator.set_limit(PooledAllocator.stats().bytes_held);
    let before = looks();
    for scope in &[(); 5].map(|()| start()) {
        let inside = enter(scope);
        assert!(Box::<[u8; 60_000], _>::try_new_uninit_in(PooledAllocator).is_err());
        drop(inside);
    }
    let searches = looks() - before;
    PooledAllocator.set_limit(usize::MAX);
    assert_eq!(searches, 1);
}

#[test]
fn a_trim_on_another_thread_reaches_a_scope_when_its_thread_leaves() {
    take_turn();
    let scope = start();
    let inside = enter(&scope);
    drop(value());
    let held = || PooledAllocator.stats().bytes_held;
    thread::spawn(|| PooledAllocator.trim_all()).join().expect("no panic");
    let before = held();
    drop(inside);
    assert!(held() < before, "the thread left its empty front");
}

type Value = Box<mem::MaybeUninit<[u8; 20_000]>, PooledAllocator>;

fn value() -> Value {
    Box::new_uninit_in(PooledAllocator)
}

#[test]
fn a_refused_thread_finds_an_empty_front_that_was_set_aside_since() {
    take_turn();
    let held = || PooledAllocator.stats().bytes_held;
    // Allocates and frees a block in a new scope. Returns the number of bytes held before the scope
    // ends.
    let use_scope = || {
        let scope = start();
        let inside = enter(&scope);
        drop(value());
        let most = held();
        drop(inside);
        most
    };
    // This allocation gives the thread its own table.
    drop(value());
    PooledAllocator.trim_all();
    let most = use_scope();
    PooledAllocator.trim_all();
    // The limit leaves room for one unit.
    PooledAllocator.set_limit(most);
    let first = Box::<[u8; 1_000_000], _>::try_new_uninit_in(PooledAllocator).is_err();
    // After `STREAK` scopes, each scope leaves its front to the next one.
    for _ in 0..if cfg!(miri) { 6 } else { 300 } {
        use_scope();
    }
    let left = held();
    let second = Box::<[u8; 60_000], _>::try_new_uninit_in(PooledAllocator).is_ok();
    PooledAllocator.set_limit(usize::MAX);
    assert!(first, "the request exceeds the limit");
    assert_eq!(left, most, "the last scope left its front");
    assert!(second, "the front is empty, and its record has no holder");
}

#[test]
fn a_refused_thread_finds_an_empty_front_of_a_scope_that_it_left_since() {
    take_turn();
    let large = || Box::<[u8; 60_000], _>::try_new_uninit_in(PooledAllocator);
    // This allocation gives the thread its own table.
    drop(value());
    PooledAllocator.trim_all();
    let scope = start();
    let inside = enter(&scope);
    let live = value();
    PooledAllocator.set_limit(PooledAllocator.stats().bytes_held);
    let first = large().is_err();
    // The refused request also asks for a trim when the thread leaves the scope.
    drop(inside);
    let inside = enter(&scope);
    // The trim made the unit an ordinary one, so this allocation makes it the front again.
    drop((value(), live));
    drop(inside);
    let second = large().is_ok();
    PooledAllocator.set_limit(usize::MAX);
    assert!(first, "all memory is in use");
    assert!(second, "the front is empty, and its record has no holder");
}

#[test]
fn a_scope_is_trimmed_at_most_64_times_to_stay_within_its_limit() {
    let ledger = Ledger::new(false);
    ledger.begin(100);
    ledger.add(60);
    assert!(!ledger.may_trim_for(40), "within the limit");
    assert_eq!((0..200).filter(|_| ledger.may_trim_for(41)).count(), 64);
    ledger.begin(100);
    ledger.add(60);
    assert!(ledger.may_trim_for(41), "each scope has its own count");
    ledger.add(41);
    assert!(!ledger.may_trim_for(1), "the scope has exceeded its limit");
}
