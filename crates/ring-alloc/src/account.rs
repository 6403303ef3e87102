//! What a ring holds from its backing allocator, in bytes, and the limit on it.

use ephemera_prim::word::OwnerUsize;

/// No limit.
pub(crate) const UNLIMITED: usize = usize::MAX;

/// An account of bytes held: chunks, large blocks, and the ring itself.
pub(crate) trait Account {
    /// Books `bytes` before they are asked for; `false`, and nothing booked, if they exceed the limit.
    fn reserve(&self, bytes: usize) -> bool;
    /// Books `bytes` whatever the limit is: for a block that shrinks, and has to move for it.
    fn reserve_beyond(&self, bytes: usize);
    /// Books off what was given back, or not granted after all.
    fn release(&self, bytes: usize);
    /// Bytes held.
    fn held(&self) -> usize;
    /// The limit in bytes; `usize::MAX` for none.
    fn limit(&self) -> usize;
    /// A large block came (`true`) or went, or changed its size by that much.
    fn large(&self, blocks: usize, bytes: usize, came: bool);
    /// Large blocks and their bytes.
    fn large_now(&self) -> (usize, usize);
}

/// Whether a request for memory may exceed the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// It is refused instead.
    Applies,
    /// It is served: a program that shrinks a block does not expect a refusal.
    Lifted,
}

/// The sum that `more` bytes would make, if the limit allows it.
const fn within(held: usize, more: usize, limit: usize) -> Option<usize> {
    match held.checked_add(more) {
        Some(sum) if sum <= limit => Some(sum),
        _ => None,
    }
}

/// The account of a ring for one thread.
#[derive(Debug)]
pub(crate) struct LocalAccount {
    held: OwnerUsize,
    limit: usize,
    large_blocks: OwnerUsize,
    large_bytes: OwnerUsize,
}

impl LocalAccount {
    /// `held` bytes are held already.
    pub(crate) fn new(limit: usize, held: usize) -> Self {
        Self {
            held: OwnerUsize::new(held),
            limit,
            large_blocks: OwnerUsize::new(0),
            large_bytes: OwnerUsize::new(0),
        }
    }
}

impl Account for LocalAccount {
    fn reserve(&self, bytes: usize) -> bool {
        let sum = within(self.held.get(), bytes, self.limit);
        sum.inspect(|&sum| self.held.set(sum)).is_some()
    }

    fn reserve_beyond(&self, bytes: usize) {
        self.held.add(bytes);
    }

    fn release(&self, bytes: usize) {
        self.held.sub(bytes);
    }

    fn held(&self) -> usize {
        self.held.get()
    }

    fn limit(&self) -> usize {
        self.limit
    }

    fn large(&self, blocks: usize, bytes: usize, came: bool) {
        if came {
            self.large_blocks.add(blocks);
            self.large_bytes.add(bytes);
        } else {
            self.large_blocks.sub(blocks);
            self.large_bytes.sub(bytes);
        }
    }

    fn large_now(&self) -> (usize, usize) {
        (self.large_blocks.get(), self.large_bytes.get())
    }
}

#[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
pub(crate) use shared::SharedAccount;

/// The account that all threads share. In slow paths only, so it may be exact.
#[cfg(any(ephemera_loom, all(feature = "std", target_has_atomic = "64")))]
mod shared {
    use super::{Account, UNLIMITED, within};
    use ephemera_prim::sync::{AtomicUsize, Ordering};

    #[derive(Debug)]
    pub(crate) struct SharedAccount {
        held: AtomicUsize,
        limit: AtomicUsize,
        large_blocks: AtomicUsize,
        large_bytes: AtomicUsize,
    }

    impl SharedAccount {
        ephemera_prim::const_unless_loom! {
            pub(crate) fn new() -> Self {
                Self {
                    held: AtomicUsize::new(0),
                    limit: AtomicUsize::new(UNLIMITED),
                    large_blocks: AtomicUsize::new(0),
                    large_bytes: AtomicUsize::new(0),
                }
            }
        }

        #[cfg(not(ephemera_loom))]
        pub(crate) fn set_limit(&self, bytes: usize) {
            self.limit.store(bytes, Ordering::Relaxed);
        }
    }

    impl Account for SharedAccount {
        fn reserve(&self, bytes: usize) -> bool {
            let limit = self.limit();
            self.held
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| within(held, bytes, limit))
                .is_ok()
        }

        fn reserve_beyond(&self, bytes: usize) {
            self.held.fetch_add(bytes, Ordering::Relaxed);
        }

        fn release(&self, bytes: usize) {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }

        fn held(&self) -> usize {
            self.held.load(Ordering::Relaxed)
        }

        fn limit(&self) -> usize {
            self.limit.load(Ordering::Relaxed)
        }

        fn large(&self, blocks: usize, bytes: usize, came: bool) {
            if came {
                self.large_blocks.fetch_add(blocks, Ordering::Relaxed);
                self.large_bytes.fetch_add(bytes, Ordering::Relaxed);
            } else {
                self.large_blocks.fetch_sub(blocks, Ordering::Relaxed);
                self.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        }

        fn large_now(&self) -> (usize, usize) {
            (self.large_blocks.load(Ordering::Relaxed), self.large_bytes.load(Ordering::Relaxed))
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
        let account = LocalAccount::new(100, 30);
        assert!(account.reserve(70));
        assert!(!account.reserve(1));
        assert_eq!(account.held(), 100);
        account.release(70);
        assert_eq!(account.held(), 30);
    }
}
