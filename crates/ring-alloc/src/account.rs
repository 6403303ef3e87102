//! The account of a ring: the bytes held from its backing allocator, and the limit on them.

use ephemera_prim::word::OwnerUsize;

/// The value that stands for no limit.
pub(crate) const UNLIMITED: usize = usize::MAX;

/// An account of the bytes held: chunks, large blocks, and the ring's own state.
pub(crate) trait Account {
    /// Adds `bytes` before they are requested. Returns `false` and adds nothing if they exceed the
    /// limit.
    fn reserve(&self, bytes: usize) -> bool;
    /// Adds `bytes` even beyond the limit, for a block that has to move in order to shrink.
    fn reserve_beyond(&self, bytes: usize);
    /// Subtracts bytes that were freed, or that the backing allocator refused.
    fn release(&self, bytes: usize);
    /// Returns the bytes held.
    fn held(&self) -> usize;
    /// Returns the limit in bytes, or `usize::MAX` for none.
    fn limit(&self) -> usize;
    /// Adds large blocks and their bytes if `came`, else subtracts them. A resize passes 0 blocks.
    fn large(&self, blocks: usize, bytes: usize, came: bool);
    /// Returns the number of large blocks and of their bytes.
    fn large_now(&self) -> (usize, usize);
}

/// Whether the limit applies to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// A request beyond the limit is refused.
    Applies,
    /// The request may exceed the limit, because a program that shrinks a block expects no refusal.
    Lifted,
}

/// Returns `held + more` if that is within the limit.
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
    /// Creates an account in which `held` bytes are held already.
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

/// The account that all threads share. Only slow paths use it, so it may be exact.
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
    fn limit_is_exact_and_its_sum_does_not_overflow() {
        assert_eq!(within(90, 10, 100), Some(100));
        assert_eq!(within(91, 10, 100), None);
        assert_eq!(within(1, usize::MAX, UNLIMITED), None);
    }

    #[test]
    fn refused_reservation_adds_nothing() {
        let account = LocalAccount::new(100, 30);
        assert!(account.reserve(70));
        assert!(!account.reserve(1));
        assert_eq!(account.held(), 100);
        account.release(70);
        assert_eq!(account.held(), 30);
    }
}
