//! Tests of chunks that other threads evict or purge: no live block loses its content, and an owner
//! that wakes up continues. In these tests, an owner is idle at once.

use core::mem::MaybeUninit;
#[cfg(not(miri))]
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::sync::mpsc::sync_channel;
use std::thread;

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use ephemera_prim::account::Account;
#[cfg(not(miri))]
use ephemera_testkit::SplitMix;
#[cfg(all(unix, not(miri)))]
use ephemera_testkit::fork::holds_in_a_child;
// `take_turn` serialises the tests, because they count the chunks of all threads.
use ephemera_testkit::suite::take_turn;

use super::record::IdleRings;
use super::thread::{ProcessRealm, This, WORLD};
use crate::OneRingAlloc;
#[cfg(not(miri))]
use crate::heap::RingEnv;
use crate::heap::list::small_chunks;

/// A value of 2 KiB with a number at both ends. A chunk holds fifteen values, so a value starts or
/// ends on each page of the chunk.
struct Ends {
    first: usize,
    _between: MaybeUninit<[u8; 2_048 - 2 * size_of::<usize>()]>,
    last: usize,
}

impl Ends {
    fn have(&self, number: usize) -> bool {
        (self.first, self.last) == (number, number)
    }
}

type Value = Box<Ends, OneRingAlloc>;

/// The number of values that one owner allocates, which fill more chunks than one look purges.
const VALUES: usize = if cfg!(miri) { 64 } else { 400 };

fn value(number: usize) -> Value {
    Box::new_in(Ends { first: number, _between: MaybeUninit::uninit(), last: number }, OneRingAlloc)
}

fn look() {
    WORLD.idle.look(&IdleRings(ProcessRealm));
}

fn purged() -> usize {
    OneRingAlloc.stats().purged_chunks()
}

/// Returns the number of chunks that are not purged.
fn unpurged() -> usize {
    let stats = OneRingAlloc.stats();
    stats.chunks() - stats.purged_chunks()
}

/// Looks for idle owners until at most `left` chunks are neither evicted nor purged. Panics after
/// 1,000 looks.
fn look_until_left(left: usize) {
    for _ in 0..1_000 {
        if unpurged() <= left {
            return;
        }
        look();
        #[cfg(not(miri))]
        thread::sleep(core::time::Duration::from_millis(1));
    }
    panic!("{} chunks are left, more than {left}", unpurged());
}

/// Makes the heap of this thread sparse. Returns the values that pin its chunks.
#[cfg(not(miri))]
fn sparse() -> Vec<Value> {
    let all: Vec<_> = (0..15 * 80).map(value).collect();
    let mut kept: Vec<_> = all.into_iter().step_by(15).collect();
    while This.heap().divided_front().is_none() {
        kept.extend((0..15).map(value).collect::<Vec<_>>().pop());
        assert!(kept.len() < 1_000, "the heap never becomes sparse");
    }
    kept
}

/// Lets an owner call `first`, allocate values and drop each value for which `keeps` returns
/// `false`. Then drops all other values, lets looks evict or purge all chunks but the front, and
/// lets the owner run again.
fn purged_after(first: fn() -> Vec<Value>, keeps: fn(usize) -> bool) {
    take_turn();
    let (asleep, awake) = (Barrier::new(2), Barrier::new(2));
    let (send, values) = sync_channel::<Vec<Value>>(1);
    thread::scope(|threads| {
        let owner = threads.spawn(|| {
            let first = first();
            let all: Vec<_> = (0..VALUES).map(value).collect();
            let numbered = all.into_iter().enumerate();
            let kept = numbered.filter_map(|(number, value)| keeps(number).then_some(value));
            send.send(first.into_iter().chain(kept).collect()).expect("the test receives");
            asleep.wait();
            awake.wait();
            let again: Vec<_> = (0..VALUES).map(value).collect();
            let right = |(number, value): (usize, &Value)| value.have(number);
            assert!(again.iter().enumerate().all(right), "a block has two users");
            assert_eq!(small_chunks(This), OneRingAlloc.stats().small.chunks);
        });
        asleep.wait();
        drop(values.recv().expect("the owner sends"));
        let right = std::panic::catch_unwind(|| look_until_left(1));
        awake.wait();
        right.expect("all chunks but the front are evicted or purged");
        owner.join().expect("no panic");
    });
    // A lost chunk would still count as held.
    assert_eq!((OneRingAlloc.stats().bytes_held, purged()), (0, 0));
}

#[test]
fn an_owner_continues_after_all_its_chunks_were_evicted() {
    purged_after(Vec::new, |_| true);
}

#[test]
fn an_owner_continues_after_chunks_of_which_it_freed_half_were_evicted() {
    purged_after(Vec::new, |number| number % 2 == 0);
}

#[test]
#[cfg(not(miri))]
fn an_owner_reuses_purged_divided_chunks() {
    purged_after(sparse, |number| number % 8 == 0);
}

