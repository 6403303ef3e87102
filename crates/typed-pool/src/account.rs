//! Counts the bytes that a pool holds from its backing allocator, and checks the limit on them.

use core::cell::Cell;

/// The value of `limit` that means no limit.
pub(crate) const UNLIMITED: usize = usize::MAX;

/// The bytes of units, and of blocks without a unit, that are held.
pub(crate) trait Account {
    /// Adds `bytes` before they are requested. Returns `false`, and adds nothing, if the sum would
    /// exceed the limit.
    fn reserve(&self, bytes: usize) -> bool;
    /// Adds `bytes` regardless of the limit.
    #[cfg(all(feature = "std", not(ephemera_loom)))]
    fn reserve_beyond(&self, bytes: usize);
    /// Notes that a heap keeps an empty unit. A thread whose request was refused may find it.
    fn spare(&self);
    /// Subtracts bytes that were freed, or that the backing allocator refused.
    fn release(&self, bytes: usize);
    /// Notes that a block without a unit was allocated (`came`) or freed. With `blocks` 0, one grew
    /// or shrank by `bytes`.
    fn large(&self, blocks: usize, bytes: usize, came: bool);
    /// Returns the current sums.
    fn now(&self) -> Booked;
}

/// The sums of an account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Booked {
    pub(crate) held: usize,
    pub(crate) limit: usize,
    pub(crate) large_blocks: usize,
    pub(crate) large_bytes: usize,
}

/// Returns the sum with `more` bytes, if the limit allows it.
const fn within(held: usize, more: usize, limit: usize) -> Option<usize> {
    match held.checked_add(more) {
        Some(sum) if sum <= limit => Some(sum),
        _ => None,
    }
}

pub(crate) const fn changed(word: usize, by: usize, came: bool) -> usize {
    if came { word.wrapping_add(by) } else { word.wrapping_sub(by) }
}

/// An account whose limit does not bind, for a block that moves while it shrinks. The block's old
/// memory is released as soon as it has moved, and the limit must not refuse a shrink.
#[cfg(all(feature = "std", not(ephemera_loom)))]
#[derive(Debug)]
pub(crate) struct Beyond<'a, A>(pub(crate) &'a A);

#[cfg(all(feature = "std", not(ephemera_loom)))]
impl<A: Account> Account for Beyond<'_, A> {
    fn reserve(&self, bytes: usize) -> bool {
        self.0.reserve_beyond(bytes);
        true
    }

    fn reserve_beyond(&self, bytes: usize) {
        self.0.reserve_beyond(bytes);
    }

    fn spare(&self) {
        self.0.spare();
    }

    fn release(&self, bytes: usize) {
        self.0.release(bytes);
    }

    fn large(&self, blocks: usize, bytes: usize, came: bool) {
        self.0.large(blocks, bytes, came);
    }

    fn now(&self) -> Booked {
        self.0.now()
    }
}

/// The account of a pool for one thread.
#[derive(Debug)]
pub(crate) struct LocalAccount(Cell<Booked>);

impl LocalAccount {
    pub(crate) const fn new(limit: usize) -> Self {
        Self(Cell::new(Booked { held: 0, limit, large_blocks: 0, large_bytes: 0 }))
    }
}

impl Account for LocalAccount {
    fn reserve(&self, bytes: usize) -> bool {
        let booked = self.0.get();
        let sum = within(booked.held, bytes, booked.limit);
        sum.inspect(|&held| self.0.set(Booked { held, ..booked })).is_some()
    }

    #[cfg(all(feature = "std", not(ephemera_loom)))]
    fn reserve_beyond(&self, bytes: usize) {
        let booked = self.0.get();
        self.0.set(Booked { held: booked.held + bytes, ..booked });
    }

    fn spare(&self) {}

    fn release(&self, bytes: usize) {
        let booked = self.0.get();
        self.0.set(Booked { held: booked.held - bytes, ..booked });
    }

