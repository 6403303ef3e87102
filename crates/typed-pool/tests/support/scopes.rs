//! Functions that tests of scopes share.

use allocator_api2::boxed::Box;
use ephemera_testkit::suite::take_turn;
use typed_pool::{PooledAllocator, Scope, ScopeBuilder};

pub(crate) type Block = Box<[u64; 4], PooledAllocator>;

pub(crate) fn builder() -> ScopeBuilder {
    Scope::builder().any_global_allocator()
}

pub(crate) fn block(number: u64) -> Block {
    Box::new_in([number; 4], PooledAllocator)
}

pub(crate) fn held() -> usize {
    PooledAllocator.stats().bytes_held
}

/// Runs a test that checks the bytes that all threads hold. Checks that no bytes are held before
/// and after the test.
pub(crate) fn alone(test: impl FnOnce()) {
    take_turn();
    PooledAllocator.trim_all();
    assert_eq!(held(), 0, "an earlier test left blocks");
    test();
    PooledAllocator.trim_all();
    assert_eq!(held(), 0);
}
