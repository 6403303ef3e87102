//! Tests of `TypedPool`: its slots, handles, units and limits.
#![cfg(feature = "std")]

extern crate alloc;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cell::Cell;
use core::mem::MaybeUninit;

use ephemera_testkit::SplitMix;
use ephemera_testkit::backing::Hostile;
use ephemera_testkit::violation::Refusing;
use typed_pool::{TypedBox, TypedPool};

/// A value of 32 bytes.
type Value = [u64; 4];

fn value(number: usize) -> Value {
    [number as u64, 1, 2, !(number as u64)]
}

const fn here_or_miri(here: usize, miri: usize) -> usize {
    if cfg!(miri) { miri } else { here }
}

#[test]
fn the_slot_freed_last_is_allocated_first() {
    let pool = TypedPool::new();
    let address = |handle: &TypedBox<'_, Value>| core::ptr::from_ref(&**handle).addr();
    let handles: Vec<_> = (0..10).map(|number| pool.alloc(value(number))).collect();
    let addresses: Vec<_> = handles.iter().map(address).collect();
    drop(handles);
    let again: Vec<_> = (0..10).map(|number| pool.alloc(value(number))).collect();
    assert!(again.iter().map(address).eq(addresses.into_iter().rev()));
    assert_eq!(pool.len(), 10);
    let raw = TypedBox::into_raw(pool.alloc(value(11)));
    // SAFETY: the slot has a live value of this pool, and no handle owns it.
    assert_eq!(*unsafe { pool.from_raw(raw) }, value(11));
    drop(again);
    assert!(pool.is_empty());
}

#[test]
fn fresh_slots_are_adjacent() {
    let pool = TypedPool::new();
    let handles: Vec<_> = (0..64).map(|number| pool.alloc(value(number))).collect();
    let start = core::ptr::from_ref(&*handles[0]).addr();
    for (number, handle) in handles.iter().enumerate() {
        assert_eq!(core::ptr::from_ref(&**handle).addr() - start, number * size_of::<Value>());
    }
}

#[test]
fn handles_own_their_values() {
    let drops = Cell::new(0);
    struct Counts<'a>(&'a Cell<u32>, u32);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let pool = TypedPool::new();
    let mut first = pool.alloc(Counts(&drops, 1));
    let second = pool.alloc_with(|| Counts(&drops, 2));
    first.1 += second.1;
    assert_eq!((first.1, pool.len(), drops.get()), (3, 2, 0));
    drop(second);
    assert_eq!((pool.len(), drops.get()), (1, 1));
    let out = TypedBox::into_inner(first);
    assert_eq!((out.1, pool.len(), drops.get()), (3, 0, 1));
    drop(out);
    assert_eq!(drops.get(), 2);
}

#[test]
fn chunks_have_the_requested_length() {
    let pool = TypedPool::<Value>::with_chunk_len(10);
    let handles: Vec<_> = (0..25).map(|number| pool.alloc(value(number))).collect();
    assert_eq!((pool.capacity(), pool.stats().units), (30, 3));
    drop(handles);
    // A request for more slots than fit in a unit is for several units.
    let pool = TypedPool::<[u64; 128]>::with_chunk_len(150);
    drop(pool.alloc([0; 128]));
    assert_eq!((pool.capacity(), pool.stats().units), (189, 3));
    // A length of 0 means 1.
    let pool = TypedPool::<u8>::with_chunk_len(0);
    let handles = [pool.alloc(1), pool.alloc(2)];
    assert_eq!((pool.capacity(), pool.stats().units, *handles[1]), (2, 2, 2));
}

#[test]
fn chunks_grow_to_a_whole_unit() {
    let pool = TypedPool::new();
    let mut handles = Vec::new();
    let mut seen = Vec::new();
    for number in 0..here_or_miri(4_000, 200) {
        handles.push(pool.alloc(value(number)));
        if seen.last() != Some(&pool.stats().slots) {
            seen.push(pool.stats().slots);
        }
    }
    let expected = [64, 192, 448, 960, 1_979, 2_998, 4_017];
    assert_eq!(seen, expected[..here_or_miri(7, 3)]);
    assert!(handles.iter().enumerate().all(|(number, handle)| **handle == value(number)));
}

