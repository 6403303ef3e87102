//! Counts the nodes that a structure makes and frees.

use super::{ALLOCS, Counted, FREES, LIVE, Relaxed, born, died};
use crate::card::Info;
use crate::nodes::{Node, NodeFamily};

/// Adds allocations that a contender outside of Rust counted itself.
#[cfg(ephemera_cpp)]
pub(crate) fn add_allocations(allocations: u64) {
    ALLOCS.fetch_add(allocations, Relaxed);
}

// SAFETY: every call goes to the contender's own pools, which keep the contract.
unsafe impl<F: NodeFamily> NodeFamily for Counted<F> {
    const INFO: Info = F::INFO;
    type Box<T: Node> = F::Box<T>;
    type Pool<T: Node> = F::Pool<T>;
    type Metered = Self;
    type Backing = F::Backing;

    fn create() -> Self {
        Self(F::create())
    }

    fn pool<T: Node>(&self) -> F::Pool<T> {
        self.0.pool()
    }

    unsafe fn raw_put<T: Node>(pool: &F::Pool<T>, value: T) -> Option<F::Box<T>> {
        ALLOCS.fetch_add(1, Relaxed);
        born(size_of::<T>());
        // SAFETY: the caller's duty is the callee's.
        unsafe { F::raw_put(pool, value) }
    }

    unsafe fn raw_take<T: Node>(pool: &F::Pool<T>, node: F::Box<T>) {
        FREES.fetch_add(1, Relaxed);
        died(size_of::<T>());
        // SAFETY: the caller's duty is the callee's.
        unsafe { F::raw_take(pool, node) }
    }

    unsafe fn reset(&mut self) {
        // A reset also ends the nodes that were not freed one by one.
        LIVE.store(0, Relaxed);
        // SAFETY: the caller's duty is the callee's.
        unsafe { self.0.reset() }
    }
}
