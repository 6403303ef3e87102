//! `ScopeBuilder`: the configuration of a scope, and the reasons why a scope cannot be created.

use core::error::Error;
use core::fmt;
use core::hint::black_box;
use core::sync::atomic::{AtomicU8, Ordering};

use allocator_api2::alloc::AllocError;
use allocator_api2::boxed::Box;
use ephemera_prim::account::UNLIMITED;

#[cfg(doc)]
use super::{OverLimit, Usage};
use super::{Scope, ScopeHandle};
use crate::threads::ScopeRef;

/// The configuration of a [`Scope`].
///
/// # Examples
///
/// ```
/// use typed_pool::{PooledAllocator, Scope, ScopeBuilder};
///
/// #[global_allocator]
/// static HEAP: PooledAllocator = PooledAllocator;
///
/// const REQUEST: ScopeBuilder = Scope::builder().limit(64 << 20).name("request");
///
/// let scope = REQUEST.build();
/// assert_eq!(scope.run(|| vec![1, 2, 3].len()), 3);
/// assert_eq!(scope.usage().limit, 64 << 20);
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder makes a scope by `build`"]
pub struct ScopeBuilder {
    name: &'static str,
    limit: usize,
    counting: bool,
    any_allocator: bool,
}

/// The reason why a scope cannot be created.
///
/// # Examples
///
/// ```
/// use typed_pool::{Scope, ScopeError};
///
/// // This program has another global allocator.
/// assert_eq!(Scope::builder().try_build().err(), Some(ScopeError::NotGlobal));
/// assert!(Scope::builder().any_global_allocator().try_build().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScopeError {
    /// [`PooledAllocator`](crate::PooledAllocator) is not the global allocator of this program.
    NotGlobal,
    /// There is no memory for the state of a scope.
    NoMemory,
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotGlobal => "a scope needs `typed_pool::PooledAllocator` as the global allocator",
            Self::NoMemory => "there is no memory for a scope",
        })
    }
}

impl Error for ScopeError {}

impl Default for ScopeBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ScopeBuilder {
    /// Creates the configuration of a scope with the name `scope` and without a limit.
    pub const fn new() -> Self {
        Self { name: "scope", limit: UNLIMITED, counting: false, any_allocator: false }
    }

    /// Sets the limit on the bytes that the scope holds, in units and large blocks. The limit is
    /// not exact ([*Limits of this design*](Scope#limits-of-this-design)).
    ///
    /// A scope never refuses a request that exceeds its limit, because most programs abort when an
    /// allocation fails. Instead, [`Scope::run_async`] drops its future, and
    /// [`Scope::is_over_limit`] returns `true`.
    pub const fn limit(self, bytes: usize) -> Self {
        Self { limit: bytes, ..self }
    }

    /// Sets the name, which [`Usage`] and [`OverLimit`] print.
    pub const fn name(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Makes the scope count every allocation in it and every free of its blocks. Each of these
    /// operations then takes the slow path. This setting is for tests: each escaped block keeps its
    /// unit allocated (up to 32 KiB for blocks of up to 512 bytes), and no later scope allocates
    /// from that unit.
    pub const fn counting(self) -> Self {
        Self { counting: true, ..self }
    }

    /// Allows the program to have another global allocator. Then only containers that name
    /// [`PooledAllocator`](crate::PooledAllocator) as their allocator get blocks of the scope.
    pub const fn any_global_allocator(self) -> Self {
        Self { any_allocator: true, ..self }
    }

    /// Creates the scope.
    ///
    /// # Panics
    /// Panics if [`try_build`](Self::try_build) returns an error.
    #[must_use]
    #[track_caller]
    pub fn build(self) -> Scope {
        match self.try_build() {
            Ok(scope) => scope,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates the scope, or returns the reason why it cannot be created.
    ///
    /// # Errors
    /// Returns [`ScopeError::NotGlobal`] if [`PooledAllocator`](crate::PooledAllocator) is not the
    /// global allocator, unless [`any_global_allocator`](Self::any_global_allocator) allows that.
    /// Returns [`ScopeError::NoMemory`] if there is no memory for the state of a scope.
    pub fn try_build(self) -> Result<Scope, ScopeError> {
        if !self.any_allocator && !is_global()? {
            return Err(ScopeError::NotGlobal);
        }
        let heaps = ScopeRef::start(self.limit, self.counting).ok_or(ScopeError::NoMemory)?;
        Ok(Scope { handle: ScopeHandle { heaps, name: self.name } })
    }
}

impl Scope {
    /// Returns a builder for a scope without a limit.
    pub const fn builder() -> ScopeBuilder {
        ScopeBuilder::new()
    }
}

/// The cached result of [`is_global`]: 0 if it is not known yet, 1 for no, and 2 for yes.
static GLOBAL: AtomicU8 = AtomicU8::new(0);

/// Returns whether `PooledAllocator` is the global allocator, or an error if there is no memory for
/// the check. Unless the result is cached, checks whether a counting scope counts a box. Also
/// returns `true` if this thread cannot enter a scope.
fn is_global() -> Result<bool, ScopeError> {
    match GLOBAL.load(Ordering::Relaxed) {
        0 => {
            let probe = Scope::builder().counting().any_global_allocator().try_build()?;
            let entered = probe.handle.heaps.try_enter().map_err(|AllocError| ScopeError::NoMemory)?;
            let Some(entered) = entered else {
                // The thread-locals are destroyed, so this thread cannot enter the scope. This call
                // assumes that `PooledAllocator` is the global allocator. The next call checks
                // again.
                return Ok(true);
            };
            let block = Box::try_new(black_box(0_u64)).map_err(|AllocError| ScopeError::NoMemory)?;
            drop(black_box(block));
            drop(entered);
            let global = probe.handle.heaps.ledger().counts().allocations != 0;
            GLOBAL.store(if global { 2 } else { 1 }, Ordering::Relaxed);
            Ok(global)
        }
        answer => Ok(answer == 2),
    }
}