#[test]
fn a_capacity_is_allocated_at_the_start() {
    let backing = Hostile::new();
    let pool = TypedPool::<Value>::builder().capacity(1_500).build_in(&backing);
    let calls = backing.calls();
    assert!(pool.capacity() >= 1_500 && pool.is_empty());
    let handles: Vec<_> = (0..here_or_miri(1_500, 50)).map(|number| pool.alloc(value(number))).collect();
    assert_eq!(backing.calls(), calls, "the pool requested more memory");
    drop(handles);
    pool.trim();
    assert_eq!((pool.capacity(), backing.held().bytes), (0, 0));
}

#[test]
fn absurd_capacities_are_refused() {
    let backing = Hostile::new();
    let most = isize::MAX as usize / 32;
    // The request is for 32 TiB if the pointers are wide enough.
    let far = 1_usize.checked_shl(40).unwrap_or(most);
    for slots in [usize::MAX, usize::MAX / 32, most, far] {
        assert!(TypedPool::<Value>::builder().capacity(slots).try_build_in(&backing).is_err());
    }
    // Values of size zero need no memory, so there is room for all of them.
    let pool = TypedPool::<()>::builder().capacity(usize::MAX).build_in(&backing);
    pool.alloc(());
    drop(pool);
    let limited = TypedPool::<Value>::builder().capacity(200).limit(4_000).try_build_in(&backing);
    assert!(limited.is_err());
    assert_eq!(backing.outstanding(), []);
}

#[test]
fn values_without_units_are_allocated_and_freed() {
    let backing = Hostile::new();
    // Values of size zero, with a destructor.
    struct Nothing<'a>(core::marker::PhantomData<&'a ()>);
    thread_local!(static DROPS: Cell<u32> = const { Cell::new(0) });
    impl Drop for Nothing<'_> {
        fn drop(&mut self) {
            DROPS.with(|drops| drops.set(drops.get() + 1));
        }
    }
    let pool = TypedPool::new_in(&backing);
    let nothings: Vec<_> = (0..5).map(|_| pool.alloc(Nothing(core::marker::PhantomData))).collect();
    assert_eq!((pool.len(), backing.held().bytes), (5, 0));
    drop(nothings);
    assert_eq!((pool.len(), DROPS.with(Cell::get)), (0, 5));

    // Values that are too large for a unit, and values with too large an alignment.
    #[repr(align(8192))]
    struct Aligned(u8);
    let large = TypedPool::new_in(&backing);
    let aligned = TypedPool::new_in(&backing);
    let (first, second) = (large.alloc([7_u8; 40_000]), aligned.alloc(Aligned(9)));
    assert_eq!((first[39_999], second.0, (&raw const *second).addr() % 8192), (7, 9, 0));
    assert_eq!((large.stats().large_bytes, large.len(), large.stats().bytes_held), (40_000, 1, 40_000));
    assert_eq!(large.stats().bytes_live, 40_000);
    drop((first, second));
    assert_eq!((large.len(), large.stats().bytes_held), (0, 0));
    drop((large, aligned, pool));
    assert_eq!(backing.outstanding(), []);
}

#[test]
fn every_alignment_is_respected() {
    macro_rules! aligned {
        ($($align:literal),*) => {
            $({
                #[repr(align($align))]
                struct Aligned([u8; 5]);
                let backing = Hostile::new();
                let pool = TypedPool::with_chunk_len_in(7, &backing);
                let handles: Vec<_> = (0..20).map(|byte| pool.alloc(Aligned([byte; 5]))).collect();
                for (byte, handle) in handles.iter().enumerate() {
                    assert_eq!(core::ptr::from_ref(&**handle).addr() & ($align - 1), 0);
                    assert_eq!(handle.0, [byte as u8; 5]);
                }
            })*
        };
    }
    trait WithChunkLenIn<'b, T> {
        fn with_chunk_len_in(slots: usize, backing: &'b Hostile) -> Self;
    }
    impl<'b, T> WithChunkLenIn<'b, T> for TypedPool<T, &'b Hostile> {
        fn with_chunk_len_in(slots: usize, backing: &'b Hostile) -> Self {
            typed_pool::Builder::new().chunk_len(slots).build_in(backing)
        }
    }
    aligned!(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 8192);
}

