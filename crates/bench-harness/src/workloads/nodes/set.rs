//! S2, set: a chained hash set of random numbers with one node per element, like
//! `std::unordered_set`.
//!
//! The buckets are in the system's heap and exist from the start. Only the nodes come from the
//! contender. A node consists of a link and a number, and takes 16 bytes.

use core::alloc::Layout;

use rand::seq::index;

use crate::nodes::NodeFamily;
use crate::pools::RawPool;
use crate::workloads::draws::stream;
use crate::workloads::{Cell, Context, StateCell, mix};

type SetLink<F> = Option<<F as NodeFamily>::Box<SetEntry<F>>>;

/// A node of the set.
struct SetEntry<F: NodeFamily> {
    next: SetLink<F>,
    key: u32,
}

impl<F: NodeFamily> Unpin for SetEntry<F> {}

/// The set, with its own pool.
struct Set<F: NodeFamily> {
    buckets: Box<[SetLink<F>]>,
    len: usize,
    pool: F::Pool<SetEntry<F>>,
}

impl<F: NodeFamily> Set<F> {
    /// Creates an empty set with at least `elements` buckets.
    fn new(family: &F, elements: usize) -> Self {
        let buckets = (0..elements.next_power_of_two()).map(|_| None).collect();
        Self { buckets, len: 0, pool: family.pool() }
    }

    /// Returns the index of a key's bucket, computed from the upper half of the key's product with
    /// an odd number.
    #[inline(always)]
    fn bucket(&self, key: u32) -> usize {
        let hash = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }

    /// Inserts a key. Returns whether the key is new.
    #[inline(always)]
    fn insert(&mut self, key: u32) -> bool {
        let bucket = self.bucket(key);
        let mut link = &self.buckets[bucket];
        while let Some(node) = link {
            if node.key == key {
                return false;
            }
            link = &node.next;
        }
        let next = self.buckets[bucket].take();
        // SAFETY: the set's drop calls `clear`, which frees every node before the pool is dropped.
        let node = unsafe { self.pool.put(SetEntry { next, key }) };
        self.buckets[bucket] = Some(node);
        self.len += 1;
        true
    }

    /// Erases a key. Returns whether the set had the key.
    #[inline(always)]
    fn erase(&mut self, key: u32) -> bool {
        let bucket = self.bucket(key);
        let mut link = &mut self.buckets[bucket];
        while link.as_ref().is_some_and(|node| node.key != key) {
            let Some(node) = link else { return false };
            link = &mut node.next;
        }
        let Some(mut node) = link.take() else { return false };
        *link = node.next.take();
        // SAFETY: the node is from this pool.
        unsafe { self.pool.take(node) };
        self.len -= 1;
        true
    }

    /// Erases all keys, bucket by bucket.
    fn clear(&mut self) {
        for bucket in &mut self.buckets {
            while let Some(mut node) = bucket.take() {
                *bucket = node.next.take();
                // SAFETY: the node is from this pool.
                unsafe { self.pool.take(node) };
            }
        }
        self.len = 0;
    }
}

impl<F: NodeFamily> Drop for Set<F> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Inserts all keys. Returns the number of new keys.
#[inline(never)]
fn fill<F: NodeFamily>(set: &mut Set<F>, keys: &[u32]) -> u64 {
    keys.iter().map(|&key| u64::from(set.insert(key))).sum()
}

/// Erases all keys individually. Returns the number of keys that were in the set.
#[inline(never)]
fn drain<F: NodeFamily>(set: &mut Set<F>, keys: &[u32]) -> u64 {
    keys.iter().map(|&key| u64::from(set.erase(key))).sum()
}

/// Returns `n` distinct random keys.
pub(crate) fn keys(seed: u64, n: usize) -> Box<[u32]> {
    let drawn = index::sample(&mut stream(seed, 8), u32::MAX as usize, n);
    drawn.into_iter().map(|key| key as u32).collect()
}

/// Builds a cell of `n` keys. A unit inserts them and clears the set. If `again` is set, a unit
/// instead erases the keys individually and inserts them again.
pub(crate) fn cell<F: NodeFamily>(n: usize, again: bool, context: &Context) -> Box<dyn Cell> {
    const { assert!(Layout::new::<SetEntry<F>>().size() == 16, "a link and a number, for all contenders alike") };
    let keys = keys(context.seed, n);
    let mut set = Set::new(&F::create(), n);
    if again {
        fill(&mut set, &keys);
    }
    StateCell::boxed(n, (set, keys, again), |(set, keys, again), units| {
        let mut sum = 0;
        for _ in 0..units {
            let erased = if *again { drain(set, keys) } else { 0 };
            let inserted = fill(set, keys);
            // The checksum covers the numbers of erased, of inserted and of remaining keys.
            sum = mix(sum, erased << 40 ^ inserted << 20 ^ set.len as u64);
            if !*again {
                set.clear();
            }
        }
        sum
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::RngExt;

    use super::*;
    use crate::contenders::blocks::System;
    use crate::contenders::nodes::NodeHeap;
    use crate::contenders::objects::Textbook;

    fn agrees_with_std<F: NodeFamily>() {
        // There are few buckets for many keys, so chains are long.
        let mut set = Set::<F>::new(&F::create(), 64);
        let mut oracle = HashSet::new();
        let mut rng = stream(11, 0);
        for _ in 0..20_000 {
            let key = rng.random_range(0..500_u64) as u32;
            if rng.random_range(0..2_u64) == 0 {
                assert_eq!(set.insert(key), oracle.insert(key));
            } else {
                assert_eq!(set.erase(key), oracle.remove(&key));
            }
            assert_eq!(set.len, oracle.len());
        }
        set.clear();
        assert!((0..500).all(|key| !set.erase(key)));
    }

    #[test]
    fn the_set_agrees_with_that_of_std() {
        agrees_with_std::<NodeHeap<System>>();
        agrees_with_std::<Textbook>();
    }

    #[test]
    fn keys_are_distinct() {
        let keys = keys(1, 50_000);
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    }
}
