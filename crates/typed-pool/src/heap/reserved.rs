//! Bytes that are counted on an account before the backing allocator grants them, and until it has
//! freed them.

use allocator_api2::alloc::AllocError;

use crate::account::Account;

/// Reserves bytes under the limit and calls `ask`. If that fails, it releases the bytes.
pub(crate) fn reserved<A: Account, T>(
    account: &A,
    bytes: usize,
    ask: impl FnOnce() -> Result<T, AllocError>,
) -> Result<T, AllocError> {
    let reserved = Reserved::take(account, bytes)?;
    let got = ask()?;
    core::mem::forget(reserved);
    Ok(got)
}

/// Bytes that are reserved and not granted yet, or that are about to be freed. Dropping this
/// releases them, also when the backing allocator unwinds.
pub(super) struct Reserved<'a, A: Account> {
    pub(super) account: &'a A,
    pub(super) bytes: usize,
}

impl<'a, A: Account> Reserved<'a, A> {
    fn take(account: &'a A, bytes: usize) -> Result<Self, AllocError> {
        if account.reserve(bytes) { Ok(Self { account, bytes }) } else { Err(AllocError) }
    }
}

impl<A: Account> Drop for Reserved<'_, A> {
    fn drop(&mut self) {
        self.account.release(self.bytes);
    }
}