#[test]
fn a_limit_holds_and_every_free_slot_below_it_is_used() {
    let backing = Hostile::new();
    let pool = typed_pool::Builder::<Value>::new().chunk_len(16).limit(1_500).build_in(&backing);
    let mut handles = Vec::new();
    let refused = loop {
        match pool.try_alloc(value(handles.len())) {
            Ok(handle) => handles.push(handle),
            Err(refused) => break refused,
        }
    };
    // The pool has two units of 16 slots, and one of 2 slots in the remaining bytes.
    assert_eq!((refused.into_value(), handles.len()), (value(34), 34));
    assert!(backing.held().peak <= 1_500);
    // One free slot in each unit is less than the eighth that queues a unit.
    drop((handles.swap_remove(20), handles.swap_remove(3)));
    handles.extend((0..2).map(|number| pool.try_alloc(value(number)).expect("a free slot")));
    assert!(pool.try_alloc(value(0)).is_err() && pool.allocate().is_err());
    let refused = pool.try_alloc_with(|| value(35)).expect_err("all slots are live");
    let text = "a value of 32 bytes, aligned to 8, was refused by the limit or the backing allocator";
    assert_eq!(refused.to_string(), text);
    handles.pop();
    handles.extend(pool.try_alloc_with(refused.into_value()).ok().filter(|made| **made == value(35)));
    let stats = pool.stats();
    assert_eq!((stats.slots, stats.slots_live, stats.limit), (34, 34, 1_500));
    drop(handles);
    assert_eq!(pool.len(), 0);
}

#[test]
fn a_pool_moves_to_another_thread() {
    let pool = TypedPool::new();
    let kept = TypedBox::into_raw(pool.alloc(value(1)));
    struct Sent(core::ptr::NonNull<Value>);
    // SAFETY: the slot moves to the other thread together with its pool.
    unsafe impl Send for Sent {}
    let kept = Sent(kept);
    let pool = std::thread::spawn(move || {
        let kept = kept;
        // SAFETY: the slot is one of this pool, and nothing else uses it.
        assert_eq!(*unsafe { pool.from_raw(kept.0) }, value(1));
        drop(pool.alloc(value(2)));
        pool
    });
    let pool = pool.join().expect("the thread does not panic");
    assert_eq!(*pool.alloc(value(3)), value(3));
    assert_eq!(pool.len(), 0);
}

#[test]
fn empty_units_are_freed() {
    const COUNT: usize = here_or_miri(400, 72);
    let backing = Hostile::new();
    let pool = typed_pool::Builder::<Value>::new().chunk_len(8).build_in(&backing);
    let spike: Vec<_> = (0..COUNT).map(|number| pool.alloc(value(number))).collect();
    let peak = pool.stats().units;
    drop(spike);
    let stats = pool.stats();
    assert!(peak == COUNT / 8 && stats.units <= 6, "{stats:?}");
    // The pool frees a unit and then requests one, so it keeps one more unit the next time.
    for _ in 0..3 {
        drop((0..COUNT).map(|number| pool.alloc(value(number))).collect::<Vec<_>>());
    }
    let calls = backing.calls();
    drop((0..COUNT).map(|number| pool.alloc(value(number))).collect::<Vec<_>>());
    assert_eq!(backing.calls(), calls);
    pool.trim();
    assert_eq!((pool.stats().units, backing.held().bytes), (0, 0));
    drop((0..COUNT).map(|number| pool.alloc(value(number))).collect::<Vec<_>>());
    assert!(pool.stats().units <= 6);
}

#[test]
fn one_live_value_keeps_one_unit() {
    let pool = typed_pool::Builder::<Value>::new().chunk_len(8).build();
    let mut kept = Vec::new();
    for round in 0..here_or_miri(10, 3) {
        let mut all: Vec<_> = (0..here_or_miri(160, 40)).map(|number| pool.alloc(value(number))).collect();
        kept.push(all.swap_remove(round * 8));
    }
    let stats = pool.stats();
    assert_eq!(stats.slots_live, kept.len());
    assert!(stats.units <= 10 + 4 + 16, "{stats:?}");
    pool.trim();
    assert!(pool.stats().units <= 10);
}

