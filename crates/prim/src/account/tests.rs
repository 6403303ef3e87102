//! Tests of the accounts and of reservations.

use super::{Account, Leaving, Limit, LocalAccount, SharedAccount, UNLIMITED, reserved, within};
use allocator_api2::alloc::AllocError;

/// Runs `check` with an account of each kind, with a limit of 100.
fn with_both(check: impl Fn(&dyn Account)) {
    check(&LocalAccount::new(100));
    let shared = SharedAccount::new();
    shared.set_limit(100);
    check(&shared);
}

#[test]
fn limit_is_exact_and_its_sum_does_not_overflow() {
    assert_eq!(within(90, 10, 100), Some(100));
    assert_eq!(within(91, 10, 100), None);
    assert_eq!(within(1, usize::MAX, UNLIMITED), None);
}

#[test]
fn refused_reservation_adds_nothing() {
    with_both(|account| {
        assert!(account.reserve(100));
        assert!(!account.reserve(1));
        assert_eq!(account.now().held, 100);
        account.reserve_beyond(30);
        account.release(100);
        assert_eq!((account.now().held, account.now().limit), (30, 100));
    });
}

#[test]
fn large_blocks_are_counted_by_number_and_bytes() {
    with_both(|account| {
        account.large(2, 30, true);
        account.large(1, 15, false);
        assert_eq!((account.now().large_blocks, account.now().large_bytes), (1, 15));
        assert_eq!(account.now().held, 0);
    });
}

#[test]
fn bytes_of_a_refused_or_unwinding_request_are_released() {
    let account = LocalAccount::new(100);
    assert_eq!(reserved(&account, 60, Limit::Applies, || Ok(7)), Ok(7));
    assert_eq!(reserved(&account, 40, Limit::Applies, || Err::<(), _>(AllocError)), Err(AllocError));
    assert_eq!(account.now().held, 60);
    let unwound = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        reserved(&account, 40, Limit::Applies, || -> Result<(), AllocError> {
            std::panic::resume_unwind(alloc::boxed::Box::new("the backing allocator unwinds"))
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(account.now().held, 60);
    assert_eq!(reserved(&account, 41, Limit::Applies, || Ok(7)), Err(AllocError));
    assert_eq!(reserved(&account, 41, Limit::Lifted, || Ok(7)), Ok(7));
    assert_eq!(account.now().held, 101);
    drop(Leaving::new(&account, 101));
    assert_eq!(account.now().held, 0);
}

#[test]
fn spares_are_counted_under_a_limit_only() {
    let account = SharedAccount::new();
    account.spare();
    assert_eq!(account.spares(), None);
    account.set_limit(1_000);
    let first = account.spares().expect("there is a limit");
    assert_ne!(first, 0);
    account.spare();
    assert!(account.spares() > Some(first));
}
