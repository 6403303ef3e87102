//! Defines two ways to give a `'static` backing allocator to the allocator under test: [`Shared`],
//! which shares ownership, and [`immortal`], which keeps a value until the program ends.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::ops::Deref;
use std::sync::{Mutex, PoisonError};

use allocator_api2::alloc::Allocator;

/// A backing allocator with several owners. All clones refer to the same allocator.
#[derive(Debug, Default)]
pub struct Shared<A>(Arc<A>);

impl<A> Shared<A> {
    /// Creates the first owner of `allocator`.
    #[must_use]
    pub fn new(allocator: A) -> Self {
        Self(Arc::new(allocator))
    }
}

impl<A> Clone for Shared<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A> Deref for Shared<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

super::pass_on!([A: Allocator] Shared<A>, 0);

/// Keeps `value` until the end of the program. A static refers to it, so leak checkers do not
/// report it.
pub fn immortal<T: Any + Send + Sync>(value: T) -> &'static T {
    static KEPT: Mutex<Vec<&'static (dyn Any + Send + Sync)>> = Mutex::new(Vec::new());
    let value: &'static T = Box::leak(Box::new(value));
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(value);
    value
}
