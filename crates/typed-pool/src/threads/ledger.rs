//! `Ledger`: the bytes that a scope holds, its limit, and its counts.
//!
//! All records of a scope share one ledger. Unless the scope counts, only slow paths change the
//! ledger: slow paths that request or free units, and the paths of large blocks. In a counting
//! scope, each allocation and each free also changes it.
//!
//! When a scope ends, its heaps and their ledger serve later scopes, so the scopes of one ledger
//! are numbered. Each unit and each large block has a *birth*: the number of the scope that it
//! counts for. The birth ensures that the free of an earlier scope's block does not change any
//! figure of the current scope.

use ephemera_prim::account::{Booked, UNLIMITED};
use ephemera_prim::sync::{AtomicU64, AtomicUsize, Ordering};

use super::tagged::TaggedSum;

/// The maximum number of trims that threads make to keep one scope within its limit.
const TRIMS: usize = 64;

/// The divisors of the moving average of peaks, the usual peak. A scope with a higher peak raises
/// the usual peak by 1/`RISE` of the difference, and a scope with a lower peak lowers it by
/// 1/`FALL` of the difference. Therefore, if all scopes of a program have the same large peak, only
/// the first three are bursts. If one scope in a thousand is large, it is always a burst.
const RISE: usize = 8;
const FALL: usize = 64;

/// The factor that defines a burst: a scope whose peak exceeds `BURST` times the usual peak, and
/// also [`BURST_LEAST`] bytes.
const BURST: usize = 4;
const BURST_LEAST: usize = 8 << 20;

/// The bytes, the limit and the counts of a scope. Several threads may change a word at once, so
/// each such change is one atomic operation.
///
/// A ledger belongs to one scope at a time. It outlives the scope, because threads that free the
/// scope's last units still subtract from it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Ledger {
    /// The number of the current scope. It changes only while no thread is in a scope of this
    /// ledger.
    birth: AtomicU64,
    /// The bytes of the units and large blocks that count for the scope.
    held: TaggedSum,
    /// The number of live large blocks that count for the scope, and their bytes.
    large_blocks: TaggedSum,
    large_bytes: TaggedSum,
    /// The maximum of `held` since the scope began.
    peak: AtomicUsize,
    limit: AtomicUsize,
    /// The number of scopes that threads with a record ended on these heaps since the last
    /// `forget_streak`. While this number exceeds `STREAK`, the heaps may keep units for the next
    /// scope.
    streak: AtomicUsize,
    /// The usual peak in bytes: a moving average of the peaks of the scopes on these heaps.
    usual: AtomicUsize,
    /// The number of trims that threads have made to keep the scope within its limit.
    trims: AtomicUsize,
    allocations: AtomicUsize,
    allocated: AtomicUsize,
    frees: TaggedSum,
    /// The bytes of live blocks.
    live: TaggedSum,
    live_peak: AtomicUsize,
    /// Whether the scope counts each allocation and each free. Never changes.
    counting: bool,
}

/// The counts of a counting scope.
///
/// A block counts with the bytes of its slot: its size, rounded up to a size class. Resizing a
/// block within its slot does not change any count. Moving it to another slot counts as an
/// allocation and a free. The counts are exact, no matter which thread frees a block, or in which
/// scope.
///
/// A block without a size class (more than 32 KiB, or aligned to more than 4 KiB) counts with its
/// size. If the block grows in its own scope, the growth adds to the bytes, but not to the
/// allocations, even if the block moves. If it grows elsewhere, it counts as freed in its own
/// scope, and as allocated in the scope where it grows, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(ephemera_loom, expect(unreachable_pub, reason = "models have no `Scope`"))]
pub struct Counts {
    /// The number of allocations.
    pub allocations: usize,
    /// The bytes of all allocated blocks, plus the bytes by which blocks without a size class grew.
    pub bytes: usize,
    /// The number of frees of the scope's blocks, on any thread and in any scope.
    pub frees: usize,
    /// The bytes of the blocks that are live.
    pub bytes_live: usize,
    /// The maximum of `bytes_live` so far.
    pub bytes_live_peak: usize,
}

impl Ledger {
    ephemera_prim::const_unless_loom! {
        /// Creates a ledger without bytes.
        pub(crate) fn new(counting: bool) -> Self {
            Self {
                birth: AtomicU64::new(0),
                held: TaggedSum::new(),
                large_blocks: TaggedSum::new(),
                large_bytes: TaggedSum::new(),
                peak: AtomicUsize::new(0),
                limit: AtomicUsize::new(UNLIMITED),
                streak: AtomicUsize::new(0),
                usual: AtomicUsize::new(0),
                trims: AtomicUsize::new(0),
                allocations: AtomicUsize::new(0),
                allocated: AtomicUsize::new(0),
                frees: TaggedSum::new(),
                live: TaggedSum::new(),
                live_peak: AtomicUsize::new(0),
                counting,
            }
        }
    }

    pub(crate) fn is_counting(&self) -> bool {
        self.counting
    }

    /// Returns the number of the current scope, which is at least 1, or 0 before the first scope.
    pub(crate) fn birth(&self) -> u64 {
        self.birth.load(Ordering::Relaxed)
    }

