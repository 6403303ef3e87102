//! Tests that all memory of an exited thread is freed without a trim, if other threads free the
//! thread's blocks during or after its exit.
//!
//! Each test reads `bytes_held`. `stats` reads that number before it trims any record, so the call
//! cannot hide held memory.
#![cfg(all(feature = "std", target_has_atomic = "64"))]

use std::sync::mpsc::channel;
use std::thread;

use allocator_api2::boxed::Box;
use ephemera_testkit::suite::take_turn;
use ring_alloc::OneRingAlloc;

type Block = Box<[u8; 2_000], OneRingAlloc>;

/// The number of blocks that fill a chunk.
const BLOCKS_OF_A_CHUNK: usize = 16;

fn block() -> Block {
    Box::new_in([1; 2_000], OneRingAlloc)
}

fn held() -> usize {
    OneRingAlloc.stats().bytes_held
}

#[test]
fn conc_free_beside_thread_exit_frees_the_chunk() {
    const ROUNDS: usize = if cfg!(miri) {
        20
    } else if cfg!(debug_assertions) {
        5_000
    } else {
        100_000
    };
    take_turn();
    let (to, from) = channel::<Block>();
    let (done, freed) = channel();
    let freeing = thread::spawn(move || {
        from.into_iter().all(|block| {
            drop(block);
            done.send(()).is_ok()
        })
    });
    for round in 0..ROUNDS {
        let to = to.clone();
        thread::spawn(move || to.send(block()).expect("the other thread runs")).join().expect("no panic");
        freed.recv().expect("the other thread runs");
        assert_eq!(held(), 0, "round {round}: a chunk is held with nothing live");
    }
    drop(to);
    assert!(freeing.join().expect("no panic"));
}

#[test]
fn conc_frees_beside_the_exit_of_a_thread_with_many_chunks_free_them() {
    const CHUNKS: usize = if cfg!(miri) { 8 } else { 1_000 };
    const ROUNDS: usize = if cfg!(miri) { 1 } else { 24 };
    take_turn();
    for round in 0..ROUNDS {
        let (to, from) = channel::<Vec<Block>>();
        let (half, freed) = channel();
        let owner = thread::spawn(move || {
            let all = (0..CHUNKS * BLOCKS_OF_A_CHUNK).map(|_| block());
            // One block of each chunk stays live.
            let stays = all.enumerate().filter(|(index, _)| index % BLOCKS_OF_A_CHUNK == 0);
            to.send(stays.map(|(_, block)| block).collect()).expect("the other thread runs");
            freed.recv().expect("the other thread runs");
        });
        let mut blocks = from.recv().expect("the owner runs");
        assert_eq!(blocks.len(), CHUNKS);
        blocks.truncate(CHUNKS / 2);
        half.send(()).expect("the owner runs");
        // The owner frees half of the chunks during its exit. In each round, this thread frees the
        // blocks of the other half at a different moment of that exit.
        (0..500 * round).for_each(|_| core::hint::spin_loop());
        drop(blocks);
        owner.join().expect("no panic");
        assert_eq!(held(), 0, "chunks are held with nothing live");
    }
}

#[test]
fn chunks_of_an_ended_thread_are_freed_with_their_last_blocks() {
    const CHUNKS: usize = if cfg!(miri) { 3 } else { 100 };
    take_turn();
    let all = || (0..CHUNKS * BLOCKS_OF_A_CHUNK).map(|_| block()).collect::<Vec<_>>();
    let mut blocks = thread::spawn(all).join().expect("no panic");
    let full = held();
    // One block of each chunk stays live, so no chunk is freed.
    let mut last: Vec<_> = blocks.drain(..).enumerate().collect();
    last.retain(|(index, _)| index % BLOCKS_OF_A_CHUNK == 0);
    assert_eq!(held(), full);
    assert_eq!(OneRingAlloc.stats().blocks_live(), CHUNKS, "the blocks of chunks that count down");
    last.truncate(CHUNKS / 2);
    assert!(held() <= full / 2 + full / CHUNKS, "half of the chunks ran empty");
    drop(last);
    assert_eq!(held(), 0);
}

#[test]
fn next_thread_allocates_beside_chunks_that_count_down() {
    take_turn();
    let all = || (0..40).map(|_| block()).collect::<Vec<_>>();
    let mut blocks = thread::spawn(all).join().expect("no panic");
    // From here on, the chunks of the first and of the last block count down.
    let (first, last) = (blocks.swap_remove(0), blocks.pop());
    drop((first, last));
    let blocks = thread::spawn(move || {
        // This thread has no record yet, so its frees are remote frees. In the last chunk, all of
        // them count down. In the second chunk, the first one starts the countdown. The first
        // allocation leases the ended thread's record, so this thread is the holder when it later
        // frees blocks in chunks that count down.
        blocks.truncate(20);
        blocks.extend(all());
        blocks.drain(..10);
        blocks
    });
    let blocks = blocks.join().expect("no panic");
    assert_eq!(OneRingAlloc.stats().blocks_live(), blocks.len());
    drop(blocks);
    assert_eq!(held(), 0);
}
