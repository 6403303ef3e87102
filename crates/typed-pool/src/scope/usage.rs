//! The reports of a scope: `Usage`, `OverLimit`, and `measure`.

use core::error::Error;
use core::fmt;

use super::{Scope, ScopeHandle};
use crate::threads::{Counts, Ledger};

/// The bytes that a scope holds, or held at its end if it has ended.
///
/// The scope's own units and large blocks count, no matter which thread frees a block, or in which
/// scope.
///
/// Units count as a whole. The first block of a size class usually adds a unit. This is a new unit,
/// typically of up to 64 slots, or an empty unit of up to 256 KiB that an earlier scope left. A
/// unit with blocks of an earlier scope does not count, and freeing that unit does not change any
/// figure.
///
/// Each class may have one exception. The unit that a dropped scope allocated from last counts for
/// the next scope that takes the slow path in that class. When that scope finishes, the unit
/// usually stops counting. It continues to count if the scope has used up the unit's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The scope's name.
    pub name: &'static str,
    /// The bytes in units and large blocks that the scope allocated and that have not been freed.
    pub bytes_held: usize,
    /// The maximum of `bytes_held` so far.
    pub bytes_peak: usize,
    /// The limit on `bytes_held`, or `usize::MAX` for no limit.
    pub limit: usize,
    /// Whether `bytes_held` has ever exceeded the limit.
    pub over_limit: bool,
    /// The counts of a counting scope, or `None` for any other scope.
    pub counts: Option<Counts>,
}

impl Usage {
    fn of(name: &'static str, ledger: &Ledger) -> Self {
        let held = ledger.held();
        Self {
            name,
            bytes_held: held,
            // Another thread may have added bytes without raising the peak yet.
            bytes_peak: ledger.peak().max(held),
            limit: ledger.limit(),
            over_limit: ledger.is_over(),
            counts: ledger.is_counting().then(|| ledger.counts()),
        }
    }
}

impl Counts {
    /// Returns the number of live blocks.
    #[must_use]
    pub fn live(&self) -> usize {
        self.allocations.saturating_sub(self.frees)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, bytes_held, bytes_peak, .. } = self;
        write!(f, "{name}: {bytes_held} bytes held, {bytes_peak} at most")?;
        if self.over_limit {
            write!(f, ", over the limit of {}", self.limit)?;
        }
        match &self.counts {
            Some(counts) => write!(f, ", {counts}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allocations, bytes, frees, bytes_live, bytes_live_peak } = self;
        write!(
            f,
            "{allocations} allocations of {bytes} bytes, {frees} frees, \
             {bytes_live} bytes live, {bytes_live_peak} at most"
        )
    }
}

/// The error of a future that was dropped because its scope exceeded the limit.
///
/// # Examples
///
/// ```
/// use core::future::{Future, pending};
/// use core::task::{Context, Poll, Waker};
///
/// use typed_pool::{PooledAllocator, Scope};
///
/// #[global_allocator]
/// static HEAP: PooledAllocator = PooledAllocator;
///
/// let scope = Scope::builder().limit(1 << 20).build();
/// let mut request = Box::pin(scope.run_async(async {
///     let _too_much = vec![0_u8; 4 << 20];
///     pending::<()>().await;
/// }));
/// let polled = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
/// let Poll::Ready(Err(over)) = polled else { panic!("the future holds more than the limit") };
/// assert!(over.limit == 1 << 20 && over.bytes_peak >= 4 << 20);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverLimit {
    /// The scope's name.
    pub name: &'static str,
    /// The limit in bytes.
    pub limit: usize,
    /// The maximum number of bytes that the scope held.
    pub bytes_peak: usize,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, limit, bytes_peak } = self;
        write!(f, "{name} held {bytes_peak} bytes, more than its limit of {limit}")
    }
}

impl Error for OverLimit {}

impl Scope {
    /// Returns the bytes that the scope holds now, and their peak.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.handle.usage()
    }

    /// Frees the units without a live block, ends the scope, and returns its usage. If the scope
    /// has handles, it ends when the last handle is dropped. After many scopes, some empty units
    /// stay for the next scope (see the section on costs in [`Scope`]).
    ///
    /// [`Usage::bytes_held`] then counts the units and large blocks that the scope allocated and
    /// that have not been freed. Escaped blocks may also lie in units of earlier scopes, but those
    /// units do not count.
    pub fn finish(self) -> Usage {
        let ScopeHandle { heaps, name } = self.handle;
        heaps.finish(|ledger| Usage::of(name, ledger))
    }
}

impl ScopeHandle {
    /// Returns the bytes that the scope holds now, and their peak.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::of(self.name, self.heaps.ledger())
    }

    pub(super) fn over_limit(&self) -> OverLimit {
        let ledger = self.heaps.ledger();
        OverLimit { name: self.name, limit: ledger.limit(), bytes_peak: ledger.peak() }
    }
}

/// Runs a closure in a counting scope and returns the usage of that scope. This function is for
/// tests.
///
/// The counts are exact, even while other threads allocate, because blocks that another thread
/// allocates do not count. The result of the closure is dropped in the scope.
///
/// # Examples
///
/// ```
/// # #[global_allocator]
/// # static HEAP: typed_pool::PooledAllocator = typed_pool::PooledAllocator;
/// use typed_pool::measure;
///
/// let usage = measure(|| (0..100).collect::<Vec<u64>>());
/// let counts = usage.counts.unwrap();
/// assert_eq!((counts.allocations, counts.frees), (1, 1), "{usage}");
/// ```
///
/// # Panics
/// Panics if [`ScopeBuilder::build`](super::ScopeBuilder::build) does, or if the closure does.
///
/// # Aborts
/// Aborts like [`Scope::run`] if there is no memory for the scope's heaps.
#[must_use]
#[track_caller]
pub fn measure<R>(closure: impl FnOnce() -> R) -> Usage {
    let scope = Scope::builder().name("measure").counting().build();
    scope.run(|| drop(closure()));
    scope.finish()
}
