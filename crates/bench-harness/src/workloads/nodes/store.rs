//! R5, store: accesses an ordered tree for every identifier of the corpus, in order of occurrence.
//! One access in ten puts a new value. The others look up the identifier, and insert it if it is
//! new. At the end, the workload deletes all keys.
//!
//! The tree is a treap, whose shape depends only on its keys. The node of a key takes 48 bytes, and
//! the node of its value 32.

use core::alloc::Layout;
use core::cmp::Ordering;
use core::mem;

use super::words::{Key, SourceWords};
use crate::nodes::NodeFamily;
use crate::pools::RawPool;
use crate::workloads::{Cell, Context, StateCell, each, litter, mix};

type TreapLink<F> = Option<<F as NodeFamily>::Box<TreapEntry<F>>>;

/// A node of the treap: a key, its priority, its value and its children.
struct TreapEntry<F: NodeFamily> {
    key: Key,
    priority: u32,
    /// The node of the value. It is `None` only while the entry is taken apart.
    value: Option<F::Box<TreapValue>>,
    left: TreapLink<F>,
    right: TreapLink<F>,
}

impl<F: NodeFamily> Unpin for TreapEntry<F> {}

/// The value of a key: the index of the access that put it, repeated four times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TreapValue([u64; 4]);

/// The tree, with one pool for entries and one for values.
struct Treap<F: NodeFamily> {
    root: TreapLink<F>,
    entries: F::Pool<TreapEntry<F>>,
    values: F::Pool<TreapValue>,
}

impl<F: NodeFamily> Treap<F> {
    fn new(family: &F) -> Self {
        Self { root: None, entries: family.pool(), values: family.pool() }
    }

    fn get(&self, key: Key) -> Option<TreapValue> {
        let mut link = &self.root;
        while let Some(node) = link {
            link = match key.cmp(&node.key) {
                Ordering::Less => &node.left,
                Ordering::Greater => &node.right,
                Ordering::Equal => return node.value.as_deref().copied(),
            };
        }
        None
    }

    /// Stores a value in a new node and frees the node of the old value. Returns whether the key
    /// was already in the tree.
    fn put(&mut self, key: Key, value: TreapValue) -> bool {
        let mut link = &mut self.root;
        while let Some(node) = link {
            link = match key.cmp(&node.key) {
                Ordering::Less => &mut node.left,
                Ordering::Greater => &mut node.right,
                Ordering::Equal => {
                    // SAFETY: `remove` or `drop` frees all nodes before the pools end.
                    let new = unsafe { self.values.put(value) };
                    if let Some(old) = node.value.replace(new) {
                        // SAFETY: the node is from this pool.
                        unsafe { self.values.take(old) };
                    }
                    return true;
                }
            };
        }
        self.insert(key, value);
        false
    }

    /// Inserts a new key above the first node on its path that has a lower priority, or else as a
    /// leaf. Splits the subtree of that node at the key, and makes the two parts the children of
    /// the new node.
    fn insert(&mut self, key: Key, value: TreapValue) {
        let priority = key.priority();
        let mut link = &mut self.root;
        while link.as_ref().is_some_and(|node| node.priority >= priority) {
            let Some(node) = link else { return };
            link = if key < node.key { &mut node.left } else { &mut node.right };
        }
        let (left, right) = split::<F>(link.take(), key);
        // SAFETY: `remove` or `drop` frees all nodes before the pools end.
        let value = Some(unsafe { self.values.put(value) });
        // SAFETY: as above.
        let node = unsafe { self.entries.put(TreapEntry { key, priority, value, left, right }) };
        *link = Some(node);
    }

    /// Deletes a key. Returns its value, or `None` if the key is not in the tree.
    fn remove(&mut self, key: Key) -> Option<TreapValue> {
        let mut link = &mut self.root;
        while link.as_ref().is_some_and(|node| node.key != key) {
            let Some(node) = link else { return None };
            link = if key < node.key { &mut node.left } else { &mut node.right };
        }
        let mut node = link.take()?;
        *link = merge::<F>(node.left.take(), node.right.take());
        // SAFETY: the entry is from this store, and the line above removed it from the tree.
        unsafe { self.free_entry(node) }
    }

    /// Frees an entry that has no children, and the node of its value. Returns the value.
    ///
    /// # Safety
    ///
    /// The entry must be from this store and no longer in the tree.
    unsafe fn free_entry(&self, mut node: F::Box<TreapEntry<F>>) -> Option<TreapValue> {
        let value = node.value.take();
        // SAFETY: the caller passes an entry of this store, so it is from this pool.
        unsafe { self.entries.take(node) };
        let value = value?;
        let was = *value;
        // SAFETY: this store took the entry's value from this pool.
        unsafe { self.values.take(value) };
        Some(was)
    }