/// Another thread has borrowed a chunk with holes, so its owner continues elsewhere. After the
/// loan, the owner books the chunk's remote frees and uses the holes.
#[test]
#[cfg(not(miri))]
fn holes_of_a_chunk_that_was_lent_are_used_again() {
    const CHUNK: usize = 32 << 10;
    let chunk_of = |value: &Value| ptr::from_ref(&**value).addr() & !(CHUNK - 1);
    take_turn();
    let barriers = [(); 4].map(|()| Barrier::new(2));
    let [freed, lent, tried, returned] = &barriers;
    let (send, values) = sync_channel(1);
    thread::scope(|threads| {
        let owner = threads.spawn(move || {
            let _kept = sparse();
            // Fill the front, and then a whole chunk.
            let mut before = std::vec![value(0)];
            while chunk_of(&before[before.len() - 1]) == chunk_of(&before[0]) {
                before.push(value(0));
            }
            let mut inside = std::vec![before.pop().expect("a value")];
            let chunk = chunk_of(&inside[0]);
            let outside = loop {
                let value = value(0);
                if chunk_of(&value) != chunk {
                    break value;
                }
                inside.push(value);
            };
            let [last, first] = [inside.pop(), Some(inside.swap_remove(0))];
            drop(inside);
            send.send((last, This.identity().addr())).expect("the test receives");
            freed.wait();
            lent.wait();
            // More values than the front and one more chunk have room for.
            let more: Vec<_> = (0..30).map(value).collect();
            let during = more.iter().filter(|value| chunk_of(value) == chunk).count();
            tried.wait();
            returned.wait();
            let again: Vec<_> = (0..30).map(value).collect();
            let after = again.iter().filter(|value| chunk_of(value) == chunk).count();
            drop((first, outside, before));
            (during, after)
        });
        let (last, record) = values.recv().expect("the owner sends");
        freed.wait();
        drop(last);
        let mut records = WORLD.registry.records();
        let record = records.find(|each| ptr::from_ref(*each).addr() == record).expect("the owner's record");
        let mut loan = record.data().mail.lend();
        while loan.look().is_some() {}
        lent.wait();
        tried.wait();
        loan.put_back();
        returned.wait();
        let (during, after) = owner.join().expect("no panic");
        assert_eq!(during, 0, "the owner used a chunk that was lent");
        assert_ne!(after, 0, "the owner never used the holes again");
    });
    assert_eq!(OneRingAlloc.stats().bytes_held, 0);
}

#[test]
fn a_front_is_neither_evicted_nor_purged() {
    take_turn();
    let (asleep, awake) = (Barrier::new(2), Barrier::new(2));
    let (send, values) = sync_channel::<Value>(1);
    thread::scope(|threads| {
        let owner = threads.spawn(|| {
            send.send(value(7)).expect("the test receives");
            asleep.wait();
            awake.wait();
        });
        asleep.wait();
        drop(values.recv().expect("the owner sends"));
        (0..20).for_each(|_| look());
        let left = unpurged();
        awake.wait();
        owner.join().expect("no panic");
        assert_eq!(left, 1);
    });
    assert_eq!(OneRingAlloc.stats().bytes_held, 0);
}

#[test]
fn a_chunk_with_a_live_block_is_neither_evicted_nor_purged() {
    take_turn();
    let (asleep, awake) = (Barrier::new(2), Barrier::new(2));
    let (send, values) = sync_channel::<Vec<Value>>(1);
    thread::scope(|threads| {
        let owner = threads.spawn(|| {
            send.send((0..VALUES).map(value).collect()).expect("the test receives");
            asleep.wait();
            awake.wait();
        });
        asleep.wait();
        let (before, values) = (unpurged(), values.recv().expect("the owner sends"));
        // Every tenth block survives, so each chunk has a live block.
        let kept: Vec<_> = values.into_iter().enumerate().filter(|(number, _)| number % 10 == 0).collect();
        (0..if cfg!(miri) { 20 } else { 100 }).for_each(|_| look());
        let left = unpurged();
        awake.wait();
        owner.join().expect("no panic");
        assert_eq!(left, before);
        let right = |(number, value): &(usize, Value)| value.have(*number);
        assert!(kept.iter().all(right), "a live block changed");
    });
    assert_eq!(OneRingAlloc.stats().bytes_held, 0);
}

/// Other threads evict most chunks of a sparse heap. Its owner then replaces random values of a
/// small set.
#[test]
#[cfg(not(miri))]
fn a_heap_stops_dividing_chunks_after_most_of_them_were_evicted() {
    take_turn();
    let (asleep, awake) = (Barrier::new(2), Barrier::new(2));
    let (send, values) = sync_channel::<Vec<Value>>(1);
    let divided = thread::scope(|threads| {
        let owner = threads.spawn(|| {
            send.send(sparse()).expect("the test receives");
            asleep.wait();
            awake.wait();
            let mut set: Vec<_> = (0..150).map(value).collect();
            let mut rng = SplitMix::new(1);
            let mut replace = |number| {
                let victim = rng.below(150);
                set[victim] = value(number);
                This.heap().divided_front().is_some()
            };
            for number in 0..10_000 {
                let _ = replace(number);
            }
            (0..10_000).filter(|&number| replace(number)).count()
        });
        asleep.wait();
        drop(values.recv().expect("the owner sends"));
        let right = std::panic::catch_unwind(|| look_until_left(20));
        awake.wait();
        right.expect("most chunks are evicted");
        owner.join().expect("no panic")
    });
    assert_eq!(divided, 0, "the heap is still sparse");
    assert_eq!(OneRingAlloc.stats().bytes_held, 0);
}

