//! `Ledger`: the bytes that a scope holds, its limit, and its counts.
//!
//! All records of a scope share one ledger. Only slow paths change it: a request for a unit, the
//! release of one, and large blocks. A counting scope also counts each allocation and each free.

use ephemera_prim::sync::{AtomicUsize, Ordering};

/// The limit that stands for no limit.
pub(crate) const NO_LIMIT: usize = usize::MAX;

/// The figures of a scope. Any thread may add to them, so each step is one atomic operation.
///
/// The ledger belongs to one scope at a time. It outlives the scope, because threads that free the
/// scope's last units still subtract from it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Ledger {
    /// Bytes of units and large blocks, including `base`. Below zero it wraps.
    held: AtomicUsize,
    /// The bytes that were held when the scope began: units that earlier scopes left.
    base: AtomicUsize,
    /// Bytes of blocks without a size class that threads allocated in the scope, minus those that
    /// they freed in it. It is at least zero: the block of a free may be from elsewhere.
    large: AtomicUsize,
    /// The most bytes held since the scope began, without `base`.
    peak: AtomicUsize,
    limit: AtomicUsize,
    /// Not zero if the scope has held more than its limit.
    over: AtomicUsize,
    allocations: AtomicUsize,
    allocated: AtomicUsize,
    frees: AtomicUsize,
    /// Bytes of live slots.
    live: AtomicUsize,
    live_peak: AtomicUsize,
    /// Bytes of the units of a counting scope, including those of earlier ones.
    units: AtomicUsize,
    /// Whether each allocation and each free is counted. It never changes.
    counting: bool,
}

/// The counts of a counting scope, as raw sums.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LedgerCounts {
    pub(crate) allocations: usize,
    pub(crate) allocated: usize,
    pub(crate) frees: usize,
    pub(crate) live: usize,
    pub(crate) live_peak: usize,
}

/// Returns a sum that other threads may have taken below zero, as zero in that case.
fn at_least_zero(sum: usize) -> usize {
    usize::try_from(sum as isize).unwrap_or(0)
}

impl Ledger {
    ephemera_prim::const_unless_loom! {
        /// Creates a ledger without bytes.
        pub(crate) fn new(counting: bool) -> Self {
            Self {
                held: AtomicUsize::new(0),
                base: AtomicUsize::new(0),
                large: AtomicUsize::new(0),
                peak: AtomicUsize::new(0),
                limit: AtomicUsize::new(NO_LIMIT),
                over: AtomicUsize::new(0),
                allocations: AtomicUsize::new(0),
                allocated: AtomicUsize::new(0),
                frees: AtomicUsize::new(0),
                live: AtomicUsize::new(0),
                live_peak: AtomicUsize::new(0),
                units: AtomicUsize::new(0),
                counting,
            }
        }
    }

    /// Returns whether each allocation and each free is counted.
    pub(crate) fn is_counting(&self) -> bool {
        self.counting
    }

    /// Begins a scope: what is held now belongs to earlier scopes.
    pub(crate) fn begin(&self, limit: usize) {
        self.base.store(self.held.load(Ordering::Relaxed), Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
        let zeros = [&self.peak, &self.over, &self.allocations, &self.allocated, &self.frees];
        for word in zeros.into_iter().chain([&self.live, &self.live_peak, &self.large]) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Adds bytes. Bytes beyond the limit are added too, and mark the scope.
    pub(crate) fn add(&self, bytes: usize) {
        let held = if cfg!(ephemera_weaken = "scope_adds_in_two_steps") {
            let held = self.held.load(Ordering::Relaxed);
            self.held.store(held.wrapping_add(bytes), Ordering::Relaxed);
            held
        } else {
            self.held.fetch_add(bytes, Ordering::Relaxed)
        };
        let own = at_least_zero(held.wrapping_add(bytes).wrapping_sub(self.base.load(Ordering::Relaxed)));
        self.peak.fetch_max(own, Ordering::Relaxed);
        if own > self.limit.load(Ordering::Relaxed) {
            self.over.store(1, Ordering::Relaxed);
        }
    }

    /// Subtracts bytes.
    pub(crate) fn sub(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Adds bytes of a block without a size class.
    pub(crate) fn add_large(&self, bytes: usize) {
        self.large.fetch_add(bytes, Ordering::Relaxed);
        self.add(bytes);
    }

    /// Subtracts bytes of a block without a size class that a thread frees in the scope. The block
    /// does not name its scope. So this subtracts at most the bytes of such blocks that the scope
    /// still has: a free of other blocks must not raise the limit.
    pub(crate) fn sub_large(&self, bytes: usize) {
        let less = |large: usize| Some(large.saturating_sub(bytes));
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.large.fetch_update(success, failure, less).unwrap_or(0);
        self.sub(bytes.min(before));
    }

    /// Adds the bytes of a unit.
    pub(crate) fn add_unit(&self, bytes: usize) {
        if self.counting {
            self.units.fetch_add(bytes, Ordering::Relaxed);
        }
        self.add(bytes);
    }

    /// Subtracts the bytes of a unit.
    pub(crate) fn sub_unit(&self, bytes: usize) {
        if self.counting {
            self.units.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.sub(bytes);
    }

    /// Counts the allocation of a slot in a counting scope.
    pub(crate) fn count_allocation(&self, bytes: usize) {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        self.allocated.fetch_add(bytes, Ordering::Relaxed);
        let live = self.live.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
        self.mark_live_peak(live);
    }

    /// Counts the free of a slot in a counting scope.
    pub(crate) fn count_free(&self, bytes: usize) {
        self.frees.fetch_add(1, Ordering::Relaxed);
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts blocks without a size class that a counting scope allocated, or the growth of one,
    /// which passes 0 blocks. Their bytes were added before.
    pub(crate) fn count_large(&self, blocks: usize, bytes: usize) {
        self.allocations.fetch_add(blocks, Ordering::Relaxed);
        self.allocated.fetch_add(bytes, Ordering::Relaxed);
        self.mark_live_peak(self.live.load(Ordering::Relaxed));
    }

    /// Counts frees of blocks without a size class in a counting scope.
    pub(crate) fn count_large_free(&self, blocks: usize) {
        self.frees.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Raises the peak of live bytes, given those of slots.
    fn mark_live_peak(&self, slots: usize) {
        self.live_peak.fetch_max(self.with_large(slots), Ordering::Relaxed);
    }

    fn with_large(&self, slots: usize) -> usize {
        at_least_zero(slots).saturating_add(self.large.load(Ordering::Relaxed))
    }

    /// Returns the bytes of the units of a counting scope, including those of earlier ones.
    pub(crate) fn counted_units(&self) -> usize {
        self.units.load(Ordering::Relaxed)
    }

    /// Returns the bytes that the scope holds.
    pub(crate) fn held(&self) -> usize {
        at_least_zero(self.held.load(Ordering::Relaxed).wrapping_sub(self.base.load(Ordering::Relaxed)))
    }

    /// Returns the most bytes that the scope held.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns whether the scope has held more than its limit.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) != 0
    }

    /// Returns the counts of a counting scope.
    pub(crate) fn counts(&self) -> LedgerCounts {
        LedgerCounts {
            allocations: self.allocations.load(Ordering::Relaxed),
            allocated: self.allocated.load(Ordering::Relaxed),
            frees: self.frees.load(Ordering::Relaxed),
            live: self.with_large(self.live.load(Ordering::Relaxed)),
            live_peak: self.live_peak.load(Ordering::Relaxed),
        }
    }
}
