//! `TaggedSum`: a sum that belongs to one scope at a time.
//!
//! Scopes that use the same heaps, one after another, share one word. When the next scope begins,
//! other threads may still free blocks of the earlier scope, and these frees must not change the
//! new sum. The word therefore also holds the low bits of the current scope's number, and a free
//! compares these bits in the atomic operation that changes the sum.

use ephemera_prim::sync::{AtomicU64, Ordering, change_if};

/// The number of bits for the scope's number.
const TAG_BITS: u32 = 16;
const TAG: u64 = (1 << TAG_BITS) - 1;

/// A sum below 2^48, tagged with the scope that it belongs to.
#[derive(Debug)]
pub(super) struct TaggedSum(AtomicU64);

impl TaggedSum {
    ephemera_prim::const_unless_loom! {
        /// Creates a sum of zero that belongs to no scope.
        pub(super) fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Begins a sum of zero for the scope with this number.
    pub(super) fn begin(&self, birth: u64) {
        self.0.store(birth & TAG, Ordering::Relaxed);
    }

    /// Adds to the sum of the current scope, and returns the new sum. Only a thread in that scope
    /// may call this, so no other scope begins during the call.
    pub(super) fn add(&self, more: usize) -> usize {
        let more = (more as u64) << TAG_BITS;
        let before = if weakened!("scope_adds_in_two_steps") {
            let before = self.0.load(Ordering::Relaxed);
            self.0.store(before.wrapping_add(more), Ordering::Relaxed);
            before
        } else {
            self.0.fetch_add(more, Ordering::Relaxed)
        };
        (before.wrapping_add(more) >> TAG_BITS) as usize
    }

    /// Adds to the sum if it belongs to the scope with this number. Any thread may call this at any
    /// time.
    pub(super) fn add_for(&self, more: usize, birth: u64) {
        self.change_for(birth, |word| word.wrapping_add((more as u64) << TAG_BITS));
    }

    /// Subtracts from the sum if it belongs to the scope with this number. Any thread may call this
    /// at any time.
    pub(super) fn sub_for(&self, less: usize, birth: u64) {
        self.change_for(birth, |word| word.wrapping_sub((less as u64) << TAG_BITS));
    }

    fn change_for(&self, birth: u64, new: impl Fn(u64) -> u64) {
        let exchange =
            |old, new| self.0.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed);
        let is_of = |word: u64| (word ^ birth) & TAG == 0 || weakened!("sums_have_no_tag");
        let changed = |word| is_of(word).then(|| new(word));
        let _ = change_if(self.0.load(Ordering::Relaxed), exchange, changed);
    }

    pub(super) fn get(&self) -> usize {
        (self.0.load(Ordering::Relaxed) >> TAG_BITS) as usize
    }
}

#[cfg(all(test, not(ephemera_loom)))]
mod tests {
    use super::{TAG, TaggedSum};

    #[test]
    fn a_sum_changes_for_its_own_scope_only() {
        let sum = TaggedSum::new();
        sum.begin(TAG + 5);
        assert_eq!((sum.add(100), sum.get()), (100, 100));
        sum.sub_for(30, TAG + 5);
        sum.sub_for(30, TAG + 4);
        sum.add_for(30, TAG + 4);
        assert_eq!(sum.get(), 70);
        sum.begin(TAG + 6);
        sum.sub_for(70, TAG + 5);
        assert_eq!((sum.add(9), sum.get()), (9, 9));
    }
}