/// At the fork, another thread of the parent was evicting chunks of the forking thread.
#[test]
#[cfg(all(unix, not(miri)))]
fn a_forked_child_frees_its_chunks_although_the_lock_was_left_behind() {
    take_turn();
    let values: Vec<_> = (0..VALUES).map(value).collect();
    let evictions = This.evictions().expect("other threads evict chunks of this heap");
    // The kernel may refuse the fence.
    let guard = evictions.lock.try_lock();
    let right = holds_in_a_child(|| {
        drop(values);
        let few = OneRingAlloc.stats().chunks() < 10;
        OneRingAlloc.clean_local();
        few && OneRingAlloc.stats().chunks() == 0
    });
    drop(guard);
    assert!(right, "chunks stay in the child");
    OneRingAlloc.clean_local();
    assert_eq!(OneRingAlloc.stats().bytes_held, 0);
}

#[test]
fn conc_live_blocks_keep_their_content_while_chunks_are_evicted() {
    bursts_are_purged(Vec::new);
}

#[test]
#[cfg(not(miri))]
fn conc_live_blocks_keep_their_content_while_divided_chunks_are_purged() {
    bursts_are_purged(sparse);
}

/// A thread calls `first`, and then allocates bursts of values and drops every third value. Another
/// thread drops the remaining values, while a third thread constantly looks for idle owners.
fn bursts_are_purged(first: fn() -> Vec<Value>) {
    const BURSTS: usize = if cfg!(miri) { 4 } else { 200 };
    const BURST: usize = if cfg!(miri) { 40 } else { 200 };
    take_turn();
    let done = AtomicBool::new(false);
    let (send, values) = sync_channel::<Vec<(usize, Value)>>(1);
    thread::scope(|threads| {
        let looks = threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                look();
                thread::yield_now();
            }
        });
        let drops = threads.spawn(move || {
            for (number, value) in values.into_iter().flatten() {
                assert!(value.have(number), "a live block changed");
            }
        });
        let owner = threads.spawn(move || {
            let _first = first();
            for burst in 0..BURSTS {
                let numbers = burst * BURST..(burst + 1) * BURST;
                let all: Vec<_> = numbers.map(|number| (number, value(number))).collect();
                let kept = all.into_iter().filter(|(number, _)| number % 3 != 0).collect();
                if send.send(kept).is_err() {
                    return;
                }
                if burst % 16 == 0 {
                    thread::sleep(core::time::Duration::from_millis(2));
                }
            }
        });
        // `thread::scope` does not wait until the threads have exited.
        let ends = [owner.join(), drops.join()];
        done.store(true, Ordering::Relaxed);
        looks.join().expect("no panic");
        assert!(ends.iter().all(Result::is_ok), "a thread found wrong content");
    });
    assert_eq!(OneRingAlloc.stats().bytes_held, 0);
}

/// Each owner exits after another thread has dropped the owner's values, while a third thread
/// borrows the owner's chunks.
#[test]
fn conc_owner_that_exits_while_its_chunks_are_lent_leaves_none_behind() {
    const OWNERS: usize = if cfg!(miri) { 4 } else { 300 };
    const EACH: usize = if cfg!(miri) { 20 } else { 120 };
    take_turn();
    let done = AtomicBool::new(false);
    let mut left = 0;
    thread::scope(|threads| {
        let looks = threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                look();
            }
        });
        let mut one_owner = || {
            let (send, values) = sync_channel::<Vec<Value>>(1);
            let (dropped, wait) = sync_channel::<()>(1);
            let owner = thread::spawn(move || {
                send.send((0..EACH).map(value).collect()).expect("the test receives");
                // `recv` returns an error when the test drops the sender.
                let _ = wait.recv();
            });
            drop(values.recv().expect("the owner sends"));
            drop(dropped);
            owner.join().expect("no panic");
            // A look may still have borrowed the chunks. Read the account, because reading the
            // statistics would drain records.
            let held = || WORLD.account.now().held;
            (0..100_000).take_while(|_| held() != 0).for_each(|_| thread::yield_now());
            left += held();
            OneRingAlloc.clean_global();
        };
        let all = core::panic::AssertUnwindSafe(|| (0..OWNERS).for_each(|_| one_owner()));
        let right = std::panic::catch_unwind(all);
        done.store(true, Ordering::Relaxed);
        looks.join().expect("no panic");
        right.expect("no panic");
    });
    assert_eq!(left, 0, "a chunk stays");
}
