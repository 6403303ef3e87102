//! `Scope`: a heap for a request.

mod builder;
mod future;
mod usage;

pub use builder::{ScopeBuilder, ScopeError};
pub use future::InScope;
pub use usage::{Counts, OverLimit, Usage, measure};

use crate::Stats;
use crate::threads::ScopeRef;

/// A heap for one request: everything that [`PooledAllocator`](crate::PooledAllocator) allocates
/// while a thread runs a closure, or polls a future, in the scope.
///
/// The code that runs in a scope needs no change. A scope reports the bytes that the request holds,
/// notes whether they exceeded a limit, and frees the memory when the request ends.
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
///   scope.run(|| ...)        alive: A, B, C      unit: | A | B | C | . | . | . |
///   A and C are freed        alive: B            unit: | . | B | . | . | . | . |
///   scope.finish()           units without a live block are freed; B keeps this one
///   next scope on the thread alive: B, D, E      unit: | D | B | E | . | . | . |
///   B, D and E are freed     alive: none         the unit is freed
/// ```
///
/// So a cached string does not waste its unit of 32 KiB: the next scopes of the thread allocate
/// from the rest of the unit. [`Usage`] says for which scopes that unit counts.
///
/// # Costs
///
/// * The fast paths of an allocation and of a free are the same inside and outside of a scope.
/// * Each thread that is in a scope has a *record* of the scope, with heaps of its own. Entering
///   the scope leases a record, and leaving releases it: two atomic operations. With
///   `PooledAllocator` as the global allocator, entering and leaving takes about 8 ns on an AMD
///   EPYC, and a poll takes about 8 ns longer in a scope (`cargo xtask bench --scopes`).
/// * Entering the scope that the thread is in already leases nothing if a thread holds the scope's
///   first record, which is the usual case.
/// * A free of a scope's block outside of the scope, or of another block inside, is a remote free:
///   one atomic operation. While no thread is in the scope, the freeing thread often also leases
///   the record and books the free, which takes about 50 to 90 ns.
/// * A scope has units of its own for each size class that it uses. While it is alive, its heaps
///   keep some empty units. A thread that leaves the scope frees the empty units of each size class
///   of which other threads freed blocks since it entered.
/// * A scope frees its empty units when it ends. After more than 256 scopes in a row on a thread's
///   heaps, each scope leaves empty units for the next scope of the thread, up to 2 MiB. One in 16
///   scopes frees the units that it got in this way and did not use. The thread frees all units
///   that scopes left when it trims or ends, and `PooledAllocator.trim_all()` frees those of all
///   threads.
/// * From then on, dropping a scope does less work than [`finish`](Self::finish), which counts the
///   free slots of a unit of each class. A dropped scope leaves these units to the next one
///   uncounted, even those with escaped blocks, within the same 2 MiB.
/// * A scope is a burst if its peak exceeds 8 MiB, and also four times the average peak of the
///   scopes on its heaps. The freed pages of a burst go to the operating system when the scope
///   ends; other freed pages wait in the cache of the process.
/// * Heaps of scopes are never freed and serve later scopes. They take about 22 KB for each record.
///   A scope has a record for each of the threads that were in it at the same time, and one more
///   for each time that a thread entered it again from an inner scope.
/// * The number of heaps is about the greatest number of scopes that were alive at the same time.
/// * A counting scope allocates from its own units only. So each block that escapes from one keeps
///   a unit, which no later scope uses.
///
/// # Limits of this design
///
/// * Only blocks of `PooledAllocator` belong to a scope. Those of `PooledBox` and allocators of
///   `pooled_allocator!` do not. A value in a `TypedPool` does not either, but the pool's units are
///   blocks of its backing allocator, which is `PooledAllocator` if that is the global allocator.
/// * Several threads may run in a scope at the same time. Each has its own heaps, and the figures
///   and the limit of the scope are for all of these threads together.
/// * Scopes nest. A block counts for the innermost one only.
/// * The scope in which the allocation happens pays for it. If a map that all requests share grows
///   in a request, its new table counts for that request.
/// * The bytes held are those of whole units. One block in each of ten size classes above 1 KiB may
///   already hold more than 1 MiB. A limit should be several times that amount.
/// * Before a scope exceeds its limit, the thread frees its own empty units of the scope, but at
///   most 64 times. It does not free those of other threads in the scope.
/// * A block without a size class (more than 32 KiB) that grows counts from then on for the scope
///   in which it grows. So a scope that grows a buffer of another scope may exceed its limit by the
///   size of that buffer.
#[derive(Debug)]
pub struct Scope {
    handle: ScopeHandle,
}