    fn large(&self, blocks: usize, bytes: usize, came: bool) {
        let booked = self.0.get();
        self.0.set(Booked {
            large_blocks: changed(booked.large_blocks, blocks, came),
            large_bytes: changed(booked.large_bytes, bytes, came),
            ..booked
        });
    }

    fn now(&self) -> Booked {
        self.0.get()
    }
}

#[cfg(any(feature = "std", ephemera_loom))]
pub(crate) use shared::SharedAccount;

/// The account that all threads share. Only slow paths use it, so it can afford to be exact.
#[cfg(any(feature = "std", ephemera_loom))]
mod shared {
    use super::{Account, Booked, UNLIMITED, changed, within};
    use ephemera_prim::sync::{AtomicUsize, Ordering};

    #[derive(Debug)]
    pub(crate) struct SharedAccount {
        held: AtomicUsize,
        limit: AtomicUsize,
        /// The number of times that a heap kept an empty unit under a limit, and that the limit
        /// changed.
        spares: AtomicUsize,
        large_blocks: AtomicUsize,
        large_bytes: AtomicUsize,
    }

    impl SharedAccount {
        ephemera_prim::const_unless_loom! {
            pub(crate) fn new() -> Self {
                Self {
                    held: AtomicUsize::new(0),
                    limit: AtomicUsize::new(UNLIMITED),
                    spares: AtomicUsize::new(0),
                    large_blocks: AtomicUsize::new(0),
                    large_bytes: AtomicUsize::new(0),
                }
            }
        }

        #[cfg(not(ephemera_loom))]
        pub(crate) fn set_limit(&self, bytes: usize) {
            self.limit.store(bytes, Ordering::Relaxed);
            self.spares.fetch_add(1, Ordering::Relaxed);
        }

        fn is_limited(&self) -> bool {
            self.limit.load(Ordering::Relaxed) != UNLIMITED
        }

        /// Returns a number, never zero, that grows with each event after which another heap may
        /// have an empty unit to free. `None` without a limit, because such events are not counted
        /// then.
        pub(crate) fn spares(&self) -> Option<usize> {
            self.is_limited().then(|| self.spares.load(Ordering::Relaxed))
        }
    }

    impl Account for SharedAccount {
        fn reserve(&self, bytes: usize) -> bool {
            let limit = self.limit.load(Ordering::Relaxed);
            self.held
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| within(held, bytes, limit))
                .is_ok()
        }

        #[cfg(all(feature = "std", not(ephemera_loom)))]
        fn reserve_beyond(&self, bytes: usize) {
            self.held.fetch_add(bytes, Ordering::Relaxed);
        }

        fn spare(&self) {
            if self.is_limited() {
                self.spares.fetch_add(1, Ordering::Relaxed);
            }
        }

        fn release(&self, bytes: usize) {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }

        fn large(&self, blocks: usize, bytes: usize, came: bool) {
            self.large_blocks.fetch_add(changed(0, blocks, came), Ordering::Relaxed);
            self.large_bytes.fetch_add(changed(0, bytes, came), Ordering::Relaxed);
        }

        fn now(&self) -> Booked {
            Booked {
                held: self.held.load(Ordering::Relaxed),
                limit: self.limit.load(Ordering::Relaxed),
                large_blocks: self.large_blocks.load(Ordering::Relaxed),
                large_bytes: self.large_bytes.load(Ordering::Relaxed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, LocalAccount, UNLIMITED, within};

    #[test]
    fn the_limit_is_exact_and_sums_do_not_overflow() {
        assert_eq!(within(90, 10, 100), Some(100));
        assert_eq!(within(91, 10, 100), None);
        assert_eq!(within(1, usize::MAX, UNLIMITED), None);
    }

    #[test]
    fn a_refused_reservation_books_nothing() {
        let account = LocalAccount::new(100);
        assert!(account.reserve(100));
        assert!(!account.reserve(1));
        assert_eq!(account.now().held, 100);
        account.release(70);
        account.large(1, 10, true);
        account.large(1, 4, false);
        assert_eq!((account.now().held, account.now().large_blocks, account.now().large_bytes), (30, 0, 6));
    }
}
