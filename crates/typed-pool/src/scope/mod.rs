//! `Scope`: a heap for one request.

mod builder;
mod future;
mod usage;

pub use crate::threads::Counts;
pub use builder::{ScopeBuilder, ScopeError};
pub use future::InScope;
pub use usage::{OverLimit, Usage, measure};

use crate::Stats;
use crate::threads::ScopeRef;

/// A heap for one request. It serves everything that [`PooledAllocator`](crate::PooledAllocator)
/// allocates while a thread runs a closure, or polls a future, in the scope.
///
/// The code that runs in a scope does not need any change. A scope reports the bytes that the
/// request holds, records whether they exceeded a limit, and frees its empty units when the request
/// ends.
///
/// # Examples
///
/// ```
/// use typed_pool::{PooledAllocator, Scope};
///
/// #[global_allocator]
/// static HEAP: PooledAllocator = PooledAllocator;
///
/// let scope = Scope::builder().name("request").limit(64 << 20).build();
/// let answer = scope.run(|| {
///     let words: Vec<String> = "one heap for each request".split(' ').map(String::from).collect();
///     words.join(" ")
/// });
/// assert!(!scope.is_over_limit());
/// let usage = scope.finish();
/// assert!(usage.bytes_peak > 0);
/// println!("{usage}");
/// assert_eq!(answer.len(), 25);
/// ```
///
/// # What happens to a block that escapes
///
/// A block of a scope is an ordinary block. It may outlive the scope, and any thread may free it.
///
/// ```text
///   scope.run(|| ...)        live: A, B, C       unit: | A | B | C | . | . | . |
///   A and C are freed        live: B             unit: | . | B | . | . | . | . |
///   scope.finish()           units without a live block are freed; B keeps this one
///   the thread's next scope  live: B, D, E       unit: | D | B | E | . | . | . |
///   B, D and E are freed     live: none          the unit is freed
/// ```
///
/// A cached string therefore does not waste its unit of 32 KiB: the thread's next scopes usually
/// allocate from the rest of the unit. [`Usage`] says which scopes the unit counts for.
///
/// # Costs
///
/// * The fast paths of an allocation and of a free are the same inside and outside of a scope,
///   unless the scope counts ([`ScopeBuilder::counting`]).
/// * Each thread in a scope holds one of the scope's *records*. Each record has separate heaps. A
///   thread that enters the scope leases a record, by one compare-exchange. A thread that leaves
///   releases its record, by a store and a fence. With `PooledAllocator` as the global allocator,
///   entering and leaving together take about 8 ns on an AMD EPYC. A poll takes about 8 ns longer
///   in a scope (`cargo xtask bench --scopes`).
/// * A thread that is in a scope, and in no inner scope, may enter the scope again. It then leases
///   another record only if the scope's first record is free, which is rare.
/// * Freeing a scope's block outside of the scope is a remote free, and so is freeing an outside
///   block in the scope. Each usually takes one atomic operation. While no thread is in the scope,
///   the freeing thread often also leases the record and books the free, which takes about 50 to 90
///   ns.
/// * A scope's heaps have separate units for every size class that the scope uses. While the scope
///   is alive, the heaps keep some empty units. A thread that leaves the scope frees the empty
///   units of each size class that has unbooked remote frees.
/// * A scope frees its empty units when it ends. After 256 scopes in a row on a thread's heaps,
///   each further scope that does not count leaves up to 2 MiB of empty units for the next scope of
///   the thread. One in 16 scopes frees the units that earlier scopes left and that it did not use
///   itself. When a thread trims or ends, it frees the units that its scopes left, and
///   `PooledAllocator.trim_all()` frees these units of all threads. A thread that is in a scope
///   during that call frees the scope's empty units when it leaves, at the latest.
/// * After these 256 scopes, dropping a scope takes less work than [`finish`](Self::finish).
///   `finish` counts the free slots of one unit of every size class in use. A dropped scope does
///   not count these slots. It leaves these units to the next scope, even units with escaped
///   blocks, but never more than 2 MiB of units in total.
/// * A scope is a burst if its peak exceeds both 8 MiB and four times the average peak of the
///   scopes on its heaps. When a burst ends, its freed pages go to the operating system. The freed
///   pages of other scopes wait in the cache of the process.
/// * The heaps of a scope are never freed, and later scopes reuse them. They take about 22 KB per
///   record. A scope needs a record for each thread in it, and another one for each time that such
///   a thread enters it again from an inner scope.
/// * The number of sets of heaps in a process is about the largest number of scopes that were alive
///   at the same time.
/// * A counting scope allocates from its own units only. A block that escapes from the scope
///   therefore pins a unit that no later scope uses.
///
/// # Limits of this design
///
/// * Only blocks of `PooledAllocator` belong to a scope. Values of `PooledBox` and blocks of
///   `pooled_allocator!` allocators do not. Values in a `TypedPool` do not either, but the pool's
///   units do if its backing allocator is `PooledAllocator`, for example as the global allocator.
/// * Several threads may run in a scope at the same time. Each thread has its own heaps, but the
///   figures and the limit of the scope cover all threads together.
/// * Scopes nest. A block counts only for the innermost scope.
/// * A block counts for the scope in which it is allocated. If a map that all requests share grows
///   during a request, its new table counts for that request.
/// * The bytes held are the bytes of whole units. A scope with one block in each of ten size
///   classes above 1 KiB may already hold more than 1 MiB. A limit should be several times that
///   amount.
/// * Before an allocation exceeds the scope's limit, the thread frees its own empty units of the
///   scope, but not the empty units of other threads in the scope. All threads of the scope
///   together do so at most 64 times.
/// * If a block without a size class (more than 32 KiB, or aligned to more than 4 KiB) grows, it
///   counts from then on for the scope in which it grows. A scope that grows another scope's buffer
///   may therefore exceed its limit by the size of that buffer.
#[derive(Debug)]
pub struct Scope {
    handle: ScopeHandle,
}

