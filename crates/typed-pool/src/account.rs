//! What a pool holds from its backing allocator, in bytes, and the limit on it.

use core::cell::Cell;

/// No limit.
pub(crate) const UNLIMITED: usize = usize::MAX;

/// An account of what is held: units, and blocks without a unit.
pub(crate) trait Account {
    /// Books `bytes` before they are asked for; `false`, and nothing booked, if they exceed the limit.
    fn reserve(&self, bytes: usize) -> bool;
    /// Books `bytes` whatever the limit.
    #[cfg(all(feature = "std", not(ephemera_loom)))]
    fn reserve_beyond(&self, bytes: usize);
    /// A heap keeps an empty unit. A thread whose request was refused may gain from another look.
    fn spare(&self);
    /// Books off what was given back, or not granted after all.
    fn release(&self, bytes: usize);
    /// A block without a unit came (`true`) or went, or changed its size by that much.
    fn large(&self, blocks: usize, bytes: usize, came: bool);
    /// What is booked.
    fn now(&self) -> Booked;
}

/// What an account says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Booked {
    pub(crate) held: usize,
    pub(crate) limit: usize,
    pub(crate) large_blocks: usize,
    pub(crate) large_bytes: usize,
}

/// The sum that `more` bytes would make, if the limit allows it.
const fn within(held: usize, more: usize, limit: usize) -> Option<usize> {
    match held.checked_add(more) {
        Some(sum) if sum <= limit => Some(sum),
        _ => None,
    }
}

pub(crate) const fn changed(word: usize, by: usize, came: bool) -> usize {
    if came { word.wrapping_add(by) } else { word.wrapping_sub(by) }
}

/// An account whose limit does not bind: for a block that moves while it shrinks. Its old memory is released
/// as soon as it has moved, and a shrink must not fail for want of a limit.
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

/// The account that all threads share. In slow paths only, so it may be exact.
#[cfg(any(feature = "std", ephemera_loom))]
mod shared {
    use super::{Account, Booked, UNLIMITED, changed, within};
    use ephemera_prim::sync::{AtomicUsize, Ordering};

    #[derive(Debug)]
    pub(crate) struct SharedAccount {
        held: AtomicUsize,
        limit: AtomicUsize,
        /// How often a heap kept an empty unit while there was a limit, and how often the limit changed.
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

        /// A number that grows, under a limit, with each event after which another heap may have something to
        /// give back. `None` without a limit, where these events are not counted. Never zero.
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