    fn clear(&self, tree: TreapLink<F>) {
        let Some(mut node) = tree else { return };
        self.clear(node.left.take());
        self.clear(node.right.take());
        // SAFETY: the entry is from this store, and the caller has taken the tree out of the store.
        let _ = unsafe { self.free_entry(node) };
    }
}

impl<F: NodeFamily> Drop for Treap<F> {
    fn drop(&mut self) {
        let root = self.root.take();
        self.clear(root);
    }
}

/// Splits a tree into the keys below `key` and the others.
fn split<F: NodeFamily>(tree: TreapLink<F>, key: Key) -> (TreapLink<F>, TreapLink<F>) {
    let Some(mut node) = tree else { return (None, None) };
    if node.key < key {
        let (left, right) = split::<F>(node.right.take(), key);
        node.right = left;
        (Some(node), right)
    } else {
        let (left, right) = split::<F>(node.left.take(), key);
        node.left = right;
        (left, Some(node))
    }
}

/// Joins two trees. All keys of the first must be below all keys of the second.
fn merge<F: NodeFamily>(left: TreapLink<F>, right: TreapLink<F>) -> TreapLink<F> {
    match (left, right) {
        (Some(mut left), Some(right)) if left.priority >= right.priority => {
            left.right = merge::<F>(left.right.take(), Some(right));
            Some(left)
        }
        (Some(left), Some(mut right)) => {
            right.left = merge::<F>(Some(left), right.left.take());
            Some(right)
        }
        (left, right) => left.or(right),
    }
}

/// Looks up or puts each word in order, then deletes all keys. Returns a checksum of the values.
#[inline(never)]
fn serve<F: NodeFamily>(store: &mut Treap<F>, words: &SourceWords) -> u64 {
    let mut sum = 0;
    for (at, access) in words.accesses.iter().enumerate() {
        let key = words.keys[access.word as usize];
        let found = if access.put { None } else { store.get(key) };
        match found {
            Some(value) => sum = mix(sum, value.0[0] ^ value.0[3]),
            None => sum ^= u64::from(store.put(key, TreapValue([at as u64; 4]))),
        }
    }
    for &word in &words.sweep {
        let value = store.remove(words.keys[word as usize]);
        sum = mix(sum, value.map_or(0, |value| value.0[1] ^ value.0[2].rotate_left(32)));
    }
    sum
}

/// Builds a cell over the context's corpus. Each unit fills the store and empties it.
pub(crate) fn cell<F: NodeFamily>(littered: bool, context: &Context) -> Box<dyn Cell> {
    const { assert!(mem::size_of::<TreapEntry<F>>() == 48, "three links, a key and its priority, for all alike") };
    let words = context.sources.words(context.seed);
    let keys = words.keys.len() as u64;
    let held = || vec![(Layout::new::<TreapEntry<F>>(), keys), (Layout::new::<TreapValue>(), keys)];
    litter::scatter::<F::Backing>(littered, held, context.seed);
    let accesses = words.accesses.len() + words.sweep.len();
    StateCell::boxed(accesses, (Treap::new(&F::create()), words), |(store, words), units| {
        each(units, || serve(store, words))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::RngExt;

    use super::*;
    use crate::contenders::blocks::System;
    use crate::contenders::nodes::NodeHeap;
    use crate::contenders::objects::{Textbook, UpstreamPool};
    use crate::workloads::draws::stream;

    fn agrees_with_std<F: NodeFamily>() {
        let mut store = Treap::<F>::new(&F::create());
        let mut oracle = BTreeMap::new();
        let mut rng = stream(5, 0);
        for i in 0..20_000 {
            let key = Key { prefix: rng.random_range(0..40_u64), id: rng.random_range(0..10_u64) as u32 };
            match rng.random_range(0..3_u64) {
                0 => assert_eq!(
                    store.put(key, TreapValue([i; 4])),
                    oracle.insert(key, TreapValue([i; 4])).is_some()
                ),
                1 => assert_eq!(store.get(key), oracle.get(&key).copied()),
                _ => assert_eq!(store.remove(key), oracle.remove(&key)),
            }
        }
        assert!(oracle.len() > 50, "the keys left are compared");
        let mut left = Vec::new();
        in_order::<F>(&store.root, &mut left);
        assert!(left.into_iter().eq(oracle.into_iter()));
    }

    fn in_order<F: NodeFamily>(link: &TreapLink<F>, into: &mut Vec<(Key, TreapValue)>) {
        if let Some(node) = link {
            for child in [&node.left, &node.right].into_iter().flatten() {
                assert!(child.priority <= node.priority, "a heap by priority");
            }
            in_order::<F>(&node.left, into);
            into.push((node.key, *node.value.as_deref().expect("every key has a value")));
            in_order::<F>(&node.right, into);
        }
    }

    #[test]
    fn the_store_agrees_with_the_map_of_std() {
        agrees_with_std::<NodeHeap<System>>();
        agrees_with_std::<Textbook>();
        agrees_with_std::<UpstreamPool>();
    }
}
