//! Tests of hashbrown's maps in a ring. The tables of these maps double in size, are over-aligned,
//! and are cloned with their allocator.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

use allocator_api2::alloc::Allocator;
use ephemera_testkit::backing::Hostile;
use ephemera_testkit::suite::take_turn;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use ring_alloc::{OneRingAlloc, RingAlloc};

/// The number of keys, which suffices for tables of every class (under Miri, only for small
/// tables).
const KEYS: u32 = if cfg!(miri) { 40 } else { 20_000 };

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

    let mut words: HashSet<allocator_api2::vec::Vec<u8, A>, DefaultHashBuilder, A> =
        HashSet::new_in(alloc.clone());
    // Each word is inserted twice.
    let different = if cfg!(miri) { 15 } else { 50 };
    for byte in (0..different).chain(0..different) {
        let mut word = allocator_api2::vec::Vec::new_in(alloc.clone());
        word.extend(core::iter::repeat_n(byte, usize::from(byte)));
        words.insert(word);
    }
    assert_eq!(words.len(), usize::from(different));
}

#[test]
fn map_in_a_ring_frees_all_its_blocks() {
    let backing = Hostile::new();
    let ring = RingAlloc::new_in(&backing);
    use_a_map(ring.clone());
    assert_eq!(ring.stats().blocks_live(), 0);
    use_a_map(&ring);
    drop(ring);
    assert_eq!(backing.outstanding(), []);
}

#[test]
fn map_of_all_threads_frees_all_its_blocks() {
    take_turn();
    use_a_map(OneRingAlloc);
    let map: HashMap<u32, u32, DefaultHashBuilder, OneRingAlloc> =
        (0..KEYS).map(|key| (key, key + 1)).collect();
    let elsewhere = std::thread::spawn(move || map.values().filter(|&&value| value % 2 == 0).count());
    assert_eq!(elsewhere.join().expect("the thread does not panic"), KEYS as usize / 2);
    OneRingAlloc.clean_local();
    OneRingAlloc.clean_global();
    assert_eq!(OneRingAlloc.stats().blocks_live(), 0);
}
