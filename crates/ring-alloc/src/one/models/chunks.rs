//! Models of undivided chunks.

use loom::thread;

use super::{ModelRealm, check, clean, stats};
use crate::chunk::headers;
use crate::geometry::{Geometry, SLACK};

/// A geometry whose chunks hold two blocks.
#[derive(Debug)]
struct Tiny;

impl Geometry for Tiny {
    const SMALL_MAX: usize = 700;
    const SMALL_ALIGN: usize = 8;
    const SMALL_CHUNK: usize = 2 << 10;
    const MEDIUM_MAX: usize = 700;
    const MEDIUM_ALIGN: usize = 8;
    const MEDIUM_CHUNK: usize = 2 << 10;
    const RETAIN: usize = 0;
}

const _: () = assert!(
    (Tiny::SMALL_CHUNK - SLACK - headers::<Tiny>()[0]) / Tiny::SMALL_MAX == 2,
    "a chunk has two blocks"
);

type Model = super::Model<Tiny>;
type Thread<'w> = super::Thread<'w, Tiny>;

#[test]
fn loom_remote_free_beside_the_owners_free() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (mine, yours) = (thread.allocate(), thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(yours));
        thread.free(mine);
        thread.trim();
        other.join().unwrap();
        thread.exit();
        model.nothing_is_held();
    });
}

#[test]
fn loom_two_remote_frees_in_one_chunk_free_it() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let others = [thread.allocate(), thread.allocate()].map(|block| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(block))
        });
        thread.trim();
        for other in others {
            other.join().unwrap();
        }
        thread.exit();
        model.nothing_is_held();
    });
}

#[test]
fn loom_chunk_is_reused_only_after_its_remote_frees() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (first, second) = (thread.allocate(), thread.allocate());
        let there = model.clone();
        let other = thread::spawn(move || {
            // SAFETY: the block belongs to this thread until it is freed.
            unsafe { first.0.write_bytes(2, Tiny::SMALL_MAX) };
            there.free_elsewhere(first);
        });
        thread.free(second);
        // The other thread's progress decides whether this block comes from the same chunk or a new
        // chunk.
        let third = thread.allocate();
        thread.free(third);
        other.join().unwrap();
        thread.exit();
        model.nothing_is_held();
    });
}

#[test]
fn loom_owner_exits_beside_remote_frees() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (first, second) = (thread.allocate(), thread.allocate());
        let others = [first, second].map(|block| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(block))
        });
        thread.exit();
        for other in others {
            other.join().unwrap();
        }
        model.nothing_is_held();
    });
}

#[test]
fn loom_owner_exits_beside_a_remote_free_and_a_trim() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let block = thread.allocate();
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(block));
        let there = model.clone();
        let cleaner = thread::spawn(move || clean(ModelRealm(&there.0)));
        thread.exit();
        other.join().unwrap();
        cleaner.join().unwrap();
        model.nothing_is_held();
    });
}

#[test]
fn loom_next_holder_reuses_the_heap_of_an_ended_thread() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let kept = thread.allocate();
        let there = model.clone();
        let next = thread::spawn(move || {
            let thread = Thread::start(&there);
            let block = thread.allocate();
            thread.free(kept);
            thread.free(block);
            thread.exit();
        });
        thread.exit();
        next.join().unwrap();
        model.nothing_is_held();
    });
}

#[test]
fn loom_statistics_walk_beside_the_owner() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let there = model.clone();
        let reader = thread::spawn(move || {
            let stats = stats(ModelRealm(&there.0));
            assert!(stats.blocks_live() <= 3);
        });
        // The owner fills one chunk, takes a second chunk, and frees the first.
        let (first, second) = (thread.allocate(), thread.allocate());
        let third = thread.allocate();
        thread.free(first);
        thread.free(second);
        reader.join().unwrap();
        thread.free(third);
        thread.exit();
        model.nothing_is_held();
    });
}

/// Two threads free the two blocks of an exited thread. A chunk with a live block is abandoned, and
/// the last free frees the chunk.
#[test]
fn loom_abandoned_chunk_is_freed_with_its_last_block() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let blocks = [thread.allocate(), thread.allocate()];
        thread.exit();
        let others = blocks.map(|block| {
            let there = model.clone();
            thread::spawn(move || there.free_elsewhere(block))
        });
        for other in others {
            other.join().unwrap();
        }
        model.nothing_is_held();
    });
}

/// A chunk may be abandoned while the record's next holder and another thread free its blocks.
#[test]
fn loom_next_holder_frees_in_an_abandoned_chunk() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let (first, second) = (thread.allocate(), thread.allocate());
        thread.exit();
        let there = model.clone();
        let other = thread::spawn(move || there.free_elsewhere(first));
        let next = Thread::start(&model);
        next.free(second);
        let third = next.allocate();
        next.free(third);
        next.exit();
        other.join().unwrap();
        model.nothing_is_held();
    });
}