/// Runs random operations on a pool, and compares it with a model: the list of its live values.
fn against_a_model(seed: u64, chunk_len: usize) {
    let backing = Hostile::new();
    let pool = typed_pool::Builder::<Value>::new().chunk_len(chunk_len).build_in(&backing);
    let mut rng = SplitMix::new(seed);
    let mut live: Vec<(usize, TypedBox<'_, Value, &Hostile>)> = Vec::new();
    for number in 0..here_or_miri(6_000, 120) {
        match rng.below(100) {
            // The pool grows for a while, then shrinks for a while.
            draw if draw < 48 + 8 * (number / here_or_miri(500, 20) % 2) => {
                live.push((number, pool.alloc(value(number))));
            }
            99 => pool.trim(),
            _ if live.is_empty() => {}
            draw => {
                let index = if draw % 3 == 0 { live.len() - 1 } else { rng.below(live.len()) };
                let (number, handle) = live.swap_remove(index);
                assert_eq!(*handle, value(number));
            }
        }
        assert_eq!(pool.is_empty(), live.is_empty());
        if number % here_or_miri(97, 40) == 0 {
            let addresses: BTreeSet<_> =
                live.iter().map(|(_, handle)| core::ptr::from_ref(&**handle).addr()).collect();
            assert_eq!(addresses.len(), live.len(), "a slot was handed out twice");
            let stats = pool.stats();
            assert_eq!((stats.slots_live, pool.len()), (live.len(), live.len()));
            assert_eq!((stats.bytes_held, stats.slots), (backing.held().bytes, pool.capacity()));
            assert!(stats.slots >= live.len() && stats.units >= stats.empty_units);
        }
    }
    while let Some((number, handle)) = live.pop() {
        assert_eq!(TypedBox::into_inner(handle), value(number));
        assert_eq!(pool.is_empty(), live.is_empty());
    }
    drop(live);
    drop(pool);
    assert_eq!(backing.outstanding(), []);
}

#[test]
fn a_pool_agrees_with_a_model() {
    for seed in 0..here_or_miri(12, 1) as u64 {
        for chunk_len in [1, 3, 100, 2, 8].into_iter().take(here_or_miri(5, 3)) {
            against_a_model(seed, chunk_len);
        }
    }
}

#[test]
fn a_refusal_of_the_backing_allocator_at_any_call_loses_nothing() {
    let run = |backing: &Hostile| {
        let pool = match typed_pool::Builder::<Value>::new().chunk_len(4).capacity(6).try_build_in(backing) {
            Ok(pool) => pool,
            Err(_) => return 1,
        };
        let mut live = Vec::new();
        let mut refused = 0;
        for number in 0..40 {
            match pool.try_alloc(value(number)) {
                Ok(handle) => live.push((number, handle)),
                Err(back) => {
                    assert_eq!(back.into_value(), value(number));
                    refused += 1;
                }
            }
            if number % 3 == 0 && !live.is_empty() {
                live.swap_remove(0);
            }
        }
        assert!(live.iter().all(|(number, handle)| **handle == value(*number)));
        assert_eq!(pool.len(), live.len());
        refused
    };
    let clean = Hostile::new();
    assert_eq!(run(&clean), 0);
    let calls = clean.refusals().calls();
    assert!(calls > 6, "{calls} calls");
    for call in (1..=calls).step_by(here_or_miri(1, 9)) {
        for refusing in [Refusing::Once(call), Refusing::From(call)] {
            let backing = Hostile::new();
            backing.refusals().arm(refusing);
            let refused = run(&backing);
            // The pool repeats a refused request, so a single refusal need not reach the pool's
            // caller.
            assert!(refused > 0 || refusing == Refusing::Once(call), "call {call} was not refused");
            assert_eq!(backing.outstanding(), [], "call {call}");
        }
    }
}

#[test]
fn raw_slots_are_not_initialised_and_not_dropped() {
    let pool = TypedPool::<MaybeUninit<Vec<u8>>>::new();
    let slot = pool.allocate().expect("memory");
    // SAFETY: the slot is fresh.
    unsafe { slot.write(MaybeUninit::uninit()) };
    assert_eq!(pool.len(), 1);
    // SAFETY: the slot is one of this pool and is freed once.
    unsafe { pool.deallocate(slot) };
    assert_eq!(pool.len(), 0);
}

#[test]
fn settings_pools_and_handles_implement_debug() {
    let pool = TypedPool::<u16>::default();
    let mut one = pool.alloc(1);
    let two = pool.alloc(2);
    *one.as_mut() += 1;
    assert!(one == two && one >= two && *one.as_ref() == 2);
    assert_eq!(format!("{one} {one:?}"), "2 2");
    assert!(format!("{pool:?}").contains("u16") && format!("{one:p}").starts_with("0x"));
    assert!(core::ptr::eq(TypedBox::pool(&one), &raw const pool));
    assert_eq!(BTreeSet::from([one, two]).len(), 1);
}
