//! Tests of the three states of the thread-local, and of the hooks at thread exit.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use super::hooks::HOOKS;
use super::{Gone, Held, Tenant, at_exit, bound, current, hold, near, renew};
use crate::record::{FIRST, Lease, Record, Registry};
use crate::word::OwnerUsize;

std::thread_local! {
    /// The function that the next `enter` calls, to simulate an `enter` that allocates from this
    /// allocator.
    static WHILE_ENTERING: Cell<Option<fn()>> = const { Cell::new(None) };
}

std::thread_local! {
    /// The function that each registration of an exit hook on this thread calls, to simulate a C
    /// library that allocates.
    static WHILE_REGISTERING: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Simulates an allocation by the C library while it registers an exit hook.
pub(super) fn while_registering() {
    if let Ok(Some(allocate)) = WHILE_REGISTERING.try_with(Cell::get) {
        allocate();
    }
}

/// Declares an allocator for one test. Its record data counts the calls to `enter` and `leave`.
macro_rules! tenant {
    ($name:ident) => {
        #[derive(Debug)]
        struct $name {
            entered: OwnerUsize,
            left: OwnerUsize,
        }

        impl $name {
            const fn new() -> Self {
                Self { entered: OwnerUsize::new(0), left: OwnerUsize::new(0) }
            }

            /// Returns the numbers of calls to `enter` and `leave`, summed over all records.
            fn counts() -> (usize, usize) {
                Self::statics().registry.records().map(Record::data).fold((0, 0), |(entered, left), data| {
                    (entered + data.entered.get(), left + data.left.get())
                })
            }

            fn all_free() -> bool {
                Self::statics().registry.records().all(Record::is_free)
            }
        }

        impl Tenant for $name {
            type Near = usize;

            fn near(record: &'static Record<Self>) -> usize {
                record.data().entered.get()
            }

            crate::tenant_statics!(
                $name,
                registry: {
                    static ALL: Registry<$name> =
                        Registry::new([const { Record::new($name::new()) }; FIRST], $name::new);
                    &ALL
                },
                nowhere: $name::new(),
                near: 0,
            );

            fn enter(&self) {
                self.entered.add(1);
                if let Ok(Some(meanwhile)) = WHILE_ENTERING.try_with(Cell::take) {
                    meanwhile();
                }
            }

            fn leave(record: &'static Record<Self>) {
                assert!(!record.is_free(), "`leave` runs without a lease");
                assert!(core::ptr::eq(bound::<Self>().unwrap(), record), "the thread is no longer bound");
                record.data().left.add(1);
            }

            fn release(lease: Lease<'static, Self>) {
                drop(lease);
            }
        }
    };
}

fn is_gone<S: Tenant>() -> bool {
    core::ptr::eq(current::<S>(), S::statics().gone)
}

#[test]
fn thread_is_bound_from_its_first_call_to_its_exit() {
    tenant!(Toy);
    thread::spawn(|| {
        assert!(bound::<Toy>().is_none() && core::ptr::eq(current::<Toy>(), Toy::statics().nowhere));
        let Some(Held::Bound(record)) = hold::<Toy>() else { panic!("the first call did not bind") };
        let again = hold::<Toy>().unwrap();
        assert!(matches!(again, Held::Bound(_)) && core::ptr::eq(again.record(), record));
        assert!(core::ptr::eq(current::<Toy>(), record) && record.try_lease().is_none());
        assert_eq!(Toy::counts(), (1, 0));
    })
    .join()
    .unwrap();
    assert!(Toy::all_free());
    assert_eq!(Toy::counts(), (1, 1));
    // The next thread leases the same record unchanged.
    thread::spawn(|| assert_eq!(hold::<Toy>().unwrap().record().data().left.get(), 1)).join().unwrap();
    assert_eq!((Toy::counts(), Toy::statics().registry.later_records()), ((2, 2), 0));
}

#[test]
fn near_is_a_copy_from_the_bound_record_that_renew_updates() {
    const UNSEEN: usize = usize::MAX;
    static NEAR: AtomicUsize = AtomicUsize::new(UNSEEN);
    tenant!(Toy);
    thread::spawn(|| {
        assert_eq!(near::<Toy>(), 0);
        let record = hold::<Toy>().unwrap().record();
        assert_eq!(near::<Toy>(), 1, "`enter` ran once");
        record.data().entered.add(1);
        assert_eq!(near::<Toy>(), 1, "`near` is not a copy");
        renew::<Toy>();
        assert_eq!(near::<Toy>(), 2);
    })
    .join()
    .unwrap();
    thread::spawn(|| {
        assert_eq!(near::<Toy>(), 0, "the thread has a record");
        assert!(matches!(hold::<Toy>(), Some(Held::Bound(_))));
        assert_eq!(near::<Toy>(), 3);
        assert_eq!(at_exit(|| assert_eq!(NEAR.swap(near::<Toy>(), Ordering::Relaxed), UNSEEN)), Ok(()));
    })
    .join()
    .unwrap();
    assert_eq!(NEAR.load(Ordering::Relaxed), 0, "`near` after the exit guard");
    // `enter` ran on two threads, and this test added one to the count.
    assert_eq!((Toy::counts(), Toy::all_free()), ((3, 2), true));
}

/// Calls the allocator from the destructor of a user's thread-local, and returns whether the
/// destructor found GONE. With `users_first`, the user's thread-local is created before the exit
/// guard.
fn in_a_destructor<S: Tenant>(users_first: bool) -> bool {
    static FOUND: Mutex<Vec<(bool, bool)>> = Mutex::new(Vec::new());
    struct User(Option<fn()>);
    impl Drop for User {
        fn drop(&mut self) {
            if let Some(found) = self.0 {
                found();
            }
        }
    }
    std::thread_local! {
        static USER: RefCell<User> = const { RefCell::new(User(None)) };
    }
    fn found<S: Tenant>() {
        let gone = is_gone::<S>();
        let held = hold::<S>().unwrap();
        assert!(!held.record().is_free());
        FOUND.lock().unwrap().push((gone, matches!(held, Held::Leased(_))));
    }
    thread::spawn(move || {
        let user = || USER.with_borrow_mut(|user| user.0 = Some(found::<S>));
        if users_first {
            user();
        }
        assert!(matches!(hold::<S>(), Some(Held::Bound(_))));
        if !users_first {
            user();
        }
    })
    .join()
    .unwrap();
    let (gone, leased) = FOUND.lock().unwrap().pop().expect("the destructor ran");
    assert_eq!(gone, leased, "a lease for one operation exactly when the guard has run");
    gone
}

#[test]
fn destructors_before_and_after_the_guard_get_a_record() {
    tenant!(Toy);
    let orders = [true, false].map(in_a_destructor::<Toy>);
    assert!(Toy::all_free(), "a record was not released");
    let after_guard = orders.iter().filter(|gone| **gone).count();
    // Two threads were bound. After the guard has run, `enter` runs for each lease, but `leave`
    // does not.
    assert_eq!(Toy::counts(), (2 + after_guard, 2));
    if cfg!(target_os = "linux") {
        assert_eq!(after_guard, 1, "destructors run in the same order in both threads");
    }
}

#[test]
fn hooks_run_once_and_cannot_register_another() {
    static RAN: Mutex<Vec<Result<(), Gone>>> = Mutex::new(Vec::new());
    fn hook() {
        RAN.lock().unwrap().push(at_exit(hook));
    }
    thread::spawn(|| assert_eq!(at_exit(hook), Ok(()))).join().unwrap();
    assert_eq!(*RAN.lock().unwrap(), [Err(Gone)]);
}

#[test]
fn allocator_first_used_in_a_hook_leases_a_record() {
    tenant!(Toy);
    fn hook() {
        assert!(matches!(hold::<Toy>(), Some(Held::Leased(_))));
        assert!(is_gone::<Toy>());
    }
    thread::spawn(|| at_exit(hook).unwrap()).join().unwrap();
    assert_eq!((Toy::counts(), Toy::all_free()), ((1, 0), true));
}

#[test]
fn allocator_without_a_free_hook_leases_a_record() {
    tenant!(Toy);
    thread::spawn(|| {
        for _ in 0..HOOKS {
            assert_eq!(at_exit(|| {}), Ok(()));
        }
        assert_eq!(at_exit(|| {}), Err(Gone));
        let held = hold::<Toy>().unwrap();
        assert!(matches!(held, Held::Leased(_)) && is_gone::<Toy>());
        assert!(!held.record().is_free() && bound::<Toy>().is_none());
        drop(held);
        assert!(Toy::all_free(), "a lease for one operation outlives it");
        assert_eq!(Toy::counts(), (1, 0));
    })
    .join()
    .unwrap();
}

#[test]
fn allocation_while_a_record_is_entered_binds_the_thread() {
    tenant!(Toy);
    thread::spawn(|| {
        for _ in 0..HOOKS - 1 {
            assert_eq!(at_exit(|| {}), Ok(()));
        }
        WHILE_ENTERING.set(Some(|| assert!(matches!(hold::<Toy>(), Some(Held::Bound(_))))));
        assert!(matches!(hold::<Toy>(), Some(Held::Bound(_))));
        assert_eq!(Toy::statics().registry.records().filter(|record| !record.is_free()).count(), 1);
    })
    .join()
    .unwrap();
    assert_eq!((Toy::counts(), Toy::all_free()), ((2, 1), true));
}

#[test]
fn binding_while_a_record_is_entered_takes_one_hook() {
    tenant!(Toy);
    thread::spawn(|| {
        WHILE_ENTERING.set(Some(|| assert!(matches!(hold::<Toy>(), Some(Held::Bound(_))))));
        assert!(matches!(hold::<Toy>(), Some(Held::Bound(_))));
        let left = (0..).take_while(|_| at_exit(|| {}).is_ok()).count();
        assert_eq!(left, HOOKS - 1);
    })
    .join()
    .unwrap();
    assert!(Toy::all_free() && Toy::counts() == (2, 1));
}

#[test]
fn conc_every_thread_enters_and_leaves_one_record() {
    tenant!(Toy);
    const THREADS: usize = 3;
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 50 };
    let mut seen = 0;
    for _ in 0..ROUNDS {
        let threads: [_; THREADS] = core::array::from_fn(|_| {
            thread::spawn(|| {
                let held = hold::<Toy>().unwrap();
                assert!(matches!(held, Held::Bound(_)));
                held.record().data().entered.get()
            })
        });
        for thread in threads {
            seen += usize::from(thread.join().unwrap() > 0);
        }
    }
    assert_eq!((seen, Toy::counts()), (THREADS * ROUNDS, (THREADS * ROUNDS, THREADS * ROUNDS)));
    assert!(Toy::all_free() && Toy::statics().registry.later_records() == 0);
}

#[test]
fn allocation_during_the_registration_of_the_exit_hook_leases_a_record_of_its_own() {
    tenant!(Toy);
    thread::spawn(|| {
        std::thread_local! {
            static DEPTH: Cell<usize> = const { Cell::new(0) };
        }
        fn allocate() {
            DEPTH.set(DEPTH.get() + 1);
            assert!(DEPTH.get() < 5, "each allocation registers a hook, for which it allocates");
            let held = hold::<Toy>().unwrap();
            assert!(matches!(held, Held::Leased(_)));
            held.release();
            DEPTH.set(DEPTH.get() - 1);
        }
        WHILE_REGISTERING.set(Some(allocate));
        assert!(matches!(hold::<Toy>(), Some(Held::Bound(_))));
        WHILE_REGISTERING.set(None);
        assert!(matches!(hold::<Toy>(), Some(Held::Bound(_))));
    })
    .join()
    .unwrap();
    assert!(Toy::all_free());
    assert_eq!(Toy::counts().1, 1, "one record was bound");
}