/// Another thread frees a block of the front, and purges the chunk if it can. At the same time, the
/// owner replaces the chunk as the front, and later uses its memory again.
#[test]
fn loom_chunk_is_purged_while_its_owner_replaces_the_front() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let first = thread.allocate();
        let other = thread.free_and_purge(&model, first);
        // Only the first of these two blocks fits into the chunk, so the allocation of the second
        // one replaces the front.
        let blocks = [(); 2].map(|()| thread.allocate());
        for block in blocks {
            thread.free(block);
        }
        let again = [(); 2].map(|()| thread.allocate());
        other.join().unwrap();
        for block in again {
            thread.free(block);
        }
        thread.exit();
        model.nothing_is_held();
    });
}

/// The owner frees a block and exits, while another thread frees the chunk's other block and purges
/// the chunk.
#[test]
fn loom_chunk_is_purged_after_its_owners_last_use_of_it() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let [mine, last, front] = [(); 3].map(|()| thread.allocate());
        let other = thread.free_and_purge(&model, last);
        thread.free(mine);
        thread.free(front);
        thread.exit();
        other.join().unwrap();
        model.nothing_is_held();
    });
}

/// Two threads free the two blocks of a chunk, and one of them purges the chunk.
#[test]
fn loom_chunk_is_purged_after_the_last_use_by_other_threads() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let [first, second, front] = [(); 3].map(|()| thread.allocate());
        let there = model.clone();
        let frees = thread::spawn(move || there.free_elsewhere(first));
        let purges = thread.free_and_purge(&model, second);
        frees.join().unwrap();
        purges.join().unwrap();
        thread.free(front);
        thread.exit();
        model.nothing_is_held();
    });
}

/// A chunk may be lent while its owner exits, so that the owner cannot book the chunk's frees.
#[test]
fn loom_chunk_that_is_lent_while_its_owner_exits_is_freed() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let block = thread.allocate();
        let other = thread.free_and_purge(&model, block);
        thread.exit();
        other.join().unwrap();
        model.nothing_is_held();
    });
}

/// Two threads free the two blocks of a chunk of an ended thread. The first thread drains the
/// record and abandons the chunk, while the second thread evicts the chunk if it can.
#[test]
fn loom_chunk_is_evicted_while_another_thread_drains_its_record() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let [first, second, front] = [(); 3].map(|()| thread.allocate());
        let record = thread.sent_record();
        thread.exit();
        let there = model.clone();
        let drains = thread::spawn(move || there.free_elsewhere(first));
        let evicts = model.free_and_purge([second], record);
        drains.join().unwrap();
        evicts.join().unwrap();
        model.free_elsewhere(front);
        model.nothing_is_held();
    });
}

/// The owner has two chunks, each with one live block, and a front. Another thread frees the block
/// of the older chunk and evicts the chunk, while `beside` runs and the owner frees the newer
/// chunk.
fn evict_beside(beside: impl Fn(&Model) -> Option<thread::JoinHandle<()>> + Send + Sync + 'static) {
    check(move || {
        let model = Model::new();
        let thread = Thread::start(&model);
        let [freed, older] = [(); 2].map(|()| thread.allocate());
        let [also_freed, newer] = [(); 2].map(|()| thread.allocate());
        let front = thread.allocate();
        thread.free(freed);
        thread.free(also_freed);
        let evicts = thread.free_and_purge(&model, older);
        let beside = beside(&model);
        thread.free(newer);
        evicts.join().unwrap();
        beside.into_iter().for_each(|beside| beside.join().unwrap());
        thread.free(front);
        thread.exit();
        model.nothing_is_held();
    });
}

#[test]
fn loom_chunk_is_evicted_while_its_owner_frees_a_newer_one() {
    evict_beside(|_| None);
}

#[test]
fn loom_chunk_is_evicted_beside_a_walk() {
    evict_beside(|model| {
        let there = model.clone();
        Some(thread::spawn(move || _ = stats(ModelRealm(&there.0))))
    });
}

/// The owner books the free of one block of a chunk, while another thread frees the other block and
/// evicts the chunk.
#[test]
fn loom_chunk_is_evicted_while_its_owner_books_its_frees() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let [first, second, front] = [(); 3].map(|()| thread.allocate());
        model.free_elsewhere(first);
        let evicts = thread.free_and_purge(&model, second);
        thread.trim();
        evicts.join().unwrap();
        thread.free(front);
        thread.exit();
        model.nothing_is_held();
    });
}

/// The owner replaces a chunk as the front, while another thread frees both blocks of the chunk and
/// evicts it.
#[test]
fn loom_chunk_is_evicted_right_after_its_owner_replaced_the_front() {
    check(|| {
        let model = Model::new();
        let thread = Thread::start(&model);
        let blocks = [(); 2].map(|()| thread.allocate());
        let evicts = model.free_and_purge(blocks, thread.sent_record());
        let front = thread.allocate();
        evicts.join().unwrap();
        thread.free(front);
        thread.exit();
        model.nothing_is_held();
    });
}