/// A reference to a [`Scope`] for other tasks and threads. The scope ends when the [`Scope`] value
/// and all of the scope's handles have been dropped.
///
/// # Examples
///
/// ```
/// use typed_pool::{PooledAllocator, Scope};
///
/// #[global_allocator]
/// static HEAP: PooledAllocator = PooledAllocator;
///
/// let scope = Scope::builder().build();
/// let handle = scope.handle();
/// let thread = std::thread::spawn(move || handle.run(|| vec!["in", "the", "scope"]));
/// let words = thread.join().expect("no panic");
/// assert!(scope.usage().bytes_held > 0, "the scope has the vector");
/// assert_eq!(words.len(), 3);
/// ```
#[derive(Debug, Clone)]
pub struct ScopeHandle {
    heaps: ScopeRef,
    name: &'static str,
}

impl Scope {
    /// Runs a closure in this scope, and returns its result. The closure's allocations on this
    /// thread belong to this scope, except allocations in inner scopes.
    ///
    /// If the closure panics, the thread leaves the scope, and the scope stays usable. Other
    /// threads may be in the scope at the same time.
    ///
    /// Some targets build thread-locals on keys of the operating system. On these targets, a
    /// closure that runs after the thread-locals of its thread were destroyed allocates outside of
    /// the scope.
    ///
    /// A thread must leave scopes in the reverse order of entering. A closure that switches stacks,
    /// such as a stackful coroutine, must keep this order.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if there is no memory for the scope's heaps. Also aborts if the
    /// thread leaves this scope before a scope that it entered later.
    #[inline]
    pub fn run<R>(&self, closure: impl FnOnce() -> R) -> R {
        self.handle.run(closure)
    }

    /// Returns a handle through which other tasks and threads can allocate from this scope.
    #[must_use]
    pub fn handle(&self) -> ScopeHandle {
        self.handle.clone()
    }

    /// Returns whether the scope has ever held more than its limit.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.handle.is_over_limit()
    }

    /// Returns the statistics of this scope's heaps: their units and live slots, including slots
    /// that earlier scopes left in these heaps, and the large blocks that count for this scope. The
    /// result is exact while no thread is in the scope. The call walks all units of the scope.
    ///
    /// [`Stats::bytes_held`] and [`Stats::limit`] have the same values as in [`Usage`], so units
    /// that earlier scopes left do not count in `bytes_held`.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.handle.heaps.stats()
    }
}

impl ScopeHandle {
    /// Runs a closure in the scope, and returns its result, like [`Scope::run`].
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if there is no memory for the scope's heaps. Also aborts if the
    /// thread leaves this scope before a scope that it entered later.
    #[inline]
    pub fn run<R>(&self, closure: impl FnOnce() -> R) -> R {
        let _entered = self.heaps.enter();
        closure()
    }

    /// Returns whether the scope has ever held more than its limit.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.heaps.ledger().is_over()
    }
}