    /// Begins a scope. Units and blocks of earlier scopes do not count for it.
    pub(crate) fn begin(&self, limit: usize) {
        let birth = self.birth() + 1;
        self.birth.store(birth, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
        for sum in [&self.held, &self.large_blocks, &self.large_bytes, &self.frees, &self.live] {
            sum.begin(birth);
        }
        for word in [&self.peak, &self.trims, &self.allocations, &self.allocated, &self.live_peak] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a scope that ends. Returns whether at least `scopes` other scopes have ended on these
    /// heaps since the last [`Self::forget_streak`]. The next scope then probably needs the same
    /// units.
    pub(crate) fn note_end(&self, scopes: usize) -> bool {
        self.streak.fetch_add(1, Ordering::Relaxed) >= scopes
    }

    /// Compares the peak of the scope that ends with the usual peak, then updates the usual peak.
    /// If the scope is a burst, returns its peak in bytes: the next scopes probably need less
    /// memory. Returns `None` for any other scope.
    pub(crate) fn note_peak(&self) -> Option<usize> {
        let (peak, usual) = (self.peak(), self.usual.load(Ordering::Relaxed));
        let next = match peak.checked_sub(usual) {
            Some(above) => usual + above / RISE,
            None => usual - (usual - peak) / FALL,
        };
        self.usual.store(next, Ordering::Relaxed);
        let is_burst = peak / BURST > usual.max(BURST_LEAST / BURST);
        (is_burst && !weakened!("scopes_keep_bursts")).then_some(peak)
    }

    /// Resets the count of ended scopes. The caller must free the units that those scopes left.
    pub(crate) fn forget_streak(&self) {
        self.streak.store(0, Ordering::Relaxed);
    }

    /// Adds bytes to the current scope, and raises its peak to the sum. If the peak then exceeds
    /// the limit, the scope is over its limit. Only a thread in the scope may call this.
    pub(crate) fn add(&self, bytes: usize) {
        self.peak.fetch_max(self.held.add(bytes), Ordering::Relaxed);
    }

    /// Returns whether `bytes` more would exceed the limit and the thread should first free its
    /// empty units of the scope. Returns `true` at most [`TRIMS`] times for each scope, and never
    /// after the scope has exceeded its limit.
    #[inline]
    pub(crate) fn may_trim_for(&self, bytes: usize) -> bool {
        self.held().saturating_add(bytes) > self.limit() && self.may_trim()
    }

    #[cold]
    fn may_trim(&self) -> bool {
        let trims = if weakened!("empty_units_exceed_the_limit") { 0 } else { TRIMS };
        !self.is_over() && self.trims.fetch_add(1, Ordering::Relaxed) < trims
    }

    /// Subtracts the bytes of a unit or block, unless this birth belongs to an earlier scope. Any
    /// thread may call this.
    pub(crate) fn sub(&self, bytes: usize, birth: u64) {
        if self.is_current(birth) {
            self.held.sub_for(bytes, birth);
        }
    }

    /// Adds `blocks` large blocks of `bytes` bytes in total, under the rules of [`Self::add`]. The
    /// growth of a block adds 0 blocks. A counting scope also counts the allocation.
    pub(crate) fn add_large(&self, blocks: usize, bytes: usize) {
        self.large_blocks.add(blocks);
        self.large_bytes.add(bytes);
        self.add(bytes);
        if self.counting {
            self.count_new(blocks, bytes);
        }
    }

    /// Subtracts large blocks with this birth. A shrink of a block subtracts 0 blocks. A counting
    /// scope also counts the free. Any thread may call this.
    pub(crate) fn sub_large(&self, blocks: usize, bytes: usize, birth: u64) {
        if self.is_current(birth) {
            self.large_blocks.sub_for(blocks, birth);
            self.large_bytes.sub_for(bytes, birth);
            self.held.sub_for(bytes, birth);
        }
        if self.counting {
            self.count_gone(blocks, bytes, birth);
        }
    }

    /// Returns the bytes, the limit and the large blocks of the scope.
    pub(crate) fn booked(&self) -> Booked {
        Booked {
            held: self.held(),
            limit: self.limit(),
            large_blocks: self.large_blocks.get(),
            large_bytes: self.large_bytes.get(),
        }
    }

    /// Returns whether the scope with this number is the current one. The next scope may begin
    /// right after this check, so `add_for` and `sub_for` compare the low bits of the number again.
    pub(crate) fn is_current(&self, birth: u64) -> bool {
        self.birth() == birth
    }

    /// Counts `blocks` allocated blocks of `bytes` bytes in total, in a counting scope. The growth
    /// of a block counts 0 blocks.
    pub(crate) fn count_new(&self, blocks: usize, bytes: usize) {
        self.allocations.fetch_add(blocks, Ordering::Relaxed);
        self.allocated.fetch_add(bytes, Ordering::Relaxed);
        self.live_peak.fetch_max(self.live.add(bytes), Ordering::Relaxed);
    }

    /// Counts freed blocks with this birth, in a counting scope. The shrink of a block counts 0
    /// blocks.
    pub(crate) fn count_gone(&self, blocks: usize, bytes: usize, birth: u64) {
        if self.is_current(birth) {
            self.frees.add_for(blocks, birth);
            self.live.sub_for(bytes, birth);
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    /// Returns the maximum number of bytes that the scope held.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns whether the scope has held more than its limit.
    pub(crate) fn is_over(&self) -> bool {
        self.peak() > self.limit()
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            allocations: self.allocations.load(Ordering::Relaxed),
            bytes: self.allocated.load(Ordering::Relaxed),
            frees: self.frees.get(),
            bytes_live: self.live.get(),
            bytes_live_peak: self.live_peak.load(Ordering::Relaxed),
        }
    }
}
