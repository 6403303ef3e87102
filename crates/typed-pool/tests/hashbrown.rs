//! Tests of hashbrown's maps over pooled allocators. These maps grow by doubling, have over-aligned
//! tables, and clone their allocator.
#![cfg(feature = "std")]

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use typed_pool::{PooledAllocator, pooled_allocator};

/// The number of keys in a map. Except under Miri, the map's table grows beyond the largest class.
const KEYS: u32 = if cfg!(miri) { 45 } else { 20_000 };

fn use_a_map<A: Allocator + Clone>(alloc: A) {
    let mut squares: HashMap<u32, u64, DefaultHashBuilder, A> = HashMap::new_in(alloc.clone());
    for key in 0..KEYS {
        squares.insert(key, u64::from(key) * u64::from(key));
    }
    squares.retain(|key, _| key % 3 != 0);
    let copy = squares.clone();
    for key in 0..KEYS {
        let expected = (key % 3 != 0).then(|| u64::from(key) * u64::from(key));
        assert_eq!(squares.remove(&key), expected);
    }
    squares.shrink_to_fit();
    drop(squares);
    assert_eq!(copy.len(), (0..KEYS).filter(|key| key % 3 != 0).count());
    assert!(copy.iter().all(|(&key, &square)| square == u64::from(key).pow(2)));

    let mut words: HashSet<Vec<u8, A>, DefaultHashBuilder, A> = HashSet::new_in(alloc.clone());
    for byte in 0..100_u8 {
        let mut word = Vec::new_in(alloc.clone());
        word.extend(core::iter::repeat_n(byte % 50, usize::from(byte % 50)));
        words.insert(word);
    }
    assert_eq!(words.len(), 50);
}

#[test]
fn a_map_frees_all_its_blocks() {
    pooled_allocator! {
        struct Nodes;
    }
    use_a_map(Nodes);
    use_a_map(&Nodes);
    assert_eq!(Nodes.stats().live(), 0);
    Nodes.trim();
    assert_eq!(Nodes.stats().bytes_held, 0);
}

#[test]
fn conc_a_map_moves_to_another_thread() {
    let map: HashMap<u32, u32, DefaultHashBuilder, PooledAllocator> =
        (0..KEYS).map(|key| (key, key + 1)).collect();
    let elsewhere = std::thread::spawn(move || map.values().filter(|&&value| value % 2 == 0).count());
    assert_eq!(elsewhere.join().expect("the thread does not panic"), KEYS as usize / 2);
    PooledAllocator.trim_all();
    assert_eq!(PooledAllocator.stats().live(), 0);
}

/// A set with one node per element, as in C++, is emptied in the order of its buckets and filled
/// again.
#[test]
fn a_chained_set_is_emptied_and_filled_again() {
    pooled_allocator! {
        struct Nodes;
    }
    struct Node {
        key: u64,
        next: Option<allocator_api2::boxed::Box<Node, Nodes>>,
    }
    const BUCKETS: usize = 64;
    let mut buckets: [Option<allocator_api2::boxed::Box<Node, Nodes>>; BUCKETS] = [const { None }; BUCKETS];
    let count = if cfg!(miri) { 80 } else { 10_000 };
    for round in 0..3 {
        let mut rng = ephemera_testkit::SplitMix::new(round);
        for _ in 0..count {
            let key = rng.draw();
            let bucket = &mut buckets[key as usize % BUCKETS];
            let next = bucket.take();
            *bucket = Some(allocator_api2::boxed::Box::new_in(Node { key, next }, Nodes));
        }
        assert_eq!(Nodes.stats().slots_live, count);
        let mut erased = 0;
        for (index, bucket) in buckets.iter_mut().enumerate() {
            while let Some(mut node) = bucket.take() {
                assert_eq!(node.key as usize % BUCKETS, index);
                *bucket = node.next.take();
                erased += 1;
            }
        }
        assert_eq!((erased, Nodes.stats().slots_live), (count, 0));
    }
}
