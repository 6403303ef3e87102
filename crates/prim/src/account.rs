//! The account of a pool: the bytes held from its backing allocator, and the limit on them.
//!
//! A pool reserves bytes on its account before it requests them, and releases them after it has
//! freed them. Only slow paths change an account. A pool for one thread has a [`LocalAccount`], and
//! a pool for all threads a [`SharedAccount`]. The account also counts *large blocks*, which the
//! backing allocator serves directly (see [`large`](crate::large)).

use allocator_api2::alloc::AllocError;

use crate::sync::{AtomicUsize, Ordering, change_if};
use crate::word::OwnerUsize;

/// The value of a limit that allows any number of bytes.
pub const UNLIMITED: usize = usize::MAX;

/// Counts the bytes that a pool holds, and limits them.
pub trait Account {
    /// Adds `bytes` before the pool requests them. Returns `false`, without adding them, if the sum
    /// would exceed the limit.
    fn reserve(&self, bytes: usize) -> bool;
    /// Adds `bytes`, even if the sum exceeds the limit.
    fn reserve_beyond(&self, bytes: usize);
    /// Subtracts bytes that were freed, or reserved bytes that the backing allocator refused.
    fn release(&self, bytes: usize);
    /// Adds `blocks` large blocks and their `bytes` if `adds` is true, and subtracts them
    /// otherwise. A resize passes 0 blocks.
    fn large(&self, blocks: usize, bytes: usize, adds: bool);
    /// Returns the current sums of the account.
    fn now(&self) -> Booked;
    /// Notes that a heap may now have an empty unit, so that a thread whose request is refused
    /// searches the heaps again. Does nothing by default.
    fn spare(&self) {}
}

/// The sums of an account, and its limit. While other threads change the account, the sums may
/// belong to different moments.
#[derive(Debug, Clone, Copy)]
pub struct Booked {
    /// The bytes that the pool holds from its backing allocator.
    pub held: usize,
    /// The limit in bytes, or [`UNLIMITED`].
    pub limit: usize,
    /// The number of live large blocks.
    pub large_blocks: usize,
    /// The bytes of the live large blocks.
    pub large_bytes: usize,
}

/// Whether the limit applies to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The limit applies: a request that would exceed it is refused.
    Applies,
    /// The limit does not apply, because a program does not expect a shrink to be refused.
    Lifted,
}

/// Returns `held + more`, or `None` if the sum overflows or exceeds `limit`.
const fn within(held: usize, more: usize, limit: usize) -> Option<usize> {
    match held.checked_add(more) {
        Some(sum) if sum <= limit => Some(sum),
        _ => None,
    }
}

/// Returns `word + by` if `adds` is true, and `word - by` otherwise. Both wrap: if several threads
/// share a count and each of them has a word for its part, a part may be below zero.
pub const fn changed(word: usize, by: usize, adds: bool) -> usize {
    if adds { word.wrapping_add(by) } else { word.wrapping_sub(by) }
}

/// The account of a pool for one thread. Its words are [`OwnerUsize`]s rather than `Cell`s: an
/// update of an [`OwnerUsize`] takes one instruction, whereas the compiler turns updates of
/// adjacent `Cell`s into longer vector code.
#[derive(Debug)]
pub struct LocalAccount {
    held: OwnerUsize,
    limit: usize,
    large_blocks: OwnerUsize,
    large_bytes: OwnerUsize,
}

impl LocalAccount {
    crate::const_unless_loom! {
        /// Creates an account of zero bytes with this limit.
        pub fn new(limit: usize) -> Self {
            let (held, large_blocks) = (OwnerUsize::new(0), OwnerUsize::new(0));
            Self { held, limit, large_blocks, large_bytes: OwnerUsize::new(0) }
        }
    }
}

impl Account for LocalAccount {
    #[inline]
    fn reserve(&self, bytes: usize) -> bool {
        let sum = within(self.held.get(), bytes, self.limit);
        sum.inspect(|&sum| self.held.set(sum)).is_some()
    }

    #[inline]
    fn reserve_beyond(&self, bytes: usize) {
        self.held.add(bytes);
    }

    #[inline]
    fn release(&self, bytes: usize) {
        self.held.sub(bytes);
    }

    #[inline]
    fn large(&self, blocks: usize, bytes: usize, adds: bool) {
        if adds {
            self.large_blocks.add(blocks);
            self.large_bytes.add(bytes);
        } else {
            self.large_blocks.sub(blocks);
            self.large_bytes.sub(bytes);
        }
    }

    #[inline]
    fn now(&self) -> Booked {
        Booked {
            held: self.held.get(),
            limit: self.limit,
            large_blocks: self.large_blocks.get(),
            large_bytes: self.large_bytes.get(),
        }
    }
}

/// The bytes that a pool for several threads holds, and the limit on them. The sum is exact because
/// every change is a read-modify-write. Only slow paths make such changes.
#[derive(Debug)]
pub struct SharedBytes {
    held: AtomicUsize,
    limit: AtomicUsize,
}