/// A reference to a [`Scope`] for other tasks and threads. The scope ends when the [`Scope`] value
/// and all of its handles are dropped.
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
    /// Returns a builder for a scope without a limit.
    pub const fn builder() -> ScopeBuilder {
        ScopeBuilder::new()
    }

    fn with(name: &'static str, limit: usize, counting: bool) -> Option<Self> {
        let heaps = ScopeRef::start(limit, counting)?;
        Some(Self { handle: ScopeHandle { heaps, name } })
    }

    /// Runs a closure. Its allocations are in this scope, except those in inner scopes.
    ///
    /// If the closure panics, the thread leaves the scope, which can be used as before. Other
    /// threads may be in the scope at the same time.
    ///
    /// Some targets build thread-locals on keys of the operating system. There, a closure that runs
    /// after its thread's locals were destroyed allocates outside of the scope.
    ///
    /// A thread leaves scopes in the reverse of the order in which it entered them. A closure that
    /// switches stacks, as stackful coroutines do, must not break this order.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if there is no memory for heaps of this scope. Also aborts if the
    /// thread leaves this scope before one that it entered later.
    #[inline]
    pub fn run<R>(&self, closure: impl FnOnce() -> R) -> R {
        self.handle.run(closure)
    }

    /// Returns a future that polls `future` in this scope, on any thread. The scope does not end
    /// before the returned future is dropped.
    ///
    /// The output of the returned future is `Err` with an [`OverLimit`] if the scope has exceeded
    /// its limit by the start of a poll, or by the end of a poll that leaves `future` pending. It
    /// does not matter whether the scope is still above its limit. `future` is then dropped, within
    /// the scope. A future that waits is not woken when another future of its scope exceeds the
    /// limit.
    ///
    /// # Aborts
    /// A poll calls `handle_alloc_error` if there is no memory for heaps of this scope.
    pub fn run_async<F: Future>(&self, future: F) -> InScope<F> {
        self.handle.run_async(future)
    }

    /// Returns a handle, through which another task or thread allocates from this scope.
    #[must_use]
    pub fn handle(&self) -> ScopeHandle {
        self.handle.clone()
    }

    /// Returns whether the scope has held more than its limit. It stays `true` from then on.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.handle.is_over_limit()
    }

    /// Returns the bytes that the scope holds now, and their peak.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.handle.usage()
    }

    /// Returns the units and live slots of the heaps of this scope, including those that earlier
    /// scopes left there, and the large blocks that count for this scope. The result is exact while
    /// no thread is in the scope. Walks all units of the scope.
    ///
    /// [`Stats::bytes_held`] and [`Stats::limit`] are those of [`Usage`]: units that earlier scopes
    /// left do not count in them.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.handle.heaps.stats()
    }

    /// Frees the units without a live block, ends the scope, and returns its usage. After many
    /// scopes, some empty units stay for the next one, as the section on costs in [`Scope`] says.
    ///
    /// [`Usage::bytes_held`] then counts the units and larger blocks that the scope allocated and
    /// that are not freed. Escaped blocks may also lie in units of earlier scopes, which do not
    /// count. If there are handles, the scope ends with the last one.
    #[expect(clippy::must_use_candidate, reason = "a scope may end without a report")]
    pub fn finish(self) -> Usage {
        self.handle.heaps.finish();
        self.usage()
    }
}

impl ScopeHandle {
    /// Runs a closure as [`Scope::run`] does.
    ///
    /// # Aborts
    /// Calls `handle_alloc_error` if there is no memory for heaps of this scope. Also aborts if the
    /// thread leaves this scope before one that it entered later.
    #[inline]
    pub fn run<R>(&self, closure: impl FnOnce() -> R) -> R {
        let _entered = self.heaps.enter();
        closure()
    }

    /// Returns a future that polls `future` in the scope, as [`Scope::run_async`] does.
    ///
    /// # Aborts
    /// A poll calls `handle_alloc_error` if there is no memory for heaps of this scope.
    pub fn run_async<F: Future>(&self, future: F) -> InScope<F> {
        InScope::new(self.clone(), future)
    }

    /// Returns whether the scope has held more than its limit.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.heaps.ledger().is_over()
    }

    /// Returns the bytes that the scope holds now, and their peak.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::of(self.name, self.heaps.ledger())
    }

    fn over_limit(&self) -> OverLimit {
        OverLimit::of(self.name, self.heaps.ledger())
    }
}