impl SharedBytes {
    crate::const_unless_loom! {
        /// Creates a sum of zero bytes with this limit.
        pub fn new(limit: usize) -> Self {
            Self { held: AtomicUsize::new(0), limit: AtomicUsize::new(limit) }
        }
    }

    /// Returns the number of bytes held.
    #[inline]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the limit in bytes.
    #[inline]
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns whether there is a limit. The answer may be out of date.
    pub fn is_limited(&self) -> bool {
        self.limit() != UNLIMITED
    }

    /// Adds `bytes`, and returns the number of bytes held before.
    ///
    /// # Errors
    /// Returns the number of bytes held, without adding `bytes`, if the sum would exceed the limit.
    #[inline]
    pub fn reserve(&self, bytes: usize) -> Result<usize, usize> {
        let (limit, relaxed) = (self.limit(), Ordering::Relaxed);
        let exchange = |held, sum| self.held.compare_exchange_weak(held, sum, relaxed, relaxed);
        change_if(self.held(), exchange, |held| within(held, bytes, limit))
    }

    /// Subtracts `bytes` from the bytes held.
    #[inline]
    pub fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The account of a pool for all threads.
#[derive(Debug)]
pub struct SharedAccount {
    bytes: SharedBytes,
    /// Starts at 1. Grows by 1 with each call to [`Account::spare`] under a limit, and with each
    /// change of the limit.
    spares: AtomicUsize,
    large_blocks: AtomicUsize,
    large_bytes: AtomicUsize,
}

impl SharedAccount {
    crate::const_unless_loom! {
        /// Creates an account without bytes and without a limit.
        pub fn new() -> Self {
            Self {
                bytes: SharedBytes::new(UNLIMITED),
                spares: AtomicUsize::new(1),
                large_blocks: AtomicUsize::new(0),
                large_bytes: AtomicUsize::new(0),
            }
        }
    }

    /// Sets the limit in bytes.
    pub fn set_limit(&self, bytes: usize) {
        self.bytes.limit.store(bytes, Ordering::Relaxed);
        self.spares.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether there is a limit. The answer may be out of date.
    pub fn is_limited(&self) -> bool {
        self.bytes.is_limited()
    }

    /// Returns a number, never zero, that grows with each event after which another heap may have
    /// an empty unit to free. Returns `None` if there is no limit, because the account does not
    /// count these events without one.
    pub fn spares(&self) -> Option<usize> {
        self.is_limited().then(|| self.spares.load(Ordering::Relaxed))
    }
}

impl Account for SharedAccount {
    #[inline]
    fn reserve(&self, bytes: usize) -> bool {
        self.bytes.reserve(bytes).is_ok()
    }

    #[inline]
    fn reserve_beyond(&self, bytes: usize) {
        self.bytes.held.fetch_add(bytes, Ordering::Relaxed);
    }

    #[inline]
    fn release(&self, bytes: usize) {
        self.bytes.release(bytes);
    }

    #[inline]
    fn large(&self, blocks: usize, bytes: usize, adds: bool) {
        self.large_blocks.fetch_add(changed(0, blocks, adds), Ordering::Relaxed);
        self.large_bytes.fetch_add(changed(0, bytes, adds), Ordering::Relaxed);
    }

    #[inline]
    fn now(&self) -> Booked {
        Booked {
            held: self.bytes.held(),
            limit: self.bytes.limit(),
            large_blocks: self.large_blocks.load(Ordering::Relaxed),
            large_bytes: self.large_bytes.load(Ordering::Relaxed),
        }
    }

    #[inline]
    fn spare(&self) {
        if self.is_limited() {
            self.spares.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Bytes that the pool is about to free, or that the backing allocator may still refuse. Dropping
/// this value releases them from the account, even if the backing allocator unwinds.
#[derive(Debug)]
pub struct Leaving<'a, A: Account> {
    account: &'a A,
    bytes: usize,
}

impl<'a, A: Account> Leaving<'a, A> {
    /// Creates a value whose drop releases `bytes` from `account`. At the drop, the pool must no
    /// longer hold these bytes.
    #[inline]
    pub fn new(account: &'a A, bytes: usize) -> Self {
        Self { account, bytes }
    }
}

impl<A: Account> Drop for Leaving<'_, A> {
    #[inline]
    fn drop(&mut self) {
        self.account.release(self.bytes);
    }
}

/// Reserves `bytes` and returns the result of `ask`. If `ask` fails or unwinds, releases the bytes.
///
/// # Errors
/// Returns [`AllocError`] if the reservation would exceed a limit that applies, or the error of
/// `ask`.
#[inline]
pub fn reserved<A: Account, T>(
    account: &A,
    bytes: usize,
    limit: Limit,
    ask: impl FnOnce() -> Result<T, AllocError>,
) -> Result<T, AllocError> {
    if limit == Limit::Lifted {
        account.reserve_beyond(bytes);
    } else if !account.reserve(bytes) {
        return Err(AllocError);
    }
    let undo = Leaving::new(account, bytes);
    let got = ask()?;
    core::mem::forget(undo);
    Ok(got)
}

#[cfg(all(test, feature = "std", not(ephemera_loom)))]
mod tests;
